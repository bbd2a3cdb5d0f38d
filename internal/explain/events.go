// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// What the manager did when it recorded an event.
const (
	EvaluateHealth   = "EvaluateHealth"
	StartRemediation = "StartRemediation"
	EndRemediation   = "EndRemediation"
	BlockRemediation = "BlockRemediation"
	ReportCondition  = "ReportCondition"
	OmitEvents       = "OmitEvents"
)

// Event is an event about a target or a check.
type Event struct {
	// Type is Normal or Warning, Action what the manager did.
	Type, Reason, Action, Message string
}

// Events returns the events about health and blocks between two traces of the same target. A state that lasts is no event. Without an
// earlier trace, as after a restart, there are none.
func Events(before *Past, after *Trace) []Event {
	if before == nil {
		return nil
	}
	var all []Event
	add := func(kind, reason, action, message string) {
		all = append(all, Event{Type: kind, Reason: reason, Action: action, Message: cut(sanitized(after.Target)+": "+message, MaxMessage)})
	}
	if before.Verdict.Kind != after.Verdict.Kind {
		switch {
		case after.Verdict.Kind == KindUnhealthy:
			add(corev1.EventTypeWarning, after.Verdict.Reason, EvaluateHealth, after.Verdict.Message)
		case after.Verdict.Kind == KindHealthy && (before.Verdict.Kind == KindUnhealthy || before.Decision.InFlight):
			add(corev1.EventTypeNormal, BecameHealthy, EvaluateHealth, "Became healthy")
		}
	}
	// A remediation that ends leaves the target blocked for the same reason: that is no second event.
	if d := &after.Decision; d.BlockedReason != "" && before.Decision.BlockedReason != d.BlockedReason && d.Why == "" {
		kind := corev1.EventTypeNormal
		if w := find(d.BlockedReason, Unfinished, Preflight, Guard); w != nil && w.actionNeeded {
			kind = corev1.EventTypeWarning
		}
		add(kind, string(d.BlockedReason), BlockRemediation, d.Message)
	}
	return all
}

// Started returns the event for the start of a remediation.
func Started(target string, step remediation.StepID, attempt int, byOwner bool) Event {
	message := "Requested remediation by its owner"
	if !byOwner {
		message = fmt.Sprintf("Created %s, attempt %d", request(step), attempt)
	}
	return Event{
		Type: corev1.EventTypeNormal, Reason: RemediationStarted, Action: StartRemediation,
		Message: cut(sanitized(target)+": "+message, MaxMessage),
	}
}

// Ended returns the event for the end of a remediation.
func Ended(target string, step remediation.StepID, byOwner bool, why remediation.Reason) Event {
	kind, by := corev1.EventTypeNormal, "its owner"
	if !byOwner {
		by = request(step)
	}
	if w := find(why, Ending, EventOnly); w != nil && w.actionNeeded {
		kind = corev1.EventTypeWarning
	}
	return Event{
		Type: kind, Reason: string(why), Action: EndRemediation,
		Message: cut(sanitized(target)+": Remediation by "+by+" ended because "+sentence(why, &subject{}, Ending, EventOnly), MaxMessage),
	}
}

// ConditionEvents returns the events for the conditions of a check: one for each that changed its status, and for each new reason that
// needs attention. Ready has none because it repeats the others. A new check has events only for what does not work.
func ConditionEvents(before, after []metav1.Condition) []Event {
	var all []Event
	for i := range after {
		c := &after[i]
		was := meta.FindStatusCondition(before, c.Type)
		// The condition Paused has the event for a pause.
		pause := c.Type == remedyv1.RemediationAllowedCondition && c.Reason == remedyv1.PausedReason
		if c.Type == remedyv1.ReadyCondition || pause || !changed(was, c) {
			continue
		}
		kind := corev1.EventTypeWarning
		if expected(c) {
			kind = corev1.EventTypeNormal
		}
		message := c.Type + " is " + string(c.Status)
		if c.Message != "" {
			message += ": " + c.Message
		}
		all = append(all, Event{Type: kind, Reason: c.Reason, Action: ReportCondition, Message: cut(message, MaxMessage)})
	}
	return all
}

// changed reports whether a condition has something new to report. was is nil where there was none.
func changed(was, c *metav1.Condition) bool {
	switch {
	case was == nil:
		return !asIntended(c)
	case was.Status != c.Status:
		return true
	}
	return was.Reason != c.Reason && !expected(c)
}

// expected reports whether a condition needs no attention: it is as intended, a person caused it, or it is a phase that ends.
func expected(c *metav1.Condition) bool {
	switch c.Reason {
	case remedyv1.CheckDeletingReason, remedyv1.ClusterDeletingReason, remedyv1.ControlPlaneNotInitializedReason,
		remedyv1.PauseRequestedReason, remedyv1.StormReason, remedyv1.WaitingForHandoverReason:
		return true
	}
	return asIntended(c) || c.Status == metav1.ConditionUnknown || c.Type == remedyv1.PausedCondition
}

// asIntended reports whether a condition has the status that the check is configured for.
func asIntended(c *metav1.Condition) bool {
	good := metav1.ConditionTrue
	if c.Type == remedyv1.PausedCondition {
		good = metav1.ConditionFalse
	}
	return c.Status == good || c.Reason == remedyv1.ObserveModeReason || c.Reason == remedyv1.TooFewUnhealthyReason
}
