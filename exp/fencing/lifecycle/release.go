// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// releasePoll is how often Pods are read while they are released.
const releasePoll = time.Second

// evictionTime is how long the taint has to evict Pods. A Pod can tolerate it for any time, so those that stay are deleted after that.
const evictionTime = 30 * time.Second

// release is Done/PowerManagement, in the order: terminate, prove, remove. A kubelet never starts a Pod that is terminating. So if the Node
// is proven off after all of them were, none of them runs, also if the machine is switched on later. Without anything to release,
// the devices are asked again too, because one that is just switching may answer anything.
func (s *step) release() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if !SwitchedOff(s.r) && !s.removes() {
		switch {
		case s.o.withdrawn():
			s.r.Result, s.r.Reason = fencingv1.ResultCanceled, s.withdrawal()
			s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
			return s.changed()
		case s.o.Paused:
			return s.wait(Why{Reason: ReasonPaused}, s.now.Add(blockedPoll))
		case s.o.Observe:
			return s.wait(Why{Reason: ReasonObserveMode}, s.now.Add(blockedPoll))
		}
	}
	if s.booted() {
		// Another party has switched the machine on, or its kernel dump has ended. Its kubelet ends Pods that are terminating.
		return s.rejoined(ReasonRejoined)
	}
	for _, next := range []func() (Outcome, bool){s.terminate, s.prove, s.remove} {
		if out, done := next(); !done {
			return out
		}
	}
	s.to(fencingv1.PhaseNew, fencingv1.StepRecovery)
	return s.changed()
}

// removes reports whether Pods may have been removed.
func (s *step) removes() bool { return s.r.Release != nil && s.r.Release.ProvenAt != nil }

// terminate waits until every Pod has a deletion timestamp.
func (s *step) terminate() (_ Outcome, done bool) {
	release, workload := s.r.Release, s.o.Workload
	if !releasing(s.r, s.o.Spec) || release != nil && release.TerminatingAt != nil {
		return Outcome{}, true
	}
	began := s.r.Since.Time
	if release != nil && began.Before(release.StartedAt.Time) {
		began = release.StartedAt.Time
	}
	switch {
	case release == nil && workload != nil && workload.Pods == 0 && workload.Attachments == 0:
		s.r.Release = &fencingv1.ReleaseRecord{Scope: s.scope(), StartedAt: *s.time(), EndedAt: s.time()}
		return s.changed(), false
	case release == nil && workload != nil && s.silent():
		s.r.Release = &fencingv1.ReleaseRecord{Scope: s.scope(), StartedAt: *s.time()}
		s.expire(releaseTimeout(s.o.Spec))
		return s.changed(), false
	case release != nil && workload != nil && workload.Staying == 0 && s.silent():
		release.TerminatingAt, release.Pods = s.time(), int32(workload.Pods) //nolint:gosec // A Node has few Pods.
		s.forgetAnswers()
		return s.changed(), false
	case !s.now.Before(began.Add(releaseTimeout(s.o.Spec))):
		return s.notReleased(), false
	case workload == nil:
		return s.wait(s.o.unresolved(), s.now.Add(poll)), false
	case !s.silent():
		return s.wait(Why{Reason: ReasonNodeStillReports}, s.now.Add(releasePoll)), false
	}
	out := s.wait(Why{Reason: ReasonWaitingForPods, Count: workload.Staying}, s.now.Add(releasePoll))
	switch byTaint := release.Scope == fencingv1.ScopeNode && s.o.Spec.Release.PodsPerSecond == 0; {
	case byTaint && !s.o.Node.Evicts:
		out.Effect = AddNoExecute
	case !byTaint, !s.now.Before(release.StartedAt.Add(evictionTime)):
		out.Effect = TerminatePods
	}
	return out, false
}

