// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

type (
	methods = []fencingv1.MethodName
	broken  = map[fencingv1.MethodName]bool
)

var (
	one  = []methods{{bmc}}
	two  = []methods{{bmc}, {pdu}}
	both = []methods{{bmc, pdu}}
)

// premises are the worlds that are explored. Each has crashes before every effect, and Jobs that are deleted or whose result is unknown.
func premises() []premise {
	return []premise{
		{name: "one level", levels: one, restarts: 1, deletes: true, cancels: true},
		{name: "two levels", levels: two, deletes: true},
		{name: "two supplies", levels: both, restarts: 1, cancels: true},
		{name: "isolation", levels: one, isolation: true, deletes: true},
		{name: "isolation only", isolation: true, restarts: 1, deletes: true, nodeRecovers: true},
		{name: "first device dead", levels: two, dead: broken{bmc: true}, restarts: 1, deletes: true},
		{name: "all devices dead", levels: two, isolation: true, dead: broken{bmc: true, pdu: true, fabric: true}, restarts: 1, deletes: true},
		{name: "switch dead", levels: one, isolation: true, dead: broken{fabric: true}, deletes: true},
		{name: "device ignores off", levels: one, ignoresOff: broken{bmc: true}, restarts: 1, deletes: true, nodeRecovers: true},
		{name: "person at the switch", levels: one, person: true},
		{name: "off before", levels: one, offBefore: true, deletes: true},
		{name: "Node recovers", levels: one, nodeRecovers: true, cancels: true},
		{name: "Node replaced", levels: one, replaces: true, deletes: true},
		{name: "Machine deleted", levels: one, targetGoes: true},
		{name: "paused", levels: one, pauses: true, deletes: true},
		{name: "limits", levels: one, limits: true, deletes: true},
		{name: "two fences", levels: one, otherFence: true, untaints: true, deletes: true},
		{name: "taint removed after isolation", levels: one, isolation: true, untaints: true, nodeRecovers: true},
		{name: "profile deleted", levels: one, profileGoes: true, restarts: 1, deletes: true},
		{name: "profile and isolation deleted", isolation: true, profileGoes: true, deletes: true},
		{name: "row changed", levels: one, rowChanges: true, restarts: 1, deletes: true},
		{name: "row changed on two levels", levels: two, rowChanges: true},
		{name: "more fences than allowed", levels: one, parallel: true, deletes: true},
		{name: "unreadable", levels: one, unreadable: true, restarts: 1, deletes: true},
		{name: "Jobs hang", levels: one, jobsHang: true, restarts: 1, deletes: true},
		{name: "release", levels: one, workload: true, restarts: 1, deletes: true},
		{name: "release, person at the switch", levels: one, workload: true, person: true},
		{name: "release, kubelet returns", levels: one, workload: true, nodeRecovers: true, resets: true, deletes: true},
		{name: "release, two levels", levels: two, workload: true, dead: broken{bmc: true}, resets: true},
		{name: "release, off before", levels: one, workload: true, offBefore: true, person: true},
		{name: "release, row of a neighbor", levels: one, workload: true, neighbors: true, deletes: true},
		{name: "release of storage", isolation: true, workload: true, nodeRecovers: true, resets: true, deletes: true},
		{
			name: "release after a confirmation", levels: one, dead: broken{bmc: true}, workload: true, confirms: true, deletes: true,
		},
		{name: "release after a kernel dump", levels: two, workload: true, dumps: true, restarts: 1},
		{name: "drain", levels: one, workload: true, drains: true, resets: true},
		{name: "drain, paused", levels: one, workload: true, drains: true, pauses: true, untaints: true},
		{name: "release, profile deleted", levels: one, workload: true, profileGoes: true},
		{name: "release, unreadable", levels: one, workload: true, unreadable: true, resets: true},
		{name: "check of devices", levels: two, isolation: true, mode: fencingv1.CheckDevices, dead: broken{pdu: true}, deletes: true},
	}
}

