// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/fairqueue"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Environment are the dependencies and settings that the reconcilers of all kinds share.
type Environment struct {
	// Cache is read in every reconcile, Live just before an action, and Client writes.
	Cache  client.Reader
	Live   client.Reader
	Client client.Client
	// Clusters are the workload clusters, and Requests the remediation requests.
	Clusters *workload.Clusters
	Requests *requests.Requests
	Events   events.EventRecorder
	Metrics  *metrics.Metrics
	Clock    clock.PassiveClock
	// Observe: the manager only observes, also where a check enforces.
	Observe bool
	// WatchFilter and Namespace select the checks that this instance is responsible for.
	WatchFilter, Namespace string
	// Claimants are those of all kinds, and Indices those of the cache.
	Claimants []Claimant
	Indices   []Index
	// NoClusterAPI: Cluster API is not served yet, so its objects are neither watched nor read.
	NoClusterAPI atomic.Bool
	// PollInterval is the time between two reads of the requests in a workload cluster; ten seconds if it is zero.
	PollInterval time.Duration
	// ReadOnly: nothing is written, so only permissions to read are needed.
	ReadOnly bool
	// OwnNodesForbidden: the user is not allowed to read the Nodes of the management cluster, so no Cluster is compared with it.
	OwnNodesForbidden bool

	workloadMu sync.Mutex
	// workloadRequests are those of workload clusters, in which checks of Nodes can have their requests.
	workloadRequests map[client.ObjectKey]workloadRequests
}

// Responsible reports whether this instance is responsible for a check. Of the cluster-scoped checks, an instance of one namespace is
// responsible for those of Clusters in that namespace.
func (e *Environment) Responsible(check client.Object) bool {
	if nodes, is := check.(*remedyv1.NodeHealthCheck); is && e.Namespace != "" {
		if ref := nodes.Spec.ClusterRef; ref == nil || ref.Namespace != e.Namespace {
			return false
		}
	}
	return e.WatchFilter == "" || check.GetLabels()[clusterv1.WatchLabel] == e.WatchFilter
}

// Reconciler reconciles the checks of one kind. All exported fields are set by the adapter of the kind.
type Reconciler struct {
	*Environment
	Store   Store
	Source  Source
	Actor   Actor
	Watches Watches
	// Adoption is nil for a kind of which the manager reconciles all checks.
	Adoption Adoption
	// Others reads the claims of another project; nil for none.
	Others OtherClaims

	controller controller.Controller
	records    records
}

// OtherClaims returns the claims of checks of another project, which are not watched: from a recent read, or live.
type OtherClaims interface {
	Claims(ctx context.Context, check *Check, now time.Time, live bool) ForeignClaims
}

// ForeignClaims are the claims of another project as they were read last.
type ForeignClaims struct {
	Claims []Claim
	// Again is when to read them again; zero without any.
	Again time.Time
	// Unread is why they cannot be read now; empty if they can. Forbidden: a permission is missing.
	Unread    string
	Forbidden bool
}

// SetupWithManager sets up the controller, which starts with the manager, or at once if that is running. Another call adds what was left
// out or has failed.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := r.IndexCache(ctx, mgr.GetCache()); err != nil {
		return err
	}
	if r.controller == nil {
		if err := r.newController(mgr); err != nil {
			return errors.Wrapf(err, "failed to set up the controller of %s", r.Store.Kind())
		}
		for _, claimant := range r.Claimants {
			r.Watches.Objects = append(r.Watches.Objects, r.watchOf(claimant))
		}
	}
	for i := range r.Watches.Objects {
		watch := &r.Watches.Objects[i]
		if watch.started || r.leavesOut(watch.Object) {
			continue
		}
		if err := r.controller.Watch(source.Kind(mgr.GetCache(), watch.Object, r.onEach(watch.Checks), watch.Changes)); err != nil {
			return errors.Wrapf(err, "failed to watch %T", watch.Object)
		}
		watch.started = true
	}
	return nil
}

// IndexCache adds the indices to the cache.
func (e *Environment) IndexCache(ctx context.Context, cache client.FieldIndexer) error {
	for i := range e.Indices {
		index := &e.Indices[i]
		if index.created || e.leavesOut(index.Object) {
			continue
		}
		if err := cache.IndexField(ctx, index.Object, index.Field, index.Value); err != nil {
			return errors.Wrapf(err, "failed to index %T by %s", index.Object, index.Field)
		}
		index.created = true
	}
	return nil
}

// leavesOut reports whether objects of a kind cannot be read, because Cluster API is not served.
func (e *Environment) leavesOut(object client.Object) bool {
	if !e.NoClusterAPI.Load() {
		return false
	}
	gvk, err := e.Client.GroupVersionKindFor(object)
	return err == nil && gvk.Group == clusterv1.GroupVersion.Group
}

func (r *Reconciler) newController(mgr manager.Manager) (err error) {
	kind, options := r.Store.Kind(), controller.Options{NewQueue: fairqueue.New}
	if options.MaxConcurrentReconciles, err = workers(mgr.GetControllerOptions(), mgr.GetScheme(), r.Store.Object()); err != nil {
		return err
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).Named(strings.ToLower(kind)).WithOptions(options).
		Watches(r.Store.Object(), r.ofCheck()).
		WatchesRawSource(r.Clusters.NodeSource(r.ofNode)).
		WatchesRawSource(r.Clusters.ConnectionSource(r.ofConnection)).
		WatchesRawSource(r.Requests.Source(kind)).
		WithLogConstructor(logConstructor(mgr.GetLogger(), kind)).
		Build(r)
	return err
}

// workers returns how many checks of a kind are reconciled concurrently; 0 for the default. The builder reads this option only of objects
// for which it is called with For.
func workers(options config.Controller, scheme *runtime.Scheme, check client.Object) (int, error) {
	gvk, err := apiutil.GVKForObject(check, scheme)
	return options.GroupKindConcurrency[gvk.GroupKind().String()], errors.Wrap(err, "failed to find the kind of the checks")
}

// logConstructor adds only the kind and the name of the check to log lines.
func logConstructor(log logr.Logger, kind string) func(*ctrl.Request) logr.Logger {
	log = log.WithName(strings.ToLower(kind))
	return func(request *ctrl.Request) logr.Logger {
		if request == nil {
			return log
		}
		return log.WithValues(kind, request.String())
	}
}

// Index is an index of the cache.
type Index struct {
	Object  client.Object
	Field   string
	Value   func(client.Object) []string
	created bool
}

// event records that an event concerns a check.
func (r *Reconciler) event(check types.NamespacedName, spec bool) {
	r.records.event(check, spec, r.Clock.Now())
}
