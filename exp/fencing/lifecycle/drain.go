// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"time"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// drainPoll is how often Pods are evicted whose disruption budget did not allow it.
const drainPoll = 5 * time.Second

// whileReady is what a Node that is Ready needs before it is fenced: no fence any more, or a drain.
func (s *step) whileReady() (_ Outcome, stop bool) {
	drains := s.o.Spec.Drain != nil
	switch {
	case !s.nodeReady(), s.r.Drained != nil, !drains && len(s.o.Plan.Levels) == 0:
		return Outcome{}, false
	case !drains:
		return s.rejoined(ReasonNodeReady), true
	case s.r.Step == fencingv1.StepIsolation:
		return s.drain(), true
	}
	// It has become Ready after its isolation began.
	s.to(fencingv1.PhaseRunning, fencingv1.StepIsolation)
	return s.changed(), true
}

// drained reports whether the Node has no Pods although it is Ready. Without its taint it gets others.
func (s *step) drained() bool { return s.r.Drained != nil && s.o.Node.Fence == string(s.o.UID) }

// drain waits until the Pods of the Node have ended.
func (s *step) drain() Outcome {
	drain, workload := s.o.Spec.Drain, s.o.Workload
	until := s.r.Since.Add(drain.Timeout.Duration.Duration)
	overdue := !s.now.Before(until)
	if s.r.Deadline == nil {
		s.expire(until.Sub(s.now))
	}
	switch {
	case workload != nil && workload.Pods == 0, overdue && drain.AfterTimeout == fencingv1.ContinueFence:
		s.r.Drained = s.time()
		return s.changed()
	case overdue:
		s.r.Result, s.r.Reason = fencingv1.ResultFailed, ReasonDrainTimedOut
		if workload != nil {
			s.r.PodsLeft = workload.Names
		}
		s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		return s.changed()
	case workload == nil:
		return s.wait(s.o.unreadable(), earlier(until, s.now.Add(drainPoll)))
	}
	out := s.effect(EvictPods, earlier(until, s.now.Add(drainPoll)))
	out.Why = Why{Reason: ReasonDraining, Count: workload.Pods}
	return out
}
