// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// event is a transition of a NodeFence.
type event struct{ kind, reason, action, note string }

// transitions returns what has happened since a record.
func transitions(before *fencingv1.NodeFenceStatus, fence *fencingv1.NodeFence) []event {
	var all []event
	after := &fence.Status
	add := func(when bool, e event) {
		if when {
			all = append(all, e)
		}
	}
	node := ""
	if after.Node != nil {
		node = "Node " + after.Node.Name
	}
	newly := func(is func(*fencingv1.NodeFenceStatus) bool) bool { return is(after) && !is(before) }
	add(waits(before) && !waits(after) && after.Result == "",
		event{corev1.EventTypeNormal, "FenceAdmitted", "Admit", "The fence of " + node + " began"})
	add(newly(isIsolated), event{corev1.EventTypeNormal, "NodeIsolated", "Isolate", node + " was isolated"})
	add(newly(lifecycle.SwitchedOff), event{corev1.EventTypeWarning, "PowerOffRequested", "PowerOff", node + " is switched off"})
	if after.Evidence != nil && before.Evidence == nil {
		all = append(all, event{corev1.EventTypeNormal, "NodeFenced", "PowerOff", evidence(after, nil)})
	}
	add(newly(func(s *fencingv1.NodeFenceStatus) bool { return released(s) > 0 && len(s.Release.Left) == 0 }),
		event{corev1.EventTypeNormal, "WorkloadReleased", "Release", plural(released(after), "Pod") + " of " + node + " removed"})
	add(newly(onRequested), event{corev1.EventTypeNormal, "PowerOnRequested", "PowerOn", node + " is switched on"})
	add(newly(func(s *fencingv1.NodeFenceStatus) bool { return s.Rejoined != nil }),
		event{corev1.EventTypeNormal, "NodeRejoined", "Recover", node + " is Ready again"})
	add(newly(func(s *fencingv1.NodeFenceStatus) bool {
		return s.Phase == fencingv1.PhaseFinal && s.Result == fencingv1.ResultSucceeded && s.Rejoined != nil
	}), event{corev1.EventTypeNormal, "NodeRecovered", "Recover", "The fence of " + node + " has ended, and everything was undone"})
	add(newly(func(s *fencingv1.NodeFenceStatus) bool { return s.Result == fencingv1.ResultFailed }),
		event{corev1.EventTypeWarning, "FenceFailed", "Fence", "The fence of " + node + " has failed: " + failure(fence)})
	add(newly(func(s *fencingv1.NodeFenceStatus) bool { return len(leftOff(s)) > 0 }),
		event{corev1.EventTypeWarning, "PowerStateUnknown", "PowerOn", node + " may be off: it was not switched on by " + list(leftOff(after))})
	return all
}

// released is how many Pods a release that has ended has removed.
func released(s *fencingv1.NodeFenceStatus) int {
	if s.Release == nil || s.Release.EndedAt == nil {
		return 0
	}
	return int(s.Release.Pods)
}

func isIsolated(s *fencingv1.NodeFenceStatus) bool {
	return s.Step != fencingv1.StepIsolation && len(methodsOf(s, func(m *fencingv1.MethodRecord) bool {
		return m.Step == fencingv1.StepIsolation && m.OffRequested != nil
	})) > 0 && len(methodsOf(s, func(m *fencingv1.MethodRecord) bool {
		return m.Step == fencingv1.StepIsolation && m.OffRequested != nil && m.Power != fencingv1.PowerOff
	})) == 0
}

func onRequested(s *fencingv1.NodeFenceStatus) bool {
	return s.Step == fencingv1.StepRecovery && s.Action != nil && s.Action.Action == fencingv1.ActionOn
}

// leftOff are the methods that were switched off and are not switched on any more.
func leftOff(s *fencingv1.NodeFenceStatus) []string {
	return methodsOf(s, func(m *fencingv1.MethodRecord) bool { return m.GivenUp })
}

func methodsOf(s *fencingv1.NodeFenceStatus, which func(*fencingv1.MethodRecord) bool) []string {
	var names []string
	for i := range s.Methods {
		if which(&s.Methods[i]) {
			names = append(names, string(s.Methods[i].Name))
		}
	}
	return names
}

// waits reports whether the fence is not admitted.
func waits(s *fencingv1.NodeFenceStatus) bool {
	return s.Phase == "" || s.Phase == fencingv1.PhaseNew && s.Step == fencingv1.StepIsolation
}

// report records events and metrics after the record was written.
func (r *Reconciler) report(fence *fencingv1.NodeFence, before *fencingv1.NodeFenceStatus, o *observed, now time.Time) {
	r.Metrics.observe(fence, before, now)
	if fence.Spec.Mode == fencingv1.CheckDevices {
		// It changes nothing, and its end is a condition.
		return
	}
	all := transitions(before, fence)
	if waits(before) && !waits(&fence.Status) && o.node != nil && fencedBefore(fence, o.node, now) {
		r.Metrics.repeats.WithLabelValues(template(fence)).Inc()
		all = append(all, event{
			corev1.EventTypeWarning, "FencedAgain", "Admit",
			"Node " + o.node.Name + " was fenced before, at " + o.node.Annotations[fencingv1.RemediationTimestampAnnotation],
		})
	}
	for _, e := range all {
		r.Events.Eventf(fence, nil, e.kind, e.reason, e.action, "%s", cut(e.note))
		if o.node != nil && o.target.cluster == workload.ManagementCluster {
			r.Events.Eventf(o.node, fence, e.kind, e.reason, e.action, "%s", cut(e.note))
		}
	}
}

// fencedBefore reports whether the Node was fenced within repeatPeriod.
func fencedBefore(fence *fencingv1.NodeFence, node *corev1.Node, now time.Time) bool {
	last, err := time.Parse(time.RFC3339, node.Annotations[fencingv1.RemediationTimestampAnnotation])
	period := 24 * time.Hour
	if given := fence.Spec.Limits.RepeatPeriod; given != nil {
		period = given.Duration.Duration
	}
	return err == nil && now.Sub(last) < period
}