// prove asks each device of the evidence again. Without a release, nothing depends on the answers, so a device that no longer answers does
// not keep the machine off.
func (s *step) prove() (_ Outcome, done bool) {
	needed := releasing(s.r, s.o.Spec)
	person := s.r.Evidence.Class == fencingv1.EvidenceAcknowledged
	switch {
	case s.removes(), !needed && (person || s.o.Plan == nil || s.o.TargetGone):
		return Outcome{}, true
	case person:
		return s.provenAgain(), false
	case s.o.Plan == nil && !s.now.Before(s.r.Since.Add(releaseTimeout(s.o.Spec))):
		return s.notReleased(), false
	case s.o.Plan == nil:
		return s.wait(s.o.unresolved(), s.now.Add(poll)), false
	}
	names, use := s.witnesses()
	if needed && len(names) == 0 {
		// The profile no longer has what has proven it.
		return s.disproved(), false
	}
	for _, name := range names {
		m, dumps := s.current(name, use), s.dumps(name)
		switch {
		case m.Power == fencingv1.PowerOn, dumps && m.Power == fencingv1.PowerUnknown:
			return s.disproved(), false
		case m.Confirmed, !needed && (s.exhausted(m) || dumps):
		case !s.known(name):
			return s.fail(ReasonDeviceChanged), false
		case s.exhausted(m):
			return s.disproved(), false
		case dumps:
			return s.begin(m, fencingv1.ActionOff), false
		default:
			return s.begin(m, fencingv1.ActionStatus), false
		}
	}
	if needed {
		return s.provenAgain(), false
	}
	return Outcome{}, true
}

// provenAgain lets the Pods be removed.
func (s *step) provenAgain() Outcome {
	s.r.Release.ProvenAt = s.time()
	s.expire(releaseTimeout(s.o.Spec))
	return s.changed()
}

// witnesses are the methods that have given the evidence, and the step that uses them. A person is none.
func (s *step) witnesses() ([]fencingv1.MethodName, fencingv1.FenceStep) {
	switch s.r.Evidence.Class {
	case fencingv1.EvidencePowerOff, fencingv1.EvidenceKernelDump:
		return s.o.Plan.Level(s.r.Evidence.Level), fencingv1.StepPowerManagement
	case fencingv1.EvidenceStorageIsolation:
		return s.o.Plan.StorageIsolation(), fencingv1.StepIsolation
	case fencingv1.EvidenceAcknowledged:
	}
	return nil, ""
}

// disproved takes evidence back: a device answered ON or nothing, a kernel dump has ended, or a person has removed the confirmation.
func (s *step) disproved() Outcome {
	class := s.r.Evidence.Class
	if s.r.Release != nil {
		s.r.Release.ProvenAt = nil
	}
	if s.r.Evidence = nil; class == fencingv1.EvidenceStorageIsolation {
		return s.fail(ReasonNotIsolated)
	}
	s.to(fencingv1.PhaseRunning, fencingv1.StepPowerManagement)
	return s.changed()
}

// forgetAnswers requires that each device is asked again.
func (s *step) forgetAnswers() {
	for i := range s.r.Methods {
		s.r.Methods[i].Confirmed = false
	}
}

