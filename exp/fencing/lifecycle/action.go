// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

const (
	// jobSlack is how much longer than its action a Job can take: its Pod is scheduled and its image pulled.
	jobSlack = time.Minute
	// longestTimeout is the longest that an action can have.
	longestTimeout = time.Hour
	// keptJobs is how many Jobs are kept.
	keptJobs = 10
)

// settle records the result of the Job of the last action. It is done when the next action can begin: only then has every Pod of the Job
// ended, so that no late "off" meets an "on".
func (s *step) settle() (_ Outcome, done bool) {
	action := s.r.Action
	if action == nil || action.Ended {
		return Outcome{}, true
	}
	deadline := s.actionDeadline()
	overdue := !s.now.Before(deadline)
	switch job := s.o.Job; {
	case job.Finished:
		return s.end(job.Result, job.ExitCode), false
	case !job.Exists && overdue:
		// It could not be created, or was deleted. Nothing runs, and nothing is known.
		return s.end(fencingv1.JobUnknown, nil), false
	case !job.Exists && (!s.known(action.Method) || action.Action == fencingv1.ActionOff && s.nodeReady() &&
		len(s.o.Plan.Levels) > 0 && !s.drained()):
		// A Node that is Ready by now is not switched off.
		return s.end(fencingv1.JobUnknown, nil), false
	case !job.Exists:
		return s.effect(RunJob, deadline), false
	case overdue && !action.Deleted:
		// A Job that waits, as in a queue, must not act later.
		action.Deleted = true
		s.expire(jobSlack)
		return s.effect(DeleteJob, s.now.Add(poll)), false
	case overdue && s.r.Deadline != nil && s.now.Before(s.r.Deadline.Time):
		if !job.Deleting {
			return s.effect(DeleteJob, s.now.Add(poll)), false
		}
		return s.wait(Why{Reason: ReasonWaitingForJob}, s.r.Deadline.Time), false
	case overdue && s.lenient():
		// Nothing can be done while it runs, and a NodeFence that is being deleted does not wait for ever.
		s.giveUp()
		return s.changed(), false
	case overdue:
		return s.fail(ReasonJobNotEnding), false
	}
	return s.wait(Why{Reason: ReasonWaitingForJob}, deadline), false
}

// known reports whether the profile has a method, and whether its device is still the same: an answer of another one proves nothing.
func (s *step) known(name fencingv1.MethodName) bool {
	if s.o.Plan == nil {
		return false
	}
	_, has := s.o.Plan.Methods[name]
	for i := range s.r.Methods {
		if m := &s.r.Methods[i]; m.Name == name && s.moved(m) {
			return false
		}
	}
	return has
}

// moved reports whether a method has another device than when it was used.
func (s *step) moved(m *fencingv1.MethodRecord) bool {
	method := s.o.Plan.Methods[m.Name]
	return m.Device != "" && m.Device != profile.Device(&method)
}

// actionDeadline is when the Job of the last action has ended at the latest.
func (s *step) actionDeadline() time.Time {
	if s.r.Action == nil {
		return s.r.Since.Time
	}
	timeout := longestTimeout
	if s.o.Plan != nil {
		timeout = s.o.Plan.Timeout(s.r.Action.Method)
	}
	return s.r.Action.StartedAt.Add(timeout + jobSlack)
}

// end records a result.
func (s *step) end(result fencingv1.JobResult, exitCode *int32) Outcome {
	action := s.r.Action
	m := s.method(action.Method, "")
	switch action.Action {
	case fencingv1.ActionStatus:
		s.recordPower(m, result)
	case fencingv1.ActionOff:
		// Whatever the result is, a status is asked for: an "off" that has timed out may have worked.
		if s.dumps(m.Name) {
			s.recordDump(m, result)
		}
	case fencingv1.ActionOn:
		if result == fencingv1.JobSucceeded {
			m.OnSucceeded = s.time()
		} else {
			m.Failures++
		}
	case fencingv1.ActionRun:
		if result == fencingv1.JobSucceeded {
			m.Ran = s.time()
		} else {
			m.Failures++
		}
	}
	s.r.Retries = m.Failures
	action.Ended = true
	name := jobs.Name(s.o.UID, action.Sequence)
	for i := range s.r.Jobs {
		if job := &s.r.Jobs[i]; job.Name == name {
			job.Result, job.ExitCode, job.EndedAt = result, exitCode, s.time()
		}
	}
	return s.changed()
}

// recordDump records whether the message of a kernel that has crashed was received.
func (s *step) recordDump(m *fencingv1.MethodRecord, result fencingv1.JobResult) {
	m.Ran, m.Power = s.time(), fencingv1.PowerUnknown
	if result == fencingv1.JobSucceeded {
		m.Power, m.Confirmed = fencingv1.PowerOff, true
	}
}

