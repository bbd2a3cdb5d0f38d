// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// statusOf converts the status of an in-tree check to that of Remedy.
func statusOf(core *clusterv1.MachineHealthCheck) remedyv1.MachineHealthCheckStatus {
	status := remedyv1.MachineHealthCheckStatus{
		ExpectedMachines: core.Status.ExpectedMachines, CurrentHealthy: core.Status.CurrentHealthy, Targets: core.Status.Targets,
	}
	status.Conditions, status.ObservedGeneration = core.Status.Conditions, core.Status.ObservedGeneration
	status.RemediationsAllowed = core.Status.RemediationsAllowed
	return status
}

// carried returns the fields of a status that an in-tree check has, too. If the in-tree controller runs, it sets the condition Paused.
func (a *Adoption) carried(before *remedyv1.MachineHealthCheckStatus, status *remedyv1.CheckStatus) remedyv1.MachineHealthCheckStatus {
	carried := *before
	carried.RemediationsAllowed, carried.ObservedGeneration = status.RemediationsAllowed, status.ObservedGeneration
	carried.Conditions = slices.Clone(before.Conditions)
	for _, c := range status.Conditions {
		if c.Type != remedyv1.PausedCondition || a.Replace {
			meta.SetStatusCondition(&carried.Conditions, c)
		}
	}
	return carried
}

// WriteStatus writes the fields that an in-tree check has: it has none for single Machines and for history. The in-tree controller writes
// to the same lists, so the write has a resourceVersion.
func (a *Adoption) WriteStatus(
	ctx context.Context, check *healthcheck.Check, status *remedyv1.CheckStatus, evaluation *explain.Evaluation,
) (*healthcheck.Check, error) {
	before := check.Object.(*clusterv1.MachineHealthCheck)
	known := statusOf(before)
	inTree, trigger := *status, &before.Spec.Remediation.TriggerIf
	limit := ptr.Deref(trigger.UnhealthyLessThanOrEqualTo, intstr.FromString("100%"))
	inTree.Conditions = explain.InTreeConditions(status.Conditions, evaluation, limit.String(), trigger.UnhealthyInRange)
	wanted := a.carried(&known, &inTree)
	machinehealthcheck.Count(&wanted, evaluation)
	if equality.Semantic.DeepEqual(known, wanted) {
		return check, nil
	}
	core := before.DeepCopy()
	setStatus(core, &wanted)
	if err := a.Client.Status().Patch(ctx, core, clusterapi.StatusPatch(before, core)); err != nil {
		return nil, errors.Wrap(err, "failed to write the status of the check")
	}
	after := *check
	after.Object, after.Status = core, statusOf(core).CheckStatus
	return &after, nil
}

// setStatus sets the status of an in-tree check, also its v1beta1 condition.
func setStatus(core *clusterv1.MachineHealthCheck, status *remedyv1.MachineHealthCheckStatus) {
	core.Status.ExpectedMachines, core.Status.CurrentHealthy = status.ExpectedMachines, status.CurrentHealthy
	core.Status.RemediationsAllowed, core.Status.Targets = status.RemediationsAllowed, status.Targets
	core.Status.ObservedGeneration, core.Status.Conditions = status.ObservedGeneration, status.Conditions
	if allowed := meta.FindStatusCondition(status.Conditions, remedyv1.RemediationAllowedCondition); allowed != nil {
		if allowed.Status == metav1.ConditionTrue {
			deprecated.MarkTrue(core, clusterv1.RemediationAllowedV1Beta1Condition)
		} else {
			deprecated.MarkFalse(core, clusterv1.RemediationAllowedV1Beta1Condition, allowed.Reason, clusterv1.ConditionSeverityWarning, "%s",
				allowed.Message)
		}
	}
}
