// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Event is what happened to a target.
type Event struct {
	// Type is Normal or Warning.
	Type, Reason, Message string
}

// Events are what happened between two traces of the same target, in the order in which people tell it. Nothing is told twice: a state that
// lasts is no event. Without a trace from before, as after a restart, only acts are told.
func Events(before, after *Trace) []Event {
	var all []Event
	tell := func(kind, reason, message string) {
		all = append(all, Event{Type: kind, Reason: reason, Message: cutBytes(foreign(after.Target)+": "+message, MaxNote)})
	}
	if before != nil && before.Verdict.Kind != after.Verdict.Kind {
		switch {
		case after.Verdict.Kind == KindUnhealthy:
			tell(corev1.EventTypeWarning, after.Verdict.Reason, after.Verdict.Message)
		case after.Verdict.Kind == KindHealthy && (before.Verdict.Kind == KindUnhealthy || before.Decision.InFlight):
			tell(corev1.EventTypeNormal, BecameHealthy, "It is healthy again")
		}
	}
	d := &after.Decision
	if kind, reason := act(d); reason != "" && (before == nil || !before.Decision.sameAct(d)) {
		tell(kind, reason, d.Message)
	}
	if before != nil && d.HoldReason != "" && before.Decision.HoldReason != d.HoldReason && after.holds() {
		tell(alarm(d.HoldReason), string(d.HoldReason), d.Message)
	}
	return all
}

// ConditionEvents are what happened to a check: conditions whose status has changed, or whose reason has become one that a person must know of. The
// summary is left out, as it has nothing of its own to say, and of a check that is new only what is in its way is told.
func ConditionEvents(before, after []metav1.Condition) []Event {
	var all []Event
	for i := range after {
		c := &after[i]
		was := meta.FindStatusCondition(before, c.Type)
		// That something is paused is told once, by its own condition.
		if c.Type == remedyv1.ReadyCondition || c.Type == remedyv1.RemediationAllowedCondition && c.Reason == remedyv1.PausedReason || !newlySaid(was, c) {
			continue
		}
		kind := corev1.EventTypeWarning
		if ordinary(c) {
			kind = corev1.EventTypeNormal
		}
		said := c.Type + " is " + string(c.Status)
		if c.Message != "" {
			said += ": " + c.Message
		}
		all = append(all, Event{Type: kind, Reason: c.Reason, Message: cutBytes(said, MaxNote)})
	}
	return all
}

// newlySaid says whether a condition says something that it did not say before. was is nil where there was none.
func newlySaid(was, c *metav1.Condition) bool {
	switch {
	case was == nil:
		return !untroubled(c)
	case was.Status != c.Status:
		return true
	}
	return was.Reason != c.Reason && !ordinary(c)
}

// ordinary says whether a condition is nobody's trouble: it is as it should be, somebody asked for it, or it is a time of life that comes and goes.
func ordinary(c *metav1.Condition) bool {
	switch c.Reason {
	case remedyv1.CheckDeletingReason, remedyv1.ClusterDeletingReason, remedyv1.ControlPlaneNotInitializedReason, remedyv1.PauseRequestedReason,
		remedyv1.StormReason, remedyv1.WaitingForHandoverReason:
		return true
	}
	return untroubled(c) || c.Status == metav1.ConditionUnknown || c.Type == remedyv1.PausedCondition
}

// untroubled says whether a condition is as it should be, or as it was asked to be.
func untroubled(c *metav1.Condition) bool {
	good := metav1.ConditionTrue
	if c.Type == remedyv1.PausedCondition {
		good = metav1.ConditionFalse
	}
	return c.Status == good || c.Reason == remedyv1.ObservingReason || c.Reason == remedyv1.TooFewUnhealthyReason
}

// holds says whether the hold is one of its own, and not what an act leaves behind.
func (t *Trace) holds() bool { return t.Decision.Why == "" }

// act is how an act is told; empty if there is none.
func act(d *DecisionPart) (kind, reason string) {
	switch d.Action {
	case actionWords[remediation.MakeRequest], actionWords[remediation.GiveMark]:
		return corev1.EventTypeNormal, RemediationStarted
	case actionWords[remediation.GiveUp]:
		return corev1.EventTypeWarning, d.Why
	case actionWords[remediation.Withdraw], actionWords[remediation.TakeBack], actionWords[remediation.Unmark]:
		return corev1.EventTypeNormal, d.Why
	}
	return "", ""
}

func (d *DecisionPart) sameAct(other *DecisionPart) bool {
	same := d.Step == other.Step || d.Step != nil && other.Step != nil && *d.Step == *other.Step
	return same && d.Action == other.Action && d.Why == other.Why && d.Template == other.Template && d.Attempt == other.Attempt
}

// alarm is the type of the event for a hold: a warning where somebody has to do something.
func alarm[T ~string](hold T) string {
	if word := wordOfHold(remediation.Reason(hold), Hold); word != nil && word.alarming {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