// recordPower records an answer. A device that answers ON just after it was switched off, or was proven off, has failed.
func (s *step) recordPower(m *fencingv1.MethodRecord, result fencingv1.JobResult) {
	switch result {
	case fencingv1.JobOff:
		m.Power = fencingv1.PowerOff
		m.Confirmed = true
	case fencingv1.JobSucceeded:
		if m.OffRequested != nil && m.Power == "" || s.r.Phase == fencingv1.PhaseDone {
			m.Failures++
		}
		m.Power = fencingv1.PowerOn
	case fencingv1.JobFailed, fencingv1.JobUnknown:
		m.Power = fencingv1.PowerUnknown
		m.Failures++
	}
	if m.PowerBefore == "" && m.Power != fencingv1.PowerUnknown {
		m.PowerBefore = m.Power
	}
}

// begin records an action, and creates its Job.
func (s *step) begin(m *fencingv1.MethodRecord, action fencingv1.Action) Outcome {
	// No action takes longer, so another Job that seems to use the device has ended.
	if s.o.Busy[m.Name] && s.now.Before(s.actionDeadline().Add(longestTimeout)) {
		return s.wait(Why{Reason: ReasonDeviceBusy, Detail: string(m.Name)}, s.now.Add(poll))
	}
	sequence := int32(1)
	if s.r.Action != nil {
		sequence = s.r.Action.Sequence + 1
	}
	s.r.Action = &fencingv1.FenceAction{Sequence: sequence, Method: m.Name, Action: action, StartedAt: metav1.NewTime(s.now)}
	s.r.Retries = m.Failures
	if m.OffRequested == nil {
		method := s.o.Plan.Methods[m.Name]
		m.Device = profile.Device(&method)
	}
	switch action {
	case fencingv1.ActionOff:
		m.Power, m.OnSucceeded = "", nil
		if m.OffRequested == nil && !s.dumps(m.Name) {
			m.OffRequested = s.time()
		}
	case fencingv1.ActionOn:
		m.Power = ""
	case fencingv1.ActionStatus, fencingv1.ActionRun:
	}
	s.r.Jobs = append(s.r.Jobs, fencingv1.JobRecord{Name: jobs.Name(s.o.UID, sequence), Method: m.Name, Action: action})
	s.r.Jobs = s.r.Jobs[max(len(s.r.Jobs)-keptJobs, 0):]
	deadline := s.actionDeadline()
	s.expire(deadline.Sub(s.now))
	return s.effect(RunJob, deadline)
}

// method returns the record of a method, and adds it if it has none.
func (s *step) method(name fencingv1.MethodName, use fencingv1.FenceStep) *fencingv1.MethodRecord {
	i := slices.IndexFunc(s.r.Methods, func(m fencingv1.MethodRecord) bool { return m.Name == name })
	if i < 0 {
		s.r.Methods = append(s.r.Methods, fencingv1.MethodRecord{Name: name, Step: use})
		i = len(s.r.Methods) - 1
	}
	return &s.r.Methods[i]
}

// current returns the record of a method of the plan, without answers of another device that its row had before.
func (s *step) current(name fencingv1.MethodName, use fencingv1.FenceStep) *fencingv1.MethodRecord {
	m := s.method(name, use)
	if m.OffRequested == nil && s.moved(m) {
		m.Power, m.PowerBefore, m.Device, m.Confirmed = "", "", "", false
	}
	return m
}

// exhausted reports whether a method has failed more often than it is repeated.
func (s *step) exhausted(m *fencingv1.MethodRecord) bool { return m.Failures > retries(s.o.Spec) }

// toSwitchOn returns the last method of a step that this fence has switched off and not on again; nil if there is none. So methods are
// switched on in reverse.
func (s *step) toSwitchOn(use fencingv1.FenceStep) *fencingv1.MethodRecord {
	if use == fencingv1.StepPowerManagement && s.o.Spec.PowerOn == fencingv1.PowerOnNever {
		return nil
	}
	for i := len(s.r.Methods) - 1; i >= 0; i-- {
		if m := &s.r.Methods[i]; m.Step == use && s.leftOff(m) && !m.GivenUp {
			return m
		}
	}
	return nil
}

// leftOff reports whether this fence switches a method on, and has not done so.
func (s *step) leftOff(m *fencingv1.MethodRecord) bool {
	always := s.o.Spec.PowerOn == fencingv1.PowerOnAlways && m.PowerBefore == fencingv1.PowerOff &&
		s.r.Result != fencingv1.ResultCanceled && !s.o.TargetGone
	return (m.OffRequested != nil || always) && m.OnSucceeded == nil
}

// giveUp gives up to switch on whatever is off.
func (s *step) giveUp() {
	for i := range s.r.Methods {
		if m := &s.r.Methods[i]; s.leftOff(m) {
			m.GivenUp = true
		}
	}
	if s.r.Action != nil {
		s.r.Action.Ended = true
	}
}
