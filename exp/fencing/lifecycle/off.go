// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// isolate is Running/Isolation: methods cut the Node off, and others run.
func (s *step) isolate() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if out, stop := s.stopBeforePowerOff(); stop {
		return out
	}
	if out, stop := s.whileReady(); stop {
		return out
	}
	plan := s.o.Plan
	for _, name := range plan.Isolation {
		switch m := s.current(name, fencingv1.StepIsolation); {
		case m.Power == fencingv1.PowerOff && m.OffRequested != nil:
		case s.exhausted(m) || !s.known(name):
			return s.notIsolated()
		case m.OffRequested == nil || m.Power == fencingv1.PowerOn:
			return s.begin(m, fencingv1.ActionOff)
		default:
			return s.begin(m, fencingv1.ActionStatus)
		}
	}
	for _, name := range plan.Run {
		switch m := s.current(name, fencingv1.StepIsolation); {
		case m.Ran != nil:
		case s.exhausted(m):
			return s.notIsolated()
		default:
			return s.begin(m, fencingv1.ActionRun)
		}
	}
	return s.isolated()
}

// notIsolated follows when a method of the isolation has failed. A switch that does not answer must not keep a Node from being switched
// off.
func (s *step) notIsolated() Outcome {
	if len(s.o.Plan.Levels) == 0 {
		return s.fail(ReasonNotIsolated)
	}
	return s.isolated()
}

func (s *step) isolated() Outcome {
	switch {
	case len(s.o.Plan.Levels) > 0:
		s.to(fencingv1.PhaseNew, fencingv1.StepPowerManagement)
		s.expire(powerDelay(s.o.Spec))
	case len(s.o.Plan.StorageIsolation()) > 0 && s.o.Spec.Release.Policy != fencingv1.ReleaseNone:
		if s.o.Node.State != NodePresent {
			return s.wait(s.o.unreadable(), s.now.Add(poll))
		}
		// A later boot is one after the isolation.
		s.r.Node.BootID = s.o.Node.BootID
		return s.proven(fencingv1.EvidenceStorageIsolation)
	default:
		s.to(fencingv1.PhaseNew, fencingv1.StepRecovery)
	}
	return s.changed()
}

// proven records evidence. The workload is released next.
func (s *step) proven(class fencingv1.EvidenceClass) Outcome {
	s.r.Evidence = &fencingv1.Evidence{Class: class, Level: s.r.Level, RecordedAt: *s.time()}
	s.forgetAnswers()
	if release := s.r.Release; release != nil && release.EndedAt == nil && release.Scope != s.scope() {
		// Evidence of another class covers other Pods.
		s.r.Release = nil
	}
	s.to(fencingv1.PhaseDone, fencingv1.StepPowerManagement)
	s.expire(releaseTimeout(s.o.Spec))
	return s.changed()
}

// waitForPower is New/PowerManagement: the Node has some time to become Ready.
func (s *step) waitForPower() Outcome {
	if out, stop := s.stopBeforePowerOff(); stop {
		return out
	}
	if out, stop := s.whileReady(); stop {
		return out
	}
	if until := s.r.Since.Add(powerDelay(s.o.Spec)); s.now.Before(until) {
		return s.wait(Why{Reason: ReasonPowerDelay}, earlier(until, s.now.Add(poll)))
	}
	s.to(fencingv1.PhaseRunning, fencingv1.StepPowerManagement)
	return s.changed()
}

// stopBeforePowerOff is what ends or delays a fence that has not switched the Node off. A fence that has goes on to its end: a Node is
// not left off because its request is withdrawn or paused.
func (s *step) stopBeforePowerOff() (_ Outcome, stop bool) {
	switch {
	case s.o.withdrawn():
		s.r.Result, s.r.Reason = fencingv1.ResultCanceled, s.withdrawal()
		s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		return s.changed(), true
	case s.o.Paused && s.toSwitchOn(fencingv1.StepIsolation) == nil && s.o.Node.State == NodePresent:
		// Nothing is switched off yet: the fence waits as before its admission, so that clusterctl can move it.
		if s.o.Node.Fence == string(s.o.UID) {
			return s.effect(RemoveTaint, s.now), true
		}
		s.to(fencingv1.PhaseNew, fencingv1.StepIsolation)
		return s.changed(), true
	case s.o.Paused:
		return s.wait(Why{Reason: ReasonPaused}, s.now.Add(blockedPoll)), true
	case s.o.Observe:
		return s.wait(Why{Reason: ReasonObserveMode}, s.now.Add(blockedPoll)), true
	case s.o.Plan == nil:
		return s.wait(s.o.unresolved(), s.now.Add(blockedPoll)), true
	}
	return Outcome{}, false
}