// mustHappen are the events that a premise is about.
func (p *premise) mustHappen() []string {
	var all []string
	for event, can := range map[string]bool{
		"request deleted": p.deletes, "request canceled": p.cancels, "paused": p.pauses, "Machine deleted": p.targetGoes,
		"Node recovers": p.nodeRecovers && !p.workload, "kubelet reports": p.nodeRecovers && p.workload,
		"Node replaced": p.replaces, "taint removed": p.untaints, "limit exceeded": p.limits,
		"person switches": p.person, "profile deleted": p.profileGoes, "unreadable": p.unreadable, "other fence": p.otherFence,
		"row changed": p.rowChanges, "row corrected": p.rowChanges, "smaller fence": p.parallel, "larger fence steps back": p.parallel,
		"Job ends unknown": true, "Job deleted": true, "machine is reset": p.resets, "person confirms": p.confirms, "dump ends": p.dumps,
		"PodGC": p.workload && len(p.levels) > 0 && !p.neighbors && !p.drains, "scheduled": p.drains,
	} {
		if can {
			all = append(all, event)
		}
	}
	return all
}

// verify fails if a decision breaks an invariant. The numbers are those of the specification.
func (e *explorer) verify(w *world, record *fencingv1.NodeFenceStatus, o *lifecycle.Observation, out *lifecycle.Outcome) {
	next := &out.Record
	holds := func(is bool, what string) {
		if !is {
			e.Expect(is).To(BeTrue(), "%s\n%s\n%+v", what, e.trace(), *w)
		}
	}
	began := out.Effect == lifecycle.RunJob && (record.Action == nil || record.Action.Ended)
	if out.Effect == lifecycle.RunJob {
		holds(next.Node != nil, "V8: a Job without a recorded Node")
		holds(next.Action != nil && !next.Action.Ended, "V8: a Job without a recorded action")
		holds(began || *next.Action == *record.Action, "V8: an action replaces one that has not ended")
		switches := next.Action.Action == fencingv1.ActionOff && (!e.p.dumps || next.Action.Method != bmc) && len(e.p.levels) > 0
		holds(!switches || o.Node.Ready != corev1.ConditionTrue || next.Drained != nil, "V6: a Job switches a Ready Node off")
	}
	if began {
		e.verifyAction(w, record, o, next, holds)
	}
	if next.Evidence != nil && record.Evidence == nil {
		e.verifyEvidence(w, o, next, holds)
	}
	e.verifyWorkload(w, o, out, holds)
	holds(!w.neighbor.off || e.p.neighbors, "V4: the machine of another Node is switched off")
	disproved := slices.ContainsFunc(record.Methods, func(m fencingv1.MethodRecord) bool { return m.Power == fencingv1.PowerOn })
	dump := record.Evidence != nil && record.Evidence.Class == fencingv1.EvidenceKernelDump
	releasing := record.Release != nil && record.Release.EndedAt == nil || e.p.confirms
	holds(record.Evidence == nil || next.Evidence != nil || disproved || dump || releasing, "V8: evidence is lost")
	for i := range record.Methods {
		holds(record.Methods[i].OffRequested == nil || next.Methods[i].OffRequested != nil, "V8: a requested off is forgotten")
	}
	admitting := record.Phase == "" || record.Phase == fencingv1.PhaseNew && record.Step == fencingv1.StepIsolation
	if record.Node != nil && !admitting && record.Phase != fencingv1.PhaseFinal && record.Node.UID != o.Node.UID && !w.unreadable {
		holds(out.Effect == lifecycle.NoEffect, "V11: an effect for another Node")
	}
	switch out.Effect {
	case lifecycle.AddTaint:
		free := w.taint == "" && !w.deleting && !w.canceled && !w.targets && !w.paused
		ready := w.ready == corev1.ConditionTrue && len(e.p.levels) > 0 && !e.p.drains
		holds(free && w.finalizer && !ready, "V12: a taint without admission")
		holds(!w.overLimit && !w.unreadable && w.others == "", "V14: admitted above a limit")
		holds(next.Node != nil && next.Node.UID == o.Node.UID, "V8: a taint without a recorded Node")
	case lifecycle.RemoveTaint:
		holds(w.taint == ours, "V9: the taint of another fence is removed")
	case lifecycle.Finish:
		holds(record.Phase == fencingv1.PhaseFinal, "V12: finished before the end")
	case lifecycle.DeleteJob:
		holds(w.job.exists && !w.job.finished, "V8: a Job that has ended is deleted")
	case lifecycle.Unblock:
		holds(w.taint != ours && record.Node == nil, "V12: the finalizer is removed, and something is to undo")
	case lifecycle.NoEffect, lifecycle.AddFinalizer, lifecycle.RunJob, lifecycle.EvictPods, lifecycle.AddNoExecute, lifecycle.TerminatePods,
		lifecycle.AddOutOfService, lifecycle.RemovePods, lifecycle.RemoveOutOfService:
	}
	if e.p.mode == fencingv1.CheckDevices {
		nothing := out.Effect == lifecycle.NoEffect || out.Effect == lifecycle.Finish
		holds(nothing || next.Action.Action == fencingv1.ActionStatus, "a check changes something")
	}
	if next.Phase == fencingv1.PhaseFinal && record.Phase != fencingv1.PhaseFinal {
		e.verifyEnd(w, next, holds)
	}
}

