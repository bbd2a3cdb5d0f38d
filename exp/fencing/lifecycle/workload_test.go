// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

// What a kubelet has read of its Pod.
const (
	unread = iota
	toRun
	toStop
)

// pod is a Pod on the Node, its container and the kubelet. The container writes to its storage while it runs.
type pod struct {
	object, terminating, runs bool
	view                      int
	// evicts and outOfService are taints of the Node.
	evicts, outOfService bool
	// silent: the kubelet does not reach the API server. down: the machine has lost its power, or was reset, and has not booted since.
	silent, down bool
	// proven: the last answer is OFF, and was asked for after the Pod was terminating.
	proven bool
	// crashed: the kernel writes a dump. confirmed: a person confirms that the machine is off.
	crashed, confirmed bool
	resets             int
	// boots counts boots. The Node has the last one that its kubelet has reported.
	boots int
}

// beginWorkload adds a Pod to the first world.
func (p *premise) beginWorkload(w *world) {
	if !p.workload {
		return
	}
	w.pod = pod{object: true, runs: true, view: toRun, silent: true}
	switch {
	case p.neighbors:
		// The kubelet reports, and another machine is switched off.
		w.ready, w.pod.silent = corev1.ConditionFalse, false
	case p.drains:
		w.ready, w.pod.silent = corev1.ConditionTrue, false
	case p.dumps:
		w.pod.crashed, w.pod.runs, w.pod.view, w.pod.down = true, false, unread, true
	}
	if p.offBefore {
		w.losePower()
	}
}

// workloadOf is what is read of the Pod.
func (w *world) workloadOf() *lifecycle.Workload {
	read := &lifecycle.Workload{}
	if w.pod.object {
		read.Pods = 1
		if !w.pod.terminating {
			read.Staying = 1
		}
	}
	return read
}

// losePower ends the container, and what the kubelet has read.
func (w *world) losePower() {
	w.pod.runs, w.pod.view, w.pod.down, w.pod.silent, w.pod.crashed = false, unread, true, false, false
}

// performWorkload performs an effect on the Pod.
func (w *world) performWorkload(effect lifecycle.Effect) {
	switch effect { //nolint:exhaustive // Others do not change the Pod.
	case lifecycle.AddNoExecute:
		w.pod.evicts = true
	case lifecycle.AddOutOfService:
		w.pod.outOfService = true
	case lifecycle.RemoveOutOfService:
		w.pod.outOfService = false
	case lifecycle.RemoveTaint:
		w.pod.evicts = false
	case lifecycle.TerminatePods, lifecycle.EvictPods:
		w.pod.terminating = w.pod.object
	case lifecycle.RemovePods:
		w.pod.object = w.pod.object && !w.pod.terminating
	}
}

