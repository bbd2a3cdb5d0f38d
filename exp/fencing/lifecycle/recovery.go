// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// switchOn is New/Recovery: whatever this fence has switched off is switched on, and the Node joins again.
func (s *step) switchOn() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if s.o.TargetGone && SwitchedOff(s.r) {
		// The machine is not switched on for a Node that is being deleted.
		s.r.Result, s.r.Reason = fencingv1.ResultFailed, ReasonTargetDeleted
		s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		return s.changed()
	}
	if m := s.toSwitchOn(fencingv1.StepPowerManagement); m != nil {
		acknowledged := s.r.Evidence != nil && s.r.Evidence.Class == fencingv1.EvidenceAcknowledged
		switch {
		case acknowledged && (!s.known(m.Name) || s.exhausted(m)):
			// A person has switched the machine off, and switches it on.
			m.GivenUp = true
			return s.changed()
		case !s.known(m.Name):
			return s.fail(ReasonDeviceChanged)
		case s.exhausted(m):
			return s.notPoweredOn(m)
		}
		return s.begin(m, fencingv1.ActionOn)
	}
	if s.staysAsItIs() {
		return s.keptAsItWas()
	}
	if s.r.PoweredOn == nil {
		s.r.PoweredOn = s.time()
		s.expire(rejoinTimeout(s.o.Spec))
		return s.changed()
	}
	booted := s.nodeReady() && s.o.Node.BootID != s.r.Node.BootID
	until := s.r.PoweredOn.Add(rejoinTimeout(s.o.Spec))
	switch {
	case booted, s.nodeReady() && s.r.Node.BootID == "" && s.r.Evidence != nil:
		return s.rejoined(ReasonRejoined)
	case s.nodeReady() && s.r.Evidence == nil:
		return s.rejoined(ReasonNodeReady)
	case s.now.Before(until):
		return s.wait(Why{Reason: ReasonWaitingForNode}, earlier(until, s.now.Add(poll)))
	case s.nodeReady():
		// It did not boot, although its machine was proven off: another machine was switched off.
		return s.fail(ReasonWrongMachine)
	}
	return s.fail(ReasonNotRejoined)
}

// notPoweredOn follows when a device has not switched on. The machine can run nevertheless: if the device was never proven off, it may
// not have switched anything, and those that were proven off are on again.
func (s *step) notPoweredOn(m *fencingv1.MethodRecord) Outcome {
	var on *metav1.Time
	for i := range s.r.Methods {
		if other := &s.r.Methods[i]; other.Step == m.Step && other.OnSucceeded != nil {
			on = other.OnSucceeded
		}
	}
	if on == nil || s.r.Evidence == nil || slices.Contains(s.o.Plan.Level(s.r.Evidence.Level), m.Name) {
		return s.fail(ReasonNotPoweredOn)
	}
	switch until := on.Add(rejoinTimeout(s.o.Spec)); {
	case s.nodeReady() && s.o.Node.BootID != s.r.Node.BootID:
		m.GivenUp = true
		return s.changed()
	case s.now.Before(until):
		return s.wait(Why{Reason: ReasonWaitingForNode}, earlier(until, s.now.Add(poll)))
	}
	return s.fail(ReasonNotPoweredOn)
}

// staysAsItIs reports whether only a person switches the machine on. One with a kernel dump reboots by itself.
func (s *step) staysAsItIs() bool {
	if s.o.Spec.PowerOn == fencingv1.PowerOnNever && SwitchedOff(s.r) {
		return true
	}
	acknowledged := s.r.Evidence != nil && s.r.Evidence.Class == fencingv1.EvidenceAcknowledged
	switched := slices.ContainsFunc(s.r.Methods, func(m fencingv1.MethodRecord) bool {
		off := m.OffRequested != nil && (!acknowledged || !m.GivenUp)
		return m.Step == fencingv1.StepPowerManagement && (off || m.OnSucceeded != nil)
	})
	return !switched && (s.r.Evidence == nil || s.r.Evidence.Class != fencingv1.EvidenceKernelDump)
}

