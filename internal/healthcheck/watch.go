// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Watches are what a kind watches besides checks. They read only the cache.
type Watches struct {
	Objects []Watch
	// Node and Cluster return the checks that a change of a Node, or of a whole Cluster, concerns.
	Node    func(ctx context.Context, change workload.NodeChange) []types.NamespacedName
	Cluster func(ctx context.Context, cluster client.ObjectKey) []types.NamespacedName
}

// Watch is about objects of one kind.
type Watch struct {
	Object client.Object
	// Changes filters changes that no rule reads, and Checks returns the checks that an object concerns.
	Changes predicate.Predicate
	Checks  func(ctx context.Context, object client.Object) []types.NamespacedName
	started bool
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// add enqueues checks because of an event.
func (r *Reconciler) add(q queue, checks ...types.NamespacedName) {
	for _, check := range checks {
		r.event(check, false)
		q.Add(reconcile.Request{NamespacedName: check})
	}
}

// onEach enqueues the checks that an object concerns, also those that it concerned before a change.
func (r *Reconciler) onEach(concerned func(ctx context.Context, object client.Object) []types.NamespacedName) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.add(q, concerned(ctx, e.Object)...) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			r.add(q, concerned(ctx, e.ObjectOld)...)
			r.add(q, concerned(ctx, e.ObjectNew)...)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.add(q, concerned(ctx, e.Object)...) },
	}
}

// watchOf returns a watch that enqueues the other checks of the same Cluster: one can become responsible for the targets of another.
// Without a Cluster there are none; when it is created, all its checks are enqueued.
func (r *Reconciler) watchOf(claimant Claimant) Watch {
	return Watch{
		Object: claimant.Object(), Changes: claimant.Changes(),
		Checks: func(ctx context.Context, check client.Object) []types.NamespacedName {
			key := claimant.Cluster(check)
			if key != workload.ManagementCluster && apierrors.IsNotFound(r.Cache.Get(ctx, key, &clusterv1.Cluster{})) {
				return nil
			}
			checks := r.Watches.Cluster(ctx, key)
			others, err := r.otherNames(ctx, key)
			LogUnread(ctx, key, err)
			for _, other := range others {
				checks = append(checks, r.Watches.Cluster(ctx, other.key)...)
			}
			return checks
		},
	}
}

// LogUnread logs why an event reconciles no check of a cluster, or not all of them. They are reconciled when they are due. While the
// manager stops, every read fails.
func LogUnread(ctx context.Context, cluster client.ObjectKey, err error) {
	if err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to read the checks that an event concerns", "cluster", cluster.String())
	}
}

func (r *Reconciler) ofNode(ctx context.Context, change workload.NodeChange) []reconcile.Request {
	return r.requests(r.Watches.Node(ctx, change))
}

// ofConnection enqueues the checks of a cluster, and those of the management cluster if its Nodes name that Cluster: whether both are the
// same cluster may be known now.
func (r *Reconciler) ofConnection(ctx context.Context, cluster client.ObjectKey) []reconcile.Request {
	checks := r.Watches.Cluster(ctx, cluster)
	if own := r.Watches.Cluster(ctx, workload.ManagementCluster); cluster != workload.ManagementCluster && len(own) > 0 {
		nodes, err := r.Clusters.Get(workload.ManagementCluster).Nodes(ctx)
		if err == nil && slices.Contains(ClustersOfNodes(nodes), cluster) {
			checks = append(checks, own...)
		}
	}
	return r.requests(checks)
}

func (r *Reconciler) requests(checks []types.NamespacedName) []reconcile.Request {
	all := make([]reconcile.Request, 0, len(checks))
	for _, check := range checks {
		r.event(check, false)
		all = append(all, reconcile.Request{NamespacedName: check})
	}
	return all
}

// concerns reports whether this instance is responsible for a check, or has adopted it.
func (r *Reconciler) concerns(check client.Object) bool {
	return r.Responsible(check) || r.Adoption != nil && r.Adoption.HasAdopted(check)
}

// ofCheck enqueues the checks themselves. A resync enqueues all of them, without recording an event.
func (r *Reconciler) ofCheck() handler.EventHandler {
	changed := func(q queue, check client.Object) {
		key := client.ObjectKeyFromObject(check)
		r.event(key, true)
		q.Add(reconcile.Request{NamespacedName: key})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			switch {
			case !r.concerns(e.Object):
			case e.IsInInitialList:
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
			default:
				changed(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			switch {
			case !r.concerns(e.ObjectNew) && !r.concerns(e.ObjectOld):
			case e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion():
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)})
			case MetadataChanged(e.ObjectOld, e.ObjectNew) || r.Adoption != nil && r.Adoption.Changed(e.ObjectOld, e.ObjectNew):
				changed(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			if r.concerns(e.Object) {
				changed(q, e.Object)
			}
		},
	}
}

// MetadataChanged reports whether anything but the status of an object has changed.
func MetadataChanged(a, b client.Object) bool {
	return CheckChanged(a, b) || !maps.Equal(a.GetLabels(), b.GetLabels()) || !maps.Equal(a.GetAnnotations(), b.GetAnnotations()) ||
		!slices.Equal(a.GetFinalizers(), b.GetFinalizers())
}

// CheckChanged leaves out what other checks do not read: annotations of a check concern that check only.
func CheckChanged(a, b client.Object) bool {
	return a.GetGeneration() != b.GetGeneration() || !a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp())
}

// ClusterChanged leaves out other changes of a Cluster than a pause, a deletion, and what Machines wait for.
var ClusterChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*clusterv1.Cluster), e.ObjectNew.(*clusterv1.Cluster)
	return MetadataChanged(before, after) || conditionChanged(before, after, clusterv1.ClusterControlPlaneInitializedCondition) ||
		conditionChanged(before, after, clusterv1.ClusterInfrastructureReadyCondition)
}}

func conditionChanged(before, after *clusterv1.Cluster, kind string) bool {
	a, b := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
	return (a == nil) != (b == nil) || a != nil && (a.Status != b.Status || !a.LastTransitionTime.Equal(&b.LastTransitionTime))
}