// switchOff is Running/PowerManagement: the first level whose methods are all proven off wins.
func (s *step) switchOff() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if !SwitchedOff(s.r) {
		if out, stop := s.stopBeforePowerOff(); stop {
			return out
		}
		if out, stop := s.whileReady(); stop {
			return out
		}
	}
	if s.confirmedOff() {
		return s.proven(fencingv1.EvidenceAcknowledged)
	}
	level := s.o.Plan.Level(s.r.Level)
	if level == nil {
		return s.fail(ReasonNotProvenOff)
	}
	for _, name := range level {
		switch m := s.current(name, fencingv1.StepPowerManagement); {
		case !s.known(name):
			return s.fail(ReasonDeviceChanged)
		case m.Power == fencingv1.PowerOff:
		case s.dumps(name) && m.Ran == nil:
			return s.begin(m, fencingv1.ActionOff)
		case s.dumps(name), s.exhausted(m):
			s.r.Level++
			return s.changed()
		case m.Power == fencingv1.PowerOn:
			return s.commit(m)
		default:
			return s.begin(m, fencingv1.ActionStatus)
		}
	}
	if s.dumps(level[0]) {
		return s.proven(fencingv1.EvidenceKernelDump)
	}
	return s.proven(fencingv1.EvidencePowerOff)
}

// dumps reports whether a method waits for the message of a kernel that has crashed. It switches nothing and is not asked for the power.
// Its messages are not authenticated, and a second try would wait for the end of a dump that has ended.
func (s *step) dumps(name fencingv1.MethodName) bool {
	return s.o.Plan != nil && s.o.Plan.Methods[name].Agent == profile.KernelDumpAgent
}

// commit switches a method off, if the Node may be switched off. The first time is the point after which the fence goes on to its end.
func (s *step) commit(m *fencingv1.MethodRecord) Outcome {
	switch {
	case !SwitchedOff(s.r):
		why := s.o.blocked()
		if why.Reason == ReasonTooManyFences && s.o.Node.Fence == string(s.o.UID) && s.o.Cluster.FencedBefore >= why.Allowed {
			// More fences were admitted than are allowed, as by two leaders, and each would wait for the others: this one begins again.
			return s.effect(RemoveTaint, s.now)
		}
		if why != (Why{}) {
			return s.wait(why, s.now.Add(blockedPoll))
		}
		if s.o.Node.Fence != string(s.o.UID) {
			// Its taint was removed, and with it the admission.
			s.to(fencingv1.PhaseNew, fencingv1.StepIsolation)
			return s.changed()
		}
	case s.nodeReady() && !s.drained():
		// It needs no fence any more. Whatever is off is switched on.
		s.r.Reason = ReasonNodeReady
		s.to(fencingv1.PhaseNew, fencingv1.StepRecovery)
		return s.changed()
	case s.o.Node.State != NodePresent:
		if until := s.actionDeadline(); s.now.Before(until) {
			return s.wait(s.o.unreadable(), earlier(until, s.now.Add(poll)))
		}
		return s.fail(ReasonNotProvenOff)
	}
	if !SwitchedOff(s.r) {
		// A later boot is one after this "off".
		s.r.Node.BootID = s.o.Node.BootID
	}
	return s.begin(m, fencingv1.ActionOff)
}

// checkDevices asks each device once, and changes nothing.
func (s *step) checkDevices() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if s.o.withdrawn() {
		s.r.Result, s.r.Reason = fencingv1.ResultCanceled, s.withdrawal()
		s.to(fencingv1.PhaseFinal, s.r.Step)
		return s.changed()
	}
	if s.o.Plan == nil {
		s.r.Result, s.r.Reason = fencingv1.ResultFailed, ReasonProfileNotResolved
		s.to(fencingv1.PhaseFinal, s.r.Step)
		return s.changed()
	}
	result, reason := fencingv1.ResultSucceeded, ReasonDevicesAnswered
	for _, use := range []fencingv1.FenceStep{fencingv1.StepIsolation, fencingv1.StepPowerManagement} {
		names := s.o.Plan.Isolation
		if use == fencingv1.StepPowerManagement {
			names = slices.Concat(s.o.Plan.Levels...)
		}
		for _, name := range names {
			if s.dumps(name) {
				// It cannot be asked.
				continue
			}
			m := s.current(name, use)
			switch answered := m.Power == fencingv1.PowerOn || m.Power == fencingv1.PowerOff; {
			case !answered && !s.exhausted(m):
				return s.begin(m, fencingv1.ActionStatus)
			case !answered:
				result, reason = fencingv1.ResultFailed, ReasonDeviceFailed
			}
		}
	}
	if s.nodeReady() && slices.ContainsFunc(s.o.Plan.Levels, s.isOff) {
		// A Node that runs has power: the row is that of another machine.
		result, reason = fencingv1.ResultFailed, ReasonWrongMachine
	}
	s.r.Result, s.r.Reason = result, reason
	s.to(fencingv1.PhaseFinal, s.r.Step)
	return s.changed()
}

// isOff reports whether every method of a level has answered OFF.
func (s *step) isOff(level []fencingv1.MethodName) bool {
	return !slices.ContainsFunc(level, func(name fencingv1.MethodName) bool {
		return s.method(name, fencingv1.StepPowerManagement).Power != fencingv1.PowerOff
	})
}