// keptAsItWas is for a Node that is not switched on: this fence has not switched it off, or leaves that to a person, who may be working on
// it.
func (s *step) keptAsItWas() Outcome {
	reason, off := ReasonNotSwitchedOff, false
	switch {
	case s.o.Spec.PowerOn == fencingv1.PowerOnNever && SwitchedOff(s.r):
		reason, off = ReasonKeptOff, true
	case s.r.Evidence != nil && s.r.Evidence.Class != fencingv1.EvidenceStorageIsolation:
		reason, off = ReasonPoweredOffBefore, true
	}
	switch booted := s.o.Node.BootID != s.r.Node.BootID; {
	case s.nodeReady() && s.unfences() && (!off || booted || s.r.Node.BootID == ""):
		return s.rejoined(reason)
	case s.nodeReady() && off:
		// It runs, and its device answered OFF.
		return s.fail(ReasonWrongMachine)
	case s.o.withdrawn():
		s.r.Result, s.r.Reason = fencingv1.ResultSucceeded, reason
		s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		return s.changed()
	case s.r.Result != fencingv1.ResultSucceeded:
		s.r.Result, s.r.Reason = fencingv1.ResultSucceeded, reason
		return s.changed()
	case s.nodeReady():
		return s.wait(Why{Reason: ReasonWaitingForNewBoot}, s.now.Add(poll))
	}
	return s.wait(Why{Reason: ReasonWaitingForNode}, s.now.Add(blockedPoll))
}

// rejoined follows when the Node is Ready again.
func (s *step) rejoined(reason string) Outcome {
	s.r.Result, s.r.Reason, s.r.Rejoined = fencingv1.ResultSucceeded, reason, s.time()
	s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
	return s.changed()
}

// lenient reports whether everything is undone once, and what fails is left: the fence has failed before, and is withdrawn.
func (s *step) lenient() bool {
	return s.r.Result == fencingv1.ResultFailed
}

// undo is Running/Recovery: methods of the recovery run, what is off is switched on in reverse, and the taint is removed last.
func (s *step) undo() Outcome {
	if out, done := s.settle(); !done {
		return out
	}
	if out, done := s.runRecovery(); !done {
		return out
	}
	for _, use := range []fencingv1.FenceStep{fencingv1.StepPowerManagement, fencingv1.StepIsolation} {
		m := s.toSwitchOn(use)
		switch {
		case m == nil:
			continue
		case use == fencingv1.StepIsolation && !s.unfences() && s.o.Node.State == NodeUnreadable:
			return s.wait(s.o.unreadable(), s.now.Add(blockedPoll))
		case use == fencingv1.StepIsolation && !s.unfences(),
			use == fencingv1.StepPowerManagement && s.o.TargetGone,
			s.lenient() && (s.o.TargetGone || m.Failures > 0 || !s.known(m.Name)):
			m.GivenUp = true
			return s.changed()
		case !s.known(m.Name):
			return s.fail(ReasonDeviceChanged)
		case s.exhausted(m):
			return s.fail(ReasonNotUnisolated)
		}
		return s.begin(m, fencingv1.ActionOn)
	}
	switch s.o.Node.State {
	case NodeUnreadable:
		return s.wait(s.o.unreadable(), s.now.Add(blockedPoll))
	case NodePresent:
		if effect := s.ownTaint(); effect != NoEffect {
			return s.effect(effect, s.now)
		}
	case NodeGone:
	}
	s.to(fencingv1.PhaseFinal, fencingv1.StepRecovery)
	return s.changed()
}

// runRecovery runs the methods of the recovery on a Node that has joined again, before it gets workload.
func (s *step) runRecovery() (_ Outcome, done bool) {
	used := func(m fencingv1.MethodRecord) bool { return m.OffRequested != nil || m.Ran != nil }
	if s.r.Rejoined == nil || s.lenient() || !slices.ContainsFunc(s.r.Methods, used) {
		return Outcome{}, true
	}
	for _, name := range s.o.Spec.Recovery {
		switch m := s.method(name, fencingv1.StepRecovery); {
		case m.Ran != nil:
		case !s.known(name), s.exhausted(m):
			return s.fail(ReasonNotRecovered), false
		default:
			return s.begin(m, fencingv1.ActionRun), false
		}
	}
	return Outcome{}, true
}

