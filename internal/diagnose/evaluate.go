// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// evaluator evaluates checks with the reconcilers of the manager, of which it starts no controller.
type evaluator struct {
	*healthcheck.Environment
	kinds []controllers.Kind
	stop  func()

	mgr manager.Manager
	// requests are those of each namespace, or of all under the empty name. watchRequests begins to read them, until stop is called.
	requests      map[string]*requests.Requests
	watchRequests func(namespace string) (*requests.Requests, error)
}

// stopTime is how long the caches may take to stop.
const stopTime = 2 * time.Second

// newEvaluator reads the namespace of the Cluster of a target and connects that Cluster. Without a Cluster, it does not read Cluster API.
func (c *Cluster) newEvaluator(ctx context.Context, t *target, p *permitted) (*evaluator, error) {
	noStop := time.Duration(0)
	mgr, err := ctrl.NewManager(c.config, ctrl.Options{
		Scheme: c.client.Scheme(), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &noStop,
		// A process may explain several targets.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          map[client.Object]cache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: map[string]cache.Config{t.capi().Namespace: {}},
		},
	})
	if err != nil {
		return nil, errors.Wrap(err, "failed to read the management cluster")
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	e := &evaluator{mgr: mgr, requests: map[string]*requests.Requests{}}
	e.watchRequests = func(namespace string) (*requests.Requests, error) {
		return requests.New(ctx, requests.Options{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: clock.RealClock{}, Namespace: namespace,
			ReadOnly: true,
		})
	}
	e.stop = func() {
		stop()
		inTime, done := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer done()
		select {
		case <-ended:
		case <-inTime.Done():
		}
	}
	if err := e.prepare(ctx, t, p); err != nil {
		stop()
		return nil, err
	}
	go func() {
		defer close(ended)
		// An error of a cache is that of a read, too.
		_ = mgr.Start(ctx)
	}()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		e.stop()
		return nil, errors.New("failed to read the management cluster in time")
	}
	return e, nil
}

func (e *evaluator) prepare(ctx context.Context, t *target, p *permitted) error {
	clusters, err := workload.New(e.mgr, clock.RealClock{})
	if err != nil {
		return errors.Wrap(err, "failed to prepare the reading of Nodes")
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		return errors.WithStack(err)
	}
	e.Environment = &healthcheck.Environment{
		Cache: e.mgr.GetCache(), Live: e.mgr.GetAPIReader(), Client: e.mgr.GetClient(), Clusters: clusters,
		Metrics: counted, Clock: clock.RealClock{}, ReadOnly: true,
		OwnNodesForbidden: p.unread[nodes.String()],
	}
	cluster := t.capi()
	e.NoClusterAPI.Store(cluster.Name == "" || p.unread[machinesOfSelf])
	// Whether the manager has adopted a check follows from the check.
	e.kinds = controllers.Reconcilers(e.Environment, intree.AdoptionPolicy{All: true})
	// Without Cluster API, or a permission to read it, only NodeHealthChecks are read.
	unread := func(object client.Object) bool {
		_, ofNodes := object.(*remedyv1.NodeHealthCheck)
		return !p.readable(object) || !ofNodes && e.NoClusterAPI.Load()
	}
	e.Claimants = slices.DeleteFunc(e.Claimants, func(c healthcheck.Claimant) bool { return unread(c.Object()) })
	e.Indices = slices.DeleteFunc(e.Indices, func(index healthcheck.Index) bool { return unread(index.Object) })
	if err := e.IndexCache(ctx, e.mgr.GetCache()); err != nil || e.NoClusterAPI.Load() {
		return err
	}
	err = clusters.Connect(ctx, e.mgr, workload.Options{UserAgent: "kubectl-remedy", Only: cluster, Concurrency: 1, OnStandby: true})
	return errors.Wrap(err, "failed to prepare the connection to the workload cluster")
}

// reconciler returns the reconciler of a kind of checks.
func (e *evaluator) reconciler(kind string) *healthcheck.Reconciler {
	for _, k := range e.kinds {
		if k.Store.Kind() == kind {
			return k.Reconciler
		}
	}
	return nil
}

// requestNamespace is the namespace of the requests of a check; empty for all, if they are in several.
func requestNamespace(check *healthcheck.Check) string {
	namespace := check.ID.Namespace
	for _, template := range check.Templates {
		if namespace != "" && namespace != template.Namespace {
			return ""
		}
		namespace = template.Namespace
	}
	return namespace
}

// readRequests selects the namespace of the requests that are read.
func (e *evaluator) readRequests(namespace string) error {
	if e.requests[namespace] == nil {
		found, err := e.watchRequests(namespace)
		if err != nil {
			return errors.Wrap(err, "failed to prepare the reading of remediation requests")
		}
		e.requests[namespace] = found
	}
	e.Requests = e.requests[namespace]
	return nil
}

// The wait for the Nodes of a cluster.
const (
	nodesTimeout = 10 * time.Second
	nodesRetry   = 50 * time.Millisecond
)

// nodesOf returns the Nodes of a cluster when they were read.
func (e *evaluator) nodesOf(ctx context.Context, cluster client.ObjectKey) (found []*corev1.Node, err error) {
	_ = wait.PollUntilContextTimeout(ctx, nodesRetry, nodesTimeout, true, func(ctx context.Context) (bool, error) {
		found, err = e.Clusters.Get(cluster).Nodes(ctx)
		reason := workload.ReadErrorReasonOf(err)
		return reason != workload.NotReadYet && reason != workload.NotConnected, nil
	})
	return found, err
}