// remove waits until the Pods are removed. Those that are left after the timeout are terminating, so the machine can be switched on.
func (s *step) remove() (_ Outcome, done bool) {
	if !releasing(s.r, s.o.Spec) {
		return Outcome{}, true
	}
	release, workload := s.r.Release, s.o.Workload
	storage := release.Scope == fencingv1.ScopeStorage
	tainted := release.OutOfServiceTaint || s.o.Node.OutOfService
	switch {
	case !tainted && !s.stillProven():
		return s.disproved(), false
	case workload != nil && workload.Pods == 0 && workload.Attachments == 0:
		release.EndedAt = s.time()
		return s.changed(), false
	case s.overdue() && s.o.Node.State == NodePresent && !s.silent():
		return s.notReleased(), false
	case s.overdue() && (workload == nil || tainted || storage):
		release.EndedAt, release.Left = s.time(), []string{"the Pods of the Node, which cannot be read"}
		if workload != nil {
			release.Left = workload.Names
		}
		out := s.changed()
		if storage && workload != nil {
			// The manager may have been stopped since the proof.
			out.Effect = RemovePods
		}
		return out, false
	case workload == nil:
		return s.wait(s.o.unresolved(), s.now.Add(poll)), false
	case !s.silent():
		return s.wait(Why{Reason: ReasonNodeStillReports}, s.now.Add(releasePoll)), false
	case workload.Staying > 0 && !tainted:
		// A Pod was bound to the Node meanwhile: the proof is older than its deletion will be.
		release.TerminatingAt, release.ProvenAt, s.r.Since = nil, nil, s.time()
		return s.changed(), false
	}
	out := s.wait(Why{Reason: ReasonReleasing, Count: workload.Pods, Total: workload.Attachments}, s.now.Add(releasePoll))
	switch {
	case storage:
		out.Effect = RemovePods
	case !s.o.Node.OutOfService:
		if !release.OutOfServiceTaint {
			release.OutOfServiceTaint, s.r.Since = true, s.time()
			s.expire(releaseTimeout(s.o.Spec))
		}
		out.Record, out.Effect = *s.r, AddOutOfService
	}
	return out, false
}

// overdue reports whether Kubernetes, or this fence, had enough time to remove the Pods.
func (s *step) overdue() bool {
	timeout := releaseTimeout(s.o.Spec)
	return !s.now.Before(s.r.Release.ProvenAt.Add(timeout)) && !s.now.Before(s.r.Since.Add(timeout))
}

// stillProven reports whether the second proof holds: a person can take a confirmation back, and more storage can be isolated by now.
func (s *step) stillProven() bool {
	switch s.r.Evidence.Class {
	case fencingv1.EvidenceAcknowledged:
		return s.confirmedOff()
	case fencingv1.EvidenceStorageIsolation:
		return s.o.Plan == nil || !slices.ContainsFunc(s.o.Plan.StorageIsolation(), func(name fencingv1.MethodName) bool {
			return !s.method(name, fencingv1.StepIsolation).Confirmed
		})
	case fencingv1.EvidencePowerOff, fencingv1.EvidenceKernelDump:
	}
	return true
}

// notReleased ends a release that cannot go on. A Node that reports although its machine is proven off has another machine.
func (s *step) notReleased() Outcome {
	if s.o.Node.State == NodePresent && !s.silent() && !s.otherBoot() {
		return s.fail(ReasonWrongMachine)
	}
	return s.fail(ReasonNotReleased)
}

// scope is which Pods the evidence covers.
func (s *step) scope() fencingv1.ReleaseScope {
	if s.r.Evidence.Class == fencingv1.EvidenceStorageIsolation {
		return fencingv1.ScopeStorage
	}
	return fencingv1.ScopeNode
}

// silent reports whether nothing contradicts the evidence. The node controller sets Unknown when the kubelet has been silent for its grace
// period, which it is not if another machine was switched off. A Node without its storage may report.
func (s *step) silent() bool {
	return s.scope() == fencingv1.ScopeStorage || s.o.Node.State == NodePresent && s.o.Node.Ready == corev1.ConditionUnknown
}

// booted reports whether the Node is Ready with another boot than the one that is fenced.
func (s *step) booted() bool { return s.nodeReady() && s.otherBoot() }

// otherBoot reports whether the Node has reported another boot.
func (s *step) otherBoot() bool {
	return s.o.Node.State == NodePresent && s.r.Node.BootID != "" && s.o.Node.BootID != "" && s.o.Node.BootID != s.r.Node.BootID
}

// confirmedOff reports whether a person confirms that the machine is off.
func (s *step) confirmedOff() bool { return s.r.Node != nil && s.o.ConfirmedOff == s.r.Node.UID }

// unfences reports whether the isolation can end: not while writes of a removed Pod may wait in the Node for its storage.
func (s *step) unfences() bool {
	storage := s.r.Release != nil && s.r.Release.Scope == fencingv1.ScopeStorage
	return !storage || !s.removes() || s.r.Rejoined != nil || s.otherBoot() || s.confirmedOff()
}
