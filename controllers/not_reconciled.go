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

// NotReconciled reports on MachineHealthChecks while Cluster API is not served: an ignored check looks like one that works.
type NotReconciled struct {
	*healthcheck.Environment
	setUp bool
}

const notReconciled = "This cluster does not serve Machines of cluster.x-k8s.io/v1beta2, so Remedy does not reconcile " +
	"MachineHealthChecks. Install or upgrade Cluster API: Remedy detects it within a minute"

// SetupWithManager sets up the controller. Another call changes nothing.
func (r *NotReconciled) SetupWithManager(mgr ctrl.Manager) error {
	if r.setUp {
		return nil
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("machinehealthcheck-not-reconciled").
		For(&remedyv1.MachineHealthCheck{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).Complete(r)
	r.setUp = err == nil
	return errors.Wrap(err, "failed to set up the report on MachineHealthChecks")
}

// Reconcile sets Ready of a check.
func (r *NotReconciled) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	check := &remedyv1.MachineHealthCheck{}
	if !r.NoClusterAPI.Load() {
		return ctrl.Result{}, nil
	}
	if err := r.Cache.Get(ctx, request.NamespacedName, check); err != nil || !r.Responsible(check) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := check.DeepCopy()
	changed := meta.SetStatusCondition(&check.Status.Conditions, metav1.Condition{
		Type: remedyv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: remedyv1.NotReconciledReason, Message: notReconciled,
		ObservedGeneration: check.GetGeneration(),
	})
	if !changed {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return ctrl.Result{}, client.IgnoreNotFound(r.Client.Status().Patch(ctx, check, patch))
}
