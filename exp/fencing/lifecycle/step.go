// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

const (
	// poll is how often a Node is read for which a fence waits, and blockedPoll how often the limits are evaluated.
	poll        = 3 * time.Second
	blockedPoll = 10 * time.Second
	// keptPoll is how often a Node is read whose fence has failed.
	keptPoll = time.Minute
)

// step is one decision.
type step struct {
	r   *fencingv1.NodeFenceStatus
	o   *Observation
	now time.Time
}

// Step decides what a NodeFence does next.
func Step(record *fencingv1.NodeFenceStatus, o *Observation, now time.Time) Outcome {
	// The API server keeps seconds.
	s := &step{r: record.DeepCopy(), o: o, now: now.Truncate(time.Second)}
	switch {
	case s.r.Phase == "":
		s.to(fencingv1.PhaseNew, fencingv1.StepIsolation)
		return s.changed()
	case s.r.Phase == fencingv1.PhaseFinal:
		return s.finish()
	case s.replaced() && o.Node.State == NodePresent && o.Node.UID == s.r.Node.UID && s.ownTaint() != NoEffect:
		// The same Node with another provider ID.
		return s.effect(s.ownTaint(), s.now)
	case s.replaced():
		s.r.Result, s.r.Reason = fencingv1.ResultFailed, ReasonNodeReplaced
		s.giveUp()
		s.to(fencingv1.PhaseFinal, s.r.Step)
		return s.changed()
	case s.begun() && !o.Finalizer && !o.Deleting && o.Spec.Mode != fencingv1.CheckDevices:
		// Another writer has removed it.
		return s.effect(AddFinalizer, s.now)
	case s.r.Phase == fencingv1.PhaseError:
		return s.failed()
	case s.r.Step == fencingv1.StepIsolation && s.r.Phase == fencingv1.PhaseNew:
		return s.admit()
	case o.Spec.Mode == fencingv1.CheckDevices:
		return s.checkDevices()
	case s.r.Step == fencingv1.StepIsolation:
		return s.isolate()
	case s.r.Step == fencingv1.StepPowerManagement && s.r.Phase == fencingv1.PhaseNew:
		return s.waitForPower()
	case s.r.Step == fencingv1.StepPowerManagement && s.r.Phase == fencingv1.PhaseRunning:
		return s.switchOff()
	case s.r.Step == fencingv1.StepPowerManagement:
		return s.release()
	case s.r.Phase == fencingv1.PhaseNew:
		return s.switchOn()
	}
	return s.undo()
}

// begun reports whether the fence was admitted.
func (s *step) begun() bool {
	return s.r.Node != nil && (s.r.Phase != fencingv1.PhaseNew || s.r.Step != fencingv1.StepIsolation)
}

// replaced reports whether the Node of the fence no longer exists: nothing is done to another Node, and no machine is switched on for it.
func (s *step) replaced() bool {
	bound, node := s.r.Node, &s.o.Node
	if !s.begun() {
		return false
	}
	other := node.UID != bound.UID || bound.ProviderID != "" && node.ProviderID != "" && node.ProviderID != bound.ProviderID
	return node.State == NodeGone || node.State == NodePresent && other
}

// ownTaint is the effect that removes the next taint of this fence from the Node.
func (s *step) ownTaint() Effect {
	switch {
	case s.o.Node.ReleaseTaint && s.r.Release != nil && s.r.Release.OutOfServiceTaint:
		return RemoveOutOfService
	case s.o.Node.Fence == string(s.o.UID), s.o.Node.Marked:
		return RemoveTaint
	}
	return NoEffect
}

// withdrawn reports whether nothing more is asked for.
func (o *Observation) withdrawn() bool { return o.Deleting || o.Canceled || o.TargetGone }

