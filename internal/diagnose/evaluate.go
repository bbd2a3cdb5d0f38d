// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

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
}

// stopTime is how long the caches may take to stop.
const stopTime = 2 * time.Second

// newEvaluator reads one namespace and connects one Cluster.
func (c *Cluster) newEvaluator(ctx context.Context, cluster client.ObjectKey, readable func(client.Object) bool) (*evaluator, error) {
	noStop := time.Duration(0)
	mgr, err := ctrl.NewManager(c.config, ctrl.Options{
		Scheme: c.client.Scheme(), Logger: quiet(), Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &noStop,
		// A process may explain several Machines.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{nodes: workload.StrippedNodes()},
			DefaultNamespaces: map[string]cache.Config{cluster.Namespace: {}},
		},
	})
	if err != nil {
		return nil, errors.Wrap(err, "failed to read the management cluster")
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	e := &evaluator{}
	e.stop = func() {
		stop()
		inTime, done := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer done()
		select {
		case <-ended:
		case <-inTime.Done():
		}
		e.Clusters.CloseConnections()
	}
	if err := e.prepare(ctx, mgr, cluster, readable); err != nil {
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

func (e *evaluator) prepare(ctx context.Context, mgr ctrl.Manager, cluster client.ObjectKey, readable func(client.Object) bool) error {
	clusters, err := workload.New(mgr, clock.RealClock{})
	if err != nil {
		return errors.Wrap(err, "failed to prepare the reading of Nodes")
	}
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		return errors.WithStack(err)
	}
	found, err := requests.New(ctx, requests.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: clock.RealClock{}, Namespace: cluster.Namespace,
		ReadOnly: true,
	})
	if err != nil {
		return errors.Wrap(err, "failed to prepare the reading of remediation requests")
	}
	e.Environment = &healthcheck.Environment{
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: clusters, Requests: found,
		Metrics: counted, Clock: clock.RealClock{},
	}
	// Whether the manager has adopted a check follows from the check.
	e.kinds = controllers.Reconcilers(e.Environment, intree.AdoptionPolicy{All: true})
	kept := e.Claimants[:0]
	for _, claimant := range e.Claimants {
		if readable(claimant.Object()) {
			kept = append(kept, claimant)
		}
	}
	e.Claimants = kept
	if err := e.IndexCache(ctx, mgr.GetCache()); err != nil {
		return err
	}
	err = clusters.Connect(ctx, mgr, workload.Options{UserAgent: "kubectl-remedy", Only: cluster, Concurrency: 1, OnStandby: true})
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
