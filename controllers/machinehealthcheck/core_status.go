// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
)

// carries: there is no room for single Machines, nor for history; events, metrics and the Machines themselves tell of them. The condition Paused
// belongs to Cluster API's own controller, and to us only where that does not run.
func (c *CoreChecks) carries(before, status *remedyv1.MachineHealthCheckStatus) remedyv1.MachineHealthCheckStatus {
	carried := remedyv1.MachineHealthCheckStatus{ExpectedMachines: status.ExpectedMachines, CurrentHealthy: status.CurrentHealthy, Targets: status.Targets}
	carried.RemediationsAllowed, carried.ObservedGeneration = status.RemediationsAllowed, status.ObservedGeneration
	carried.Conditions = slices.Clone(before.Conditions)
	for _, told := range status.Conditions {
		if told.Type != remedyv1.PausedCondition || c.Exclusive {
			meta.SetStatusCondition(&carried.Conditions, told)
		}
	}
	return carried
}

// tellCore puts a status into a check of Cluster API, with the older generation of its conditions.
func tellCore(core *clusterv1.MachineHealthCheck, status *remedyv1.MachineHealthCheckStatus) {
	core.Status.ExpectedMachines, core.Status.CurrentHealthy = status.ExpectedMachines, status.CurrentHealthy
	core.Status.RemediationsAllowed, core.Status.Targets = status.RemediationsAllowed, status.Targets
	core.Status.ObservedGeneration, core.Status.Conditions = status.ObservedGeneration, status.Conditions
	if allowed := meta.FindStatusCondition(status.Conditions, remedyv1.RemediationAllowedCondition); allowed != nil {
		tellOlder(core, allowed)
	}
}

// tellOlder says whether remediation is allowed to those who read the older generation of conditions.
func tellOlder(core *clusterv1.MachineHealthCheck, c *metav1.Condition) {
	if c.Status == metav1.ConditionTrue {
		deprecated.MarkTrue(core, clusterv1.RemediationAllowedV1Beta1Condition)
		return
	}
	deprecated.MarkFalse(core, clusterv1.RemediationAllowedV1Beta1Condition, c.Reason, clusterv1.ConditionSeverityWarning, "%s", c.Message)
}

// clearCore takes what only we say out of the status of a check of Cluster API, except whose it is. What both say is corrected by its own controller.
func clearCore(core *clusterv1.MachineHealthCheck) {
	for _, kind := range clusterapi.OnlyOurs {
		if kind != remedyv1.TakenOverCondition {
			meta.RemoveStatusCondition(&core.Status.Conditions, kind)
		}
	}
}