// finish is Final: nothing is left to do.
func (s *step) finish() Outcome {
	if s.o.Finished != string(s.r.Result) || s.o.Finalizer || s.o.BlockMove {
		return s.effect(Finish, s.now)
	}
	return Outcome{Record: *s.r}
}

// failed is Error. With restarts left, the fence begins again with what is not done yet. Otherwise taints and power stay as they are
// until the request is withdrawn.
func (s *step) failed() Outcome {
	again := s.r.Result != fencingv1.ResultFailed && s.r.Reason != ReasonWrongMachine && s.r.Restarts < restarts(s.o.Spec) && s.o.Plan != nil
	switch {
	case s.o.withdrawn():
		s.r.Result = fencingv1.ResultFailed
		for i := range s.r.Methods {
			s.r.Methods[i].Failures = 0
		}
		s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		return s.changed()
	case s.confirmedOff() && s.r.Rejoined == nil && (s.r.Evidence == nil || toRelease(s.r, s.o.Spec) && !s.removes()):
		// A person has switched off what no device could.
		s.r.Result, s.r.Reason = "", ""
		return s.proven(fencingv1.EvidenceAcknowledged)
	case again:
		return s.restart()
	case s.r.Result != fencingv1.ResultFailed:
		s.r.Result = fencingv1.ResultFailed
		return s.changed()
	}
	return s.wait(Why{Reason: s.r.Reason}, s.now.Add(keptPoll))
}

// restart begins again with the first state whose fact is missing. Facts are kept: after evidence, nothing is switched off again.
func (s *step) restart() Outcome {
	s.r.Restarts++
	s.r.Retries, s.r.Level = 0, 0
	for i := range s.r.Methods {
		m := &s.r.Methods[i]
		m.Failures = 0
		if m.Step == fencingv1.StepPowerManagement && s.r.Rejoined == nil {
			m.OnSucceeded = nil
			// It is asked again before it is switched off again.
			m.Power = fencingv1.PowerUnknown
		}
	}
	s.r.Reason = ""
	if s.r.Rejoined == nil {
		s.r.PoweredOn = nil
	}
	if s.r.Evidence != nil && s.r.Evidence.Class == fencingv1.EvidenceKernelDump {
		// The dump has ended long ago, and the Node has not joined again.
		s.r.Evidence = nil
	}
	phase, in := fencingv1.PhaseRunning, fencingv1.StepRecovery
	switch {
	case s.r.Rejoined != nil:
		s.r.Result, s.r.Reason = fencingv1.ResultSucceeded, ReasonRejoined
	case toRelease(s.r, s.o.Spec):
		phase, in = fencingv1.PhaseDone, fencingv1.StepPowerManagement
	case s.r.Evidence != nil || len(s.o.Plan.Levels) == 0 && s.isIsolated():
		phase = fencingv1.PhaseNew
	case !s.isIsolated() && !SwitchedOff(s.r):
		in = fencingv1.StepIsolation
	default:
		in = fencingv1.StepPowerManagement
	}
	s.to(phase, in)
	return s.changed()
}

// isIsolated reports whether every method of the isolation is off, and every other one has run.
func (s *step) isIsolated() bool {
	missing := func(of []fencingv1.MethodName, done func(*fencingv1.MethodRecord) bool) bool {
		return slices.ContainsFunc(of, func(name fencingv1.MethodName) bool { return !done(s.method(name, fencingv1.StepIsolation)) })
	}
	isOff := func(m *fencingv1.MethodRecord) bool { return m.Power == fencingv1.PowerOff && m.OffRequested != nil }
	hasRun := func(m *fencingv1.MethodRecord) bool { return m.Ran != nil }
	return !missing(s.o.Plan.Isolation, isOff) && !missing(s.o.Plan.Run, hasRun)
}