// workloadMoves are what the kubelet, Kubernetes and persons do.
func (e *explorer) workloadMoves(w *world, add func(string, bool, bool, func(*world))) {
	p, at := e.p, &w.pod
	if !p.workload {
		return
	}
	power, ends := w.hasPower(), at.terminating || !at.object
	reports := power && !at.down && !at.silent
	add("kubelet lists", reports && at.view == unread && at.object, true, func(n *world) {
		if n.pod.view = toRun; n.pod.terminating {
			n.pod.view = toStop
		}
	})
	add("kubelet reads the end", reports && at.view == toRun && ends, true, func(n *world) { n.pod.view = toStop })
	// A volume that the Node is cut off from cannot be mounted.
	mounts := !w.fabric.off || len(p.levels) > 0
	add("Pod starts", power && !at.down && at.view == toRun && !at.runs && mounts, true, func(n *world) { n.pod.runs = true })
	add("Pod stops", power && !at.down && at.view == toStop && at.runs, true, func(n *world) { n.pod.runs = false })
	add("kubelet reports again", reports && w.boot == at.boots && w.ready == corev1.ConditionUnknown, true,
		func(n *world) { n.ready = corev1.ConditionTrue })
	add("kubelet deletes the Pod", reports && at.view == toStop && !at.runs && at.object && at.terminating, true,
		func(n *world) { n.pod.object, n.pod.view = false, unread })
	add("taint evicts", (at.evicts || at.outOfService) && at.object && !at.terminating, true, func(n *world) { n.pod.terminating = true })
	add("PodGC", at.outOfService && w.ready != corev1.ConditionTrue && at.object && at.terminating, true,
		func(n *world) { n.pod.object = false })
	add("machine boots", power && at.down && !at.crashed && at.boots < 2, true, func(n *world) {
		n.pod.boots, n.pod.down = n.pod.boots+1, false
	})
	// It may run Pods before that.
	// Where only the storage is isolated, a kubelet that reports a boot has also read which Pods were removed.
	read := len(p.levels) > 0 || !ends || at.view != toRun
	add("kubelet reports a boot", reports && w.boot != at.boots && read, true,
		func(n *world) { n.boot, n.ready = at.boots, corev1.ConditionTrue })
	add("kubelet stops reporting", !reports && w.ready != corev1.ConditionUnknown, true, func(n *world) { n.ready = corev1.ConditionUnknown })
	add("kubelet reports", p.nodeRecovers && power && at.silent && w.flips < 1, false,
		func(n *world) { n.pod.silent, n.ready, n.flips = false, corev1.ConditionTrue, n.flips+1 })
	add("scheduled", p.drains && !at.object && w.taint == "" && at.resets < 1 && reports, false, func(n *world) {
		n.pod.object, n.pod.terminating, n.pod.view, n.pod.resets = true, false, unread, n.pod.resets+1
	})
	// The isolation ends after a boot that the kubelet reports. One before the isolation, which it has not reported, is documented.
	resettable := len(p.levels) > 0 || w.status().Evidence != nil
	add("machine is reset", p.resets && resettable && power && !at.down && at.resets < 1, false, func(n *world) {
		n.losePower()
		n.pod.resets++
	})
	add("dump ends", at.crashed, true, func(n *world) { n.pod.crashed = false })
	add("person cuts the power", p.confirms && !w.pdu.off && w.switches < 1, false, func(n *world) {
		n.pdu.off, n.switches = true, 1
		n.losePower()
	})
	add("person confirms", p.confirms && w.pdu.off && !at.confirmed, true, func(n *world) { n.pod.confirmed = true })
	released := w.status().Release != nil && w.status().Release.EndedAt != nil
	add("person restores the power", p.confirms && w.pdu.off && at.confirmed && released, true, func(n *world) { n.pdu.off = false })
}

// verifyWorkload verifies what a decision does to the Pod.
func (e *explorer) verifyWorkload(w *world, o *lifecycle.Observation, out *lifecycle.Outcome, holds func(bool, string)) {
	at, next := &w.pod, &out.Record
	cut := w.fabric.off && len(e.p.levels) == 0
	holds(!at.runs || at.object || cut, "V1: a Pod was removed and runs")
	if out.Effect == lifecycle.AddOutOfService || out.Effect == lifecycle.RemovePods {
		holds(next.Evidence != nil && next.Release != nil && next.Release.ProvenAt != nil, "V2: Pods are removed without proof")
		holds(at.proven || at.confirmed, "V2: the proof is older than the deletion of the Pod")
		holds(!at.object || at.terminating, "V2: a Pod is removed that does not terminate")
	}
	if out.Effect == lifecycle.AddOutOfService {
		holds(o.Node.Ready == corev1.ConditionUnknown, "V3: the workload of a Node that reports is released")
		holds(next.Release.OutOfServiceTaint, "V8: a taint that is not recorded")
		holds(next.Evidence.Class != fencingv1.EvidenceStorageIsolation, "V2: isolated storage releases a whole Node")
	}
	if out.Effect == lifecycle.RemoveOutOfService {
		holds(at.outOfService && next.Release.OutOfServiceTaint, "V9: a taint of another party is removed")
	}
	if out.Effect == lifecycle.RunJob && next.Action.Action == fencingv1.ActionOn && next.Action.Method == fabric {
		holds(!at.runs || at.object, "V10: the storage of a Pod that was removed and runs is no longer isolated")
	}
}

// verifyEvidence verifies evidence that is recorded now.
func (e *explorer) verifyEvidence(w *world, o *lifecycle.Observation, next *fencingv1.NodeFenceStatus, holds func(bool, string)) {
	names := e.p.plan.StorageIsolation()
	switch next.Evidence.Class {
	case fencingv1.EvidenceKernelDump:
		holds(e.p.dumps, "V4: evidence of a kernel that has not crashed")
		return
	case fencingv1.EvidenceAcknowledged:
		holds(w.pod.confirmed, "V4: a confirmation that no person has given")
		return
	case fencingv1.EvidencePowerOff:
		names = o.Plan.Levels[next.Evidence.Level]
	case fencingv1.EvidenceStorageIsolation:
	}
	for _, name := range names {
		device := w.device(name)
		if e.p.neighbors && name == bmc {
			device = &w.neighbor
		}
		holds(device.answer == fencingv1.PowerOff, "V4: evidence, and "+string(name)+" has not answered OFF after the last action")
	}
}