// verifyAction verifies an action that begins.
func (e *explorer) verifyAction(
	w *world, record *fencingv1.NodeFenceStatus, o *lifecycle.Observation, next *fencingv1.NodeFenceStatus, holds func(bool, string),
) {
	holds(!w.job.exists || w.job.finished, "V4: a Job begins while another one runs")
	var m fencingv1.MethodRecord
	for i := range next.Methods {
		if next.Methods[i].Name == next.Action.Method {
			m = next.Methods[i]
		}
	}
	power := m.Step == fencingv1.StepPowerManagement
	first := true
	for i := range record.Methods {
		first = first && (record.Methods[i].Step != fencingv1.StepPowerManagement || record.Methods[i].OffRequested == nil)
	}
	switch next.Action.Action {
	case fencingv1.ActionOff:
		if e.p.dumps && m.Name == bmc {
			holds(m.OffRequested == nil, "V5: a method that switches nothing is switched on later")
			return
		}
		holds(m.OffRequested != nil, "V8: off is not recorded")
		holds(record.Step != fencingv1.StepRecovery, "V8: off during the recovery")
		holds(record.Evidence == nil, "V8: off after evidence")
		drained := next.Drained != nil && !w.pod.object || o.Node.Ready != corev1.ConditionTrue
		holds(!power || o.Node.State == lifecycle.NodePresent && drained, "V6: a Ready Node is switched off")
		if power && first {
			holds(w.taint == ours, "V7: off without the lock of the Node")
			holds(!w.overLimit, "V14: off above a limit")
		}
		if !power || first {
			holds(!w.deleting && !w.canceled && !w.targets && !w.paused, "V12: off after the request was withdrawn")
		}
	case fencingv1.ActionOn:
		holds(m.OffRequested != nil, "V5: on of what this fence has not switched off")
		holds(record.Step == fencingv1.StepRecovery, "V5: on before the recovery")
		holds(!power || record.Evidence != nil || record.Result == fencingv1.ResultFailed || record.Reason == lifecycle.ReasonNodeReady ||
			record.Restarts > 0, "V5: on before the end of the attempt")
		holds(!w.targets || !power, "V11: on for a Machine that is being deleted")
	case fencingv1.ActionStatus:
		holds(record.Step != fencingv1.StepRecovery, "a status during the recovery")
	case fencingv1.ActionRun:
	}
}

// verifyEnd verifies what is left at the end.
func (e *explorer) verifyEnd(w *world, s *fencingv1.NodeFenceStatus, holds func(bool, string)) {
	if s.Reason == lifecycle.ReasonNodeReplaced || s.Reason == lifecycle.ReasonMoved || e.p.mode == fencingv1.CheckDevices {
		return
	}
	holds(w.taint != ours || w.unreadable && s.Node == nil, "V12: the taint is left")
	left := false
	for i := range s.Methods {
		left = left || s.Methods[i].GivenUp
	}
	if !left {
		holds(!w.fabric.off, "V12: the isolation is left, and no record has it")
		holds(!w.bmc.off && !w.pdu.off || e.p.person || e.p.offBefore || e.p.confirms, "V12: the Node is left off, and no record has it")
	}
	if s.Result == fencingv1.ResultCanceled {
		holds(!lifecycle.SwitchedOff(s) && !left, "V12: canceled after the Node was switched off")
	}
}
