// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// NotReconciled reports on checks that need Cluster API while that is not served: an ignored check looks like one that works. These are
// MachineHealthChecks, and NodeHealthChecks of a Cluster.
type NotReconciled struct {
	*healthcheck.Environment
	setUp bool
}

const notReconciled = "This cluster does not serve Machines of cluster.x-k8s.io/v1beta2, so Remedy does not reconcile %s. Install or " +
	"upgrade Cluster API: Remedy detects it within a minute"

// SetupWithManager sets up the controllers. Another call changes nothing.
func (r *NotReconciled) SetupWithManager(mgr ctrl.Manager) error {
	if r.setUp {
		return nil
	}
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).Named("machinehealthcheck-not-reconciled").
		For(&remedyv1.MachineHealthCheck{}, changed).Complete(reconcile.Func(r.ofMachines))
	if err == nil {
		err = ctrl.NewControllerManagedBy(mgr).Named("nodehealthcheck-not-reconciled").
			For(&remedyv1.NodeHealthCheck{}, changed).Complete(reconcile.Func(r.ofNodes))
	}
	r.setUp = err == nil
	return errors.Wrap(err, "failed to set up the report on checks that need Cluster API")
}

func (r *NotReconciled) ofMachines(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	check := &remedyv1.MachineHealthCheck{}
	if err := r.Cache.Get(ctx, request.NamespacedName, check); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.report(ctx, check, &check.Status.Conditions, "MachineHealthChecks")
}

func (r *NotReconciled) ofNodes(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	check := &remedyv1.NodeHealthCheck{}
	if err := r.Cache.Get(ctx, request.NamespacedName, check); err != nil || check.Spec.ClusterRef == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, r.report(ctx, check, &check.Status.Conditions, "NodeHealthChecks with a clusterRef")
}

// report sets Ready of a check.
func (r *NotReconciled) report(ctx context.Context, check client.Object, conditions *[]metav1.Condition, checks string) error {
	if !r.NoClusterAPI.Load() || !r.Responsible(check) {
		return nil
	}
	before := check.DeepCopyObject().(client.Object)
	changed := meta.SetStatusCondition(conditions, metav1.Condition{
		Type: remedyv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: remedyv1.NotReconciledReason,
		Message: fmt.Sprintf(notReconciled, checks), ObservedGeneration: check.GetGeneration(),
	})
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(r.Client.Status().Patch(ctx, check, patch))
}
