// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// HasConditions reports whether a Machine has these conditions already.
func HasConditions(m *clusterv1.Machine, c *explain.MachineConditions) bool {
	for _, wanted := range listed(c) {
		if wanted != nil && !hasCondition(m, wanted) || wanted != nil && !hasV1Beta1Condition(m, wanted) {
			return false
		}
	}
	return !waitsInVain(m, c) && !handOverLeft(m, c)
}

func hasCondition(m *clusterv1.Machine, wanted *explain.MachineCondition) bool {
	present := conditions.Get(m, wanted.Type)
	if present == nil || !wanted.Writes(present.Status) {
		return present != nil
	}
	return present.Status == wanted.Status && present.Reason == wanted.Reason && present.Message == wanted.Message
}

func hasV1Beta1Condition(m *clusterv1.Machine, wanted *explain.MachineCondition) bool {
	if wanted.Deprecated == nil {
		return true
	}
	d, present := wanted.Deprecated, v1beta1(m, wanted.Deprecated.Type)
	if present == nil || !wanted.Writes(metav1.ConditionStatus(present.Status)) {
		return present != nil
	}
	return present.Status == d.Status && string(present.Severity) == d.Severity && present.Reason == d.Reason && present.Message == d.Message
}

// SetConditions sets conditions on a Machine, in both API versions. Conditions that an owner or a remediator has set stay.
func SetConditions(m *clusterv1.Machine, c *explain.MachineConditions, now time.Time) {
	if waitsInVain(m, c) {
		conditions.Delete(m, explain.ExternallyRemediated)
	}
	if handOverLeft(m, c) {
		deprecated.Delete(m, explain.OwnerRemediated)
	}
	for _, wanted := range listed(c) {
		if wanted == nil {
			continue
		}
		if present := conditions.Get(m, wanted.Type); present == nil || wanted.Writes(present.Status) {
			modern := wanted.Condition
			modern.LastTransitionTime = metav1.NewTime(now)
			conditions.Set(m, modern)
		}
		if wanted.Deprecated == nil {
			continue
		}
		if present := v1beta1(m, wanted.Deprecated.Type); present == nil || wanted.Writes(metav1.ConditionStatus(present.Status)) {
			deprecated.SetWithCustomLastTransitionTime(m, v1beta1Condition(wanted.Deprecated, now))
		}
	}
}

// handOverLeft reports whether a healthy Machine has OwnerRemediated=False in v1beta1 only. Owners read the newer condition, so none
// removes it, and it would be taken for the request of a later remediator.
func handOverLeft(m *clusterv1.Machine, c *explain.MachineConditions) bool {
	return c.HealthCheckSucceeded != nil && c.HealthCheckSucceeded.Status == metav1.ConditionTrue &&
		conditions.Get(m, explain.OwnerRemediated) == nil && V1Beta1Reason(m, explain.OwnerRemediated) != ""
}

// CancelOwnerRemediation removes OwnerRemediated from a Machine, if its owner has not begun.
func CancelOwnerRemediation(m *clusterv1.Machine) {
	removeIf(m, explain.OwnerRemediated, notBegun)
}

// notBegun reports whether the reason of OwnerRemediated means that the owner has not begun: it has not answered, or it has deferred, as a
// MachineSet does with each Machine that is over its maxInFlight.
func notBegun(reason string) bool {
	return isWaiting(reason) || reason == clusterv1.MachineSetMachineRemediationDeferredReason
}

// RemoveConditions removes the conditions of a check from a Machine, with the answer of its owner: without HealthCheckSucceeded, owners
// neither act on it nor remove it. Only the answer of an owner that deletes the Machine stays. Conditions that a remediator has set stay.
func RemoveConditions(m *clusterv1.Machine) {
	switch requested := ownerRequested(m); {
	case requested && m.DeletionTimestamp.IsZero():
		conditions.Delete(m, explain.OwnerRemediated)
		deprecated.Delete(m, explain.OwnerRemediated)
	case requested:
		removeIf(m, explain.OwnerRemediated, isWaiting)
	}
	removeIf(m, explain.ExternallyRemediated, isWaiting)
	conditions.Delete(m, explain.HealthCheckSucceeded)
	deprecated.Delete(m, explain.HealthCheckSucceeded)
}

