// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodefences,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodefences/status,verbs=update
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=fenceprofiles,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list

const (
	// concurrency is how many fences are reconciled at the same time. A cluster that hangs takes one for some seconds.
	concurrency = 10
	// minDelay and maxDelay limit the time until a failed reconcile is repeated.
	minDelay, maxDelay = 100 * time.Millisecond, 30 * time.Second
)

// Options are what the reconciler of NodeFences needs.
type Options struct {
	Clusters *workload.Clusters
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	// Observe: no fence begins.
	Observe bool
	// WatchFilter is the value of the watch label; empty for every object.
	WatchFilter string
	// OwnNodesNamespace is the namespace whose NodeFences can fence Nodes of the cluster of the manager.
	OwnNodesNamespace string
}

// SetupWithManager adds the reconciler of NodeFences to a manager.
func SetupWithManager(mgr ctrl.Manager, o Options) error {
	counted, err := NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: o.Events, Metrics: counted, Clock: o.Clock,
		Nodes: func(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
			return o.Clusters.Get(cluster).Client(ctx)
		},
		Observe: o.Observe, WatchFilter: o.WatchFilter, OwnNodesNamespace: o.OwnNodesNamespace,
	}
	// A new fence is due at once, and a failed write is repeated within seconds: a Node waits in the middle of its fence.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay)
	// What the reconciler writes to the status is no reason to decide again.
	changed := predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
	)
	err = ctrl.NewControllerManagedBy(mgr).For(&fencingv1.NodeFence{}, builder.WithPredicates(changed)).Owns(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency, RateLimiter: limiter}).Complete(r)
	return errors.Wrap(err, "failed to set up the reconciler of NodeFences")
}
