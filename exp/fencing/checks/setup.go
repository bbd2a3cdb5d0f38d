// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"

	"github.com/pkg/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
)

// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=fenceprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=fenceprofiles/status,verbs=update
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodefences,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list

// SetupWithManager adds the reconciler to a manager.
//
// It watches only the metadata of FenceProfiles: admission does not read a podTemplate, and one profile that cannot be decoded would keep
// the cache of all profiles from being filled.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	changed := predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
	)
	err := ctrl.NewControllerManagedBy(mgr).Named("fenceprofile").
		For(&fencingv1.FenceProfile{}, builder.OnlyMetadata, builder.WithPredicates(changed)).
		Watches(&fencingv1.NodeFence{}, handler.EnqueueRequestsFromMapFunc(profileOf)).Complete(r)
	return errors.Wrap(err, "failed to set up the reconciler of FenceProfiles")
}

// profileOf is the profile of a NodeFence: of its check, and of a fence that has begun, because its Node is not checked meanwhile.
func profileOf(_ context.Context, object client.Object) []reconcile.Request {
	fence, is := object.(*fencingv1.NodeFence)
	if !is {
		return nil
	}
	name := fence.Spec.ProfileName
	if fence.Status.Node != nil {
		name = cmp.Or(name, fence.Status.Node.ProfileName)
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: fence.Namespace, Name: name}}}
}