// ownerRequested reports whether the responsible check of a Machine has set OwnerRemediated. Owners change only its reason and message.
func ownerRequested(m *clusterv1.Machine) bool {
	present := conditions.Get(m, explain.OwnerRemediated)
	return present != nil && present.Status == metav1.ConditionFalse &&
		present.LastTransitionTime.Time.Equal(notes.OwnerRequest(m.Annotations))
}

func isWaiting(reason string) bool { return reason == explain.WaitingForRemediation }

// removeIf removes a condition with such a reason.
func removeIf(m *clusterv1.Machine, kind string, is func(reason string) bool) {
	if present := conditions.Get(m, kind); present != nil && is(present.Reason) {
		conditions.Delete(m, kind)
	}
	if present := v1beta1(m, kind); present != nil && is(present.Reason) {
		deprecated.Delete(m, clusterv1.ConditionType(kind))
	}
}

// waitsInVain reports whether ExternallyRemediated is WaitingForRemediation without a request: no other component would remove it.
func waitsInVain(m *clusterv1.Machine, c *explain.MachineConditions) bool {
	if c.HealthCheckSucceeded == nil || c.ExternallyRemediated != nil {
		return false
	}
	present := conditions.Get(m, explain.ExternallyRemediated)
	return present != nil && present.Reason == explain.WaitingForRemediation
}

func listed(c *explain.MachineConditions) [3]*explain.MachineCondition {
	return [...]*explain.MachineCondition{c.HealthCheckSucceeded, c.OwnerRemediated, c.ExternallyRemediated}
}

// v1beta1Condition returns the condition in v1beta1. Its time is used only if its status is new.
func v1beta1Condition(c *explain.DeprecatedCondition, now time.Time) *clusterv1.Condition {
	return &clusterv1.Condition{
		Type: clusterv1.ConditionType(c.Type), Status: c.Status, Severity: clusterv1.ConditionSeverity(c.Severity), Reason: c.Reason,
		Message: c.Message, LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
}

// V1Beta1Reason returns the reason of a condition in v1beta1, if it is False; empty otherwise.
func V1Beta1Reason(m *clusterv1.Machine, kind string) string {
	if present := v1beta1(m, kind); present != nil && present.Status == "False" {
		return present.Reason
	}
	return ""
}

// v1beta1 returns a condition in v1beta1; nil if there is none. It is not a copy, and must not be changed.
func v1beta1(m *clusterv1.Machine, kind string) *clusterv1.Condition {
	all := m.GetV1Beta1Conditions()
	for i := range all {
		if string(all[i].Type) == kind {
			return &all[i]
		}
	}
	return nil
}

// OwnerRemediation returns the owner remediation that the conditions of a Machine report. It belongs to the check that an annotation names.
func OwnerRemediation(m *clusterv1.Machine, check string) remediation.OwnerRemediation {
	healthy, owned := conditions.Get(m, explain.HealthCheckSucceeded), conditions.Get(m, explain.OwnerRemediated)
	mark := remediation.OwnerRemediation{
		Unhealthy:    healthy != nil && healthy.Status == metav1.ConditionFalse,
		MarkedByThis: notes.ResponsibleCheck(m.Annotations) == check,
	}
	if owned == nil || owned.Status != metav1.ConditionFalse {
		if older := v1beta1(m, explain.OwnerRemediated); owned == nil && older != nil && older.Status == corev1.ConditionFalse {
			mark.HandedOverAt = older.LastTransitionTime.Time
		}
		return mark
	}
	mark.Since = owned.LastTransitionTime.Time
	mark.RequestedByThis = mark.MarkedByThis && ownerRequested(m)
	if mark.Refused = owned.Reason == clusterv1.MachineSetMachineCannotBeRemediatedReason; mark.Refused {
		mark.OwnerMessage = owned.Message
	}
	// An owner that supports only v1beta1 sets only that condition.
	older := V1Beta1Reason(m, explain.OwnerRemediated)
	mark.Waiting = notBegun(owned.Reason) && (older == "" || notBegun(older))
	switch {
	case owned.Reason != explain.WaitingForRemediation:
		mark.OwnerReason = owned.Reason
	case !mark.Waiting:
		mark.OwnerReason = older
	}
	// Without HealthCheckSucceeded=False, no owner acts.
	mark.Requested = mark.Unhealthy
	return mark
}
