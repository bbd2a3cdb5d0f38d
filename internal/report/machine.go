// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
)

// MachineSays says whether a Machine has these conditions already, so that nothing has to be written.
func MachineSays(m *clusterv1.Machine, c *explain.MachineConditions) bool {
	for _, wanted := range listed(c) {
		if wanted != nil && !saysModern(m, wanted) || wanted != nil && !saysDeprecated(m, wanted) {
			return false
		}
	}
	return !waitsInVain(m, c)
}

func saysModern(m *clusterv1.Machine, wanted *explain.MachineCondition) bool {
	present := conditions.Get(m, wanted.Type)
	if present == nil || !wanted.Writes(present.Status) {
		return present != nil
	}
	return present.Status == wanted.Status && present.Reason == wanted.Reason && present.Message == wanted.Message
}

func saysDeprecated(m *clusterv1.Machine, wanted *explain.MachineCondition) bool {
	if wanted.Deprecated == nil {
		return true
	}
	told, present := wanted.Deprecated, older(m, wanted.Deprecated.Type)
	if present == nil || !wanted.Writes(metav1.ConditionStatus(present.Status)) {
		return present != nil
	}
	return present.Status == told.Status && string(present.Severity) == told.Severity && present.Reason == told.Reason && present.Message == told.Message
}

// TellMachine sets conditions on a Machine, in both generations. What an owner or a remediator has to say stays as it is.
func TellMachine(m *clusterv1.Machine, c *explain.MachineConditions, now time.Time) {
	if waitsInVain(m, c) {
		conditions.Delete(m, explain.ExternallyRemediated)
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
		if present := deprecated.Get(m, clusterv1.ConditionType(wanted.Deprecated.Type)); present == nil || wanted.Writes(metav1.ConditionStatus(present.Status)) {
			deprecated.SetWithCustomLastTransitionTime(m, ofOlderGeneration(wanted.Deprecated, now))
		}
	}
}

// TakeBackMark removes what the owner of a Machine was asked, where it has not said anything yet.
func TakeBackMark(m *clusterv1.Machine) {
	removeWaiting(m, explain.OwnerRemediated)
}

// ClearMachine removes everything that a check says on a Machine; of its remediation only what nobody has answered yet.
func ClearMachine(m *clusterv1.Machine) {
	removeWaiting(m, explain.OwnerRemediated)
	removeWaiting(m, explain.ExternallyRemediated)
	conditions.Delete(m, explain.HealthCheckSucceeded)
	deprecated.Delete(m, explain.HealthCheckSucceeded)
}

func removeWaiting(m *clusterv1.Machine, kind string) {
	if present := conditions.Get(m, kind); present != nil && present.Reason == explain.WaitingForRemediation {
		conditions.Delete(m, kind)
	}
	if present := deprecated.Get(m, clusterv1.ConditionType(kind)); present != nil && present.Reason == explain.WaitingForRemediation {
		deprecated.Delete(m, clusterv1.ConditionType(kind))
	}
}

// waitsInVain says whether a Machine is said to wait for a remediator that nobody has asked, or not any more: nobody would ever change that.
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

// ofOlderGeneration is a condition of the older generation. Its time counts only if its status is new.
func ofOlderGeneration(c *explain.DeprecatedCondition, now time.Time) *clusterv1.Condition {
	return &clusterv1.Condition{
		Type: clusterv1.ConditionType(c.Type), Status: c.Status, Severity: clusterv1.ConditionSeverity(c.Severity), Reason: c.Reason, Message: c.Message,
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
}
