// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/describe"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
)

// setConditions sets the conditions that follow from a record, and from what it waits for.
func setConditions(out *lifecycle.Outcome, observed *observed, fence *fencingv1.NodeFence, now time.Time) {
	s, o := &out.Record, &observed.Observation
	next := &fencingv1.NodeFence{ObjectMeta: fence.ObjectMeta, Spec: fence.Spec, Status: *s}
	if observed.failure != "" && out.Effect != lifecycle.NoEffect {
		out.Why = lifecycle.Why{Reason: lifecycle.ReasonEffectFailed, Detail: observed.failure}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: fence.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	if waits(s) {
		// Deciding again at once is no reason to wait.
		if out.Why.Reason == "" {
			return
		}
		set(fencingv1.AdmittedCondition, metav1.ConditionFalse, out.Why.Reason, waitMessage(next, o, out.Why))
	} else if s.Node != nil {
		set(fencingv1.AdmittedCondition, metav1.ConditionTrue, lifecycle.ReasonAdmitted, "The fence of Node "+s.Node.Name+" has begun")
	}
	if names := methodsOf(s, func(m *fencingv1.MethodRecord) bool {
		return m.Step == fencingv1.StepIsolation && m.OffRequested != nil
	}); len(names) > 0 {
		on := func(m *fencingv1.MethodRecord) bool {
			return m.Step == fencingv1.StepIsolation && m.Power == fencingv1.PowerOn
		}
		before := meta.IsStatusConditionTrue(s.Conditions, fencingv1.IsolatedCondition) && len(methodsOf(s, on)) == 0
		if isIsolated(s) || before {
			set(fencingv1.IsolatedCondition, metav1.ConditionTrue, "Isolated", "The Node was isolated by "+list(names))
		} else {
			set(fencingv1.IsolatedCondition, metav1.ConditionFalse, "NotIsolated", "The Node is not isolated by "+list(names))
		}
	}
	setFenced(s, o.Plan, set)
	if s.Evidence == nil && meta.IsStatusConditionTrue(s.Conditions, fencingv1.FencedCondition) {
		set(fencingv1.FencedCondition, metav1.ConditionFalse, lifecycle.ReasonNotProvenOff, "What has proven it no longer holds")
	}
	setReleased(next, o, out.Why, set)
	if s.Evidence == nil {
		meta.RemoveStatusCondition(&s.Conditions, fencingv1.ReleasedCondition)
	}
	if s.Rejoined != nil && s.Phase == fencingv1.PhaseFinal {
		set(fencingv1.RecoveredCondition, metav1.ConditionTrue, lifecycle.ReasonRejoined,
			"Node "+s.Node.Name+" was Ready at "+text(s.Rejoined)+", and everything was undone")
	}
	ended := s.Phase == fencingv1.PhaseFinal || s.Result != "" && s.Phase != fencingv1.PhaseRunning
	if ended {
		end := "The fence has ended"
		if observed.failure != "" && out.Effect == lifecycle.Finish {
			end += ", and its finalizer is not removed: " + observed.failure
		}
		set(remedyv1.ProcessingCondition, metav1.ConditionFalse, string(s.Result), end)
		set(remedyv1.SucceededCondition, succeeded(s), s.Reason, result(next))
		return
	}
	reason, message := progress(next, o, out.Why)
	set(remedyv1.ProcessingCondition, metav1.ConditionTrue, reason, message)
	set(remedyv1.SucceededCondition, metav1.ConditionUnknown, reason, message)
}

func setFenced(s *fencingv1.NodeFenceStatus, plan *profile.Plan, set func(string, metav1.ConditionStatus, string, string)) {
	switch {
	case s.Evidence != nil:
		message := evidence(s, plan)
		if s.PoweredOn != nil {
			message += ". It was switched on at " + text(s.PoweredOn)
		}
		set(fencingv1.FencedCondition, metav1.ConditionTrue, string(s.Evidence.Class), message)
	case lifecycle.SwitchedOff(s):
		set(fencingv1.FencedCondition, metav1.ConditionFalse, lifecycle.ReasonNotProvenOff, "No level of devices has proven that the Node is off")
	}
}

// evidence is what proves that Pods of the Node can be removed. plan is nil if it is not resolved.
func evidence(s *fencingv1.NodeFenceStatus, plan *profile.Plan) string {
	node, at := "Node "+s.Node.Name, text(&s.Evidence.RecordedAt)
	switch s.Evidence.Class {
	case fencingv1.EvidenceKernelDump:
		return "The kernel of " + node + " has crashed and writes a dump: its message was received at " + at
	case fencingv1.EvidenceStorageIsolation:
		message := node + " was cut off from its storage at " + at + ", and may still run"
		if plan != nil {
			message += ". StorageClasses: " + list(storageClasses(plan))
		}
		return message
	case fencingv1.EvidenceAcknowledged:
		return "A user confirmed at " + at + " that the machine of " + node + " is off (annotation " + fencingv1.ConfirmOffAnnotation + ")"
	case fencingv1.EvidencePowerOff:
	}
	message := fmt.Sprintf("%s was proven off at %s: every device of level %d answered OFF", node, at, s.Evidence.Level+1)
	if level := plan.Level(s.Evidence.Level); level != nil && !slices.ContainsFunc(level, func(name fencingv1.MethodName) bool {
		return !slices.ContainsFunc(s.Methods, func(m fencingv1.MethodRecord) bool { return m.Name == name && m.Confirmed })
	}) {
		message += " twice"
	}
	return message
}

// setReleased sets the condition Released of a fence with evidence.
func setReleased(
	fence *fencingv1.NodeFence, o *lifecycle.Observation, why lifecycle.Why, set func(string, metav1.ConditionStatus, string, string),
) {
	s, release := &fence.Status, fence.Status.Release
	if s.Evidence == nil || fence.Spec.Release.Policy == fencingv1.ReleaseNone {
		return
	}
	status, reason, message := metav1.ConditionFalse, lifecycle.ReasonNotReleased, describe.Release(release)
	switch {
	case release != nil && release.EndedAt != nil && len(release.Left) > 0:
	case release != nil && release.EndedAt != nil && release.Pods == 0:
		status, reason = metav1.ConditionTrue, "NothingToRelease"
	case release != nil && release.EndedAt != nil:
		status, reason = metav1.ConditionTrue, "Released"
	case s.Step != fencingv1.StepPowerManagement || s.Phase != fencingv1.PhaseDone:
		message = "The workload of Node " + s.Node.Name + " was not removed"
	default:
		var waiting string
		if reason, waiting = progress(fence, o, why); message != "" {
			waiting = message + ". " + waiting
		}
		message = waiting
	}
	set(fencingv1.ReleasedCondition, status, reason, message)
}

func succeeded(s *fencingv1.NodeFenceStatus) metav1.ConditionStatus {
	if s.Result == fencingv1.ResultSucceeded {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// progress is what the fence does at present.
func progress(fence *fencingv1.NodeFence, o *lifecycle.Observation, why lifecycle.Why) (reason, message string) {
	s := &fence.Status
	if why.Reason != "" {
		return why.Reason, waitMessage(fence, o, why)
	}
	action := s.Action
	if action == nil || action.Ended {
		return string(s.Step), "The fence " + describe.State(fence)
	}
	message = fmt.Sprintf("Method %s: Job %s performs %s", action.Method, jobs.Name(o.UID, action.Sequence), action.Action)
	if s.Retries > 0 {
		message += fmt.Sprintf(" after %s", plural(int(s.Retries), "failure"))
	}
	return lifecycle.ReasonWaitingForJob, message + until(s.Deadline)
}