// admit is New/Isolation: the fence waits until it can begin. Its taint on the Node is the admission.
func (s *step) admit() Outcome {
	admitted := s.o.Node.State == NodePresent && s.o.Node.Fence == string(s.o.UID)
	switch {
	case s.o.Finished != "" && s.r.Node == nil && !s.o.Finalizer:
		s.r.Result, s.r.Reason = fencingv1.Result(s.o.Finished), ReasonMoved
		if !slices.Contains([]fencingv1.Result{fencingv1.ResultSucceeded, fencingv1.ResultFailed, fencingv1.ResultCanceled}, s.r.Result) {
			s.r.Result = fencingv1.ResultFailed
		}
		s.to(fencingv1.PhaseFinal, fencingv1.StepIsolation)
		return s.changed()
	case s.o.withdrawn() && s.r.Node != nil && s.o.Finalizer && s.o.Node.State == NodeUnreadable:
		// It may have the taint.
		return s.wait(s.o.unreadable(), s.now.Add(blockedPoll))
	case s.o.withdrawn():
		s.r.Result, s.r.Reason = fencingv1.ResultCanceled, s.withdrawal()
		if admitted || s.toSwitchOn(fencingv1.StepIsolation) != nil {
			s.to(fencingv1.PhaseRunning, fencingv1.StepRecovery)
		} else {
			s.to(fencingv1.PhaseFinal, fencingv1.StepIsolation)
		}
		return s.changed()
	case admitted && s.r.Node != nil && s.r.Node.UID == s.o.Node.UID:
		s.to(fencingv1.PhaseRunning, fencingv1.StepIsolation)
		return s.changed()
	}
	isolated := s.toSwitchOn(fencingv1.StepIsolation) != nil
	if why := s.o.blocked(); why != (Why{}) {
		if isolated && why.Reason == ReasonNodeReady {
			return s.rejoined(ReasonNodeReady)
		}
		if s.r.Node != nil && s.o.Node.State != NodeUnreadable && !admitted && !isolated {
			s.r.Node = nil
			return s.changed()
		}
		if s.r.Node == nil && (s.o.Finalizer || s.o.BlockMove) {
			return s.effect(Unblock, s.now)
		}
		return s.wait(why, s.now.Add(blockedPoll))
	}
	return s.bind()
}

// bind records the Node, and then taints it.
func (s *step) bind() Outcome {
	node, check := &s.o.Node, s.o.Spec.Mode == fencingv1.CheckDevices
	bound := &fencingv1.FencedNode{
		Name: node.Name, UID: node.UID, ProviderID: node.ProviderID, BootID: node.BootID,
		MachineName: node.MachineName, ClusterName: node.ClusterName, ProfileName: s.o.Plan.ProfileName,
		Row: s.o.Plan.Row,
	}
	switch {
	case !check && (!s.o.Finalizer || !s.o.BlockMove):
		return s.effect(AddFinalizer, s.now)
	case s.r.Node == nil || *s.r.Node != *bound:
		s.r.Node = bound
		if check {
			s.to(fencingv1.PhaseRunning, fencingv1.StepPowerManagement)
		}
		return s.changed()
	}
	return s.effect(AddTaint, s.now)
}

// withdrawal is why nothing more is asked for.
func (s *step) withdrawal() string {
	if s.o.TargetGone {
		return ReasonTargetDeleted
	}
	return ReasonCanceled
}

// to enters a state. Failures of the last one do not count in it.
func (s *step) to(phase fencingv1.Phase, in fencingv1.FenceStep) {
	if s.r.Step != in {
		for i := range s.r.Methods {
			s.r.Methods[i].Failures = 0
		}
		s.r.Retries = 0
	}
	s.r.Phase, s.r.Step, s.r.Since, s.r.Deadline = phase, in, s.time(), nil
	if phase == fencingv1.PhaseNew && in == fencingv1.StepIsolation {
		// Without its taint, the Node gets Pods again.
		s.r.Drained = nil
	}
}

// expire records when the present state ends at the latest.
func (s *step) expire(after time.Duration) {
	deadline := metav1.NewTime(s.now.Add(after))
	s.r.Deadline = &deadline
}

// time is the present time for the record.
func (s *step) time() *metav1.Time {
	now := metav1.NewTime(s.now)
	return &now
}

// nodeReady reports whether the Node is Ready, read live.
func (s *step) nodeReady() bool {
	return s.o.Node.State == NodePresent && s.o.Node.Ready == corev1.ConditionTrue
}

// changed writes the record and decides again.
func (s *step) changed() Outcome { return Outcome{Record: *s.r} }

// wait changes nothing until a time.
func (s *step) wait(why Why, until time.Time) Outcome {
	return Outcome{Record: *s.r, Why: why, Wake: until}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// effect performs an effect, and decides again at the latest at that time.
func (s *step) effect(effect Effect, until time.Time) Outcome {
	return Outcome{Record: *s.r, Effect: effect, Wake: until}
}

// fail ends the state with an error. If restarts are left, the fence begins again with what is not done yet.
func (s *step) fail(reason string) Outcome {
	s.r.Reason = reason
	if s.r.Result != fencingv1.ResultFailed {
		s.r.Result = ""
	}
	s.to(fencingv1.PhaseError, s.r.Step)
	return s.changed()
}
