// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// NotReconciled reports on the checks of a kind that no reconciler reconciles, because an ignored check looks like one that works.
type NotReconciled struct {
	*healthcheck.Environment
	name string
	// object returns an empty check, and conditions those of a check.
	object     func() client.Object
	conditions func(check client.Object) *[]metav1.Condition
	// cause is why no reconciler reconciles the checks now; empty if one does.
	cause func() string
	setUp bool
}

// ReportNotReconciled returns the reconcilers that report on other checks than those of Reconcilers.
func ReportNotReconciled(e *healthcheck.Environment) []*NotReconciled {
	return []*NotReconciled{
		{
			Environment: e, name: "machinehealthcheck-not-reconciled", object: func() client.Object { return &remedyv1.MachineHealthCheck{} },
			conditions: func(check client.Object) *[]metav1.Condition {
				return &check.(*remedyv1.MachineHealthCheck).Status.Conditions
			},
			cause: func() string {
				if !e.NoClusterAPI.Load() {
					return ""
				}
				return "This cluster does not serve Machines of cluster.x-k8s.io/v1beta2, so Remedy does not reconcile MachineHealthChecks. " +
					"Install or upgrade Cluster API: Remedy detects it within a minute"
			},
		},
		{
			Environment: e, name: "nodehealthcheck-not-reconciled", object: func() client.Object { return &remedyv1.NodeHealthCheck{} },
			conditions: func(check client.Object) *[]metav1.Condition { return &check.(*remedyv1.NodeHealthCheck).Status.Conditions },
			cause:      func() string { return "This release of Remedy does not reconcile NodeHealthChecks: it remediates no Node for them" },
		},
	}
}

// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks/status,verbs=patch

// SetupWithManager sets up the controller. Another call changes nothing.
func (r *NotReconciled) SetupWithManager(mgr ctrl.Manager) error {
	if r.setUp {
		return nil
	}
	err := ctrl.NewControllerManagedBy(mgr).Named(r.name).
		For(r.object(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).Complete(r)
	r.setUp = err == nil
	return errors.Wrapf(err, "failed to set up the controller %s", r.name)
}

// Reconcile sets Ready of a check that no reconciler reconciles.
func (r *NotReconciled) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	check, cause := r.object(), r.cause()
	if cause == "" {
		return ctrl.Result{}, nil
	}
	if err := r.Cache.Get(ctx, request.NamespacedName, check); err != nil || !r.Responsible(check) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := check.DeepCopyObject().(client.Object)
	changed := meta.SetStatusCondition(r.conditions(check), metav1.Condition{
		Type: remedyv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: remedyv1.NotReconciledReason, Message: cause,
		ObservedGeneration: check.GetGeneration(), LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Status().Patch(ctx, check, patch))
}
