// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/eventqueue"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// Instance is a running instance of the manager's reconcilers.
type Instance struct {
	*faults.Process
	Stage    *Stage
	Cache    client.Reader
	Clusters *workload.Clusters
	// KnownRequests are the requests as this instance has read them.
	KnownRequests *requests.Requests
	// reconciles counts them by check.
	reconciles sync.Map
	Stop       func()
	Metrics    prometheus.Gatherer
	// read is called when a check was read from the cache.
	read func()
	// NeverIdle is set by a test in which each reconcile retries a rejected write.
	NeverIdle bool
}

// reconcileCounter counts reconciles: each begins with a read of its check. The reconciler of in-tree checks reads an
// in-tree check a second time.
type reconcileCounter struct {
	client.Reader
	c *Instance
}

// Get implements client.Reader.
func (p reconcileCounter) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, begins := o.(*remedyv1.MachineHealthCheck); begins {
		p.c.Reconciles(key.Name).Add(1)
		defer p.c.read()
	}
	if _, begins := o.(*remedyv1.NodeHealthCheck); begins {
		p.c.Reconciles(key.Name).Add(1)
		defer p.c.read()
	}
	if _, is := o.(*clusterv1.MachineHealthCheck); is {
		p.c.Reconciles(InTreeName(key.Name)).Add(1)
	}
	return p.Reader.Get(ctx, key, o, options...)
}

// Start runs the reconcilers with the manager's own permissions until the test ends or stops them.
func (s *Stage) Start() *Instance {
	s.T.Helper()
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	return c
}

// User is the configuration of the manager's ServiceAccount.
func (s *Stage) User() *rest.Config {
	s.T.Helper()
	user := Management.ConfigOf(s.T, testenv.Manager)
	user.QPS, user.Burst = 1000, 1000
	return user
}

// StartAs runs the reconcilers as one process, which may crash. It fails if the process has crashed before they run.
func (s *Stage) StartAs(process *faults.Process, user *rest.Config) (*Instance, error) {
	s.T.Helper()
	c := &Instance{Process: process, Stage: s, read: func() {}}
	if s.OnFirstRead != nil {
		once := &sync.Once{}
		c.read = func() { once.Do(func() { s.OnFirstRead(c) }) }
	}
	if s.forwarder != nil {
		s.forwarder.process.Store(process)
	}
	ctx, cancel := context.WithCancel(process.Context())
	mgr, err := s.manager(process.Config(user))
	if err == nil {
		err = c.wire(ctx, mgr)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.Stop = sync.OnceFunc(func() {
		cancel()
		// The stacks show which goroutine hangs.
		if err := <-ended; err != nil && !process.Crashed() {
			all := make([]byte, 1<<22)
			s.T.Errorf("the manager does not stop: %v\n%s", err, all[:runtime.Stack(all, true)])
		}
	})
	return c, nil
}

// watched is the namespace that the reconcilers watch; empty for all.
func (s *Stage) watched() string {
	if s.AllNamespaces {
		return ""
	}
	return s.Namespace
}

// manager returns the manager that runs the reconcilers.
func (s *Stage) manager(user *rest.Config) (manager.Manager, error) {
	cached := map[string]ctrlcache.Config{s.Namespace: {}}
	if s.AllNamespaces {
		cached = nil
	}
	return ctrl.NewManager(user, ctrl.Options{
		Scheme: testenv.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: testenv.Logger,
		Controller: config.Controller{
			SkipNameValidation:      ptr.To(true),
			UsePriorityQueue:        ptr.To(false),
			MaxConcurrentReconciles: max(s.workers, 1),
		},
		GracefulShutdownTimeout: ptr.To(time.Minute),
		Cache: ctrlcache.Options{
			SyncPeriod:        s.SyncPeriod,
			DefaultTransform:  ctrlcache.TransformStripManagedFields(),
			ByObject:          map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: cached,
		},
	})
}

// wire adds all reconcilers to the manager, as the manager's command does.
func (c *Instance) wire(ctx context.Context, mgr manager.Manager) error {
	s := c.Stage
	now := clock.Clock(clock.RealClock{})
	if s.Clock != nil {
		now = s.Clock
	}
	clusters, err := workload.New(mgr, clock.RealClock{})
	if err != nil {
		return err
	}
	if !s.OwnTimes {
		clusters.SetClockTolerance(playedTimes)
	}
	options := workload.Options{
		UserAgent: "test", Concurrency: 10, QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true, RefuseInsecure: s.RefuseInsecure,
	}
	if err := clusters.Connect(ctx, mgr, options); err != nil {
		return err
	}
	remediationRequests, err := requests.New(
		ctx,
		requests.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: now, Namespace: s.watched()},
	)
	if err != nil {
		return err
	}
	registry := prometheus.NewPedanticRegistry()
	c.Metrics = registry
	counted, err := metrics.New(registry)
	if err != nil {
		return err
	}
	recorder, err := eventqueue.New(mgr, clock.RealClock{}, counted.EventDropped)
	if err != nil {
		return err
	}
	c.Cache, c.Clusters, c.KnownRequests = mgr.GetCache(), clusters, remediationRequests
	all := controllers.Reconcilers(&healthcheck.Environment{
		Cache: reconcileCounter{
			mgr.GetCache(),
			c,
		}, Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: clusters, Requests: remediationRequests,
		Events: recorder, Metrics: counted, Clock: now, WatchFilter: s.WatchFilter, Namespace: s.watched(), Observe: s.Observe,
		PollInterval: s.PollInterval,
	}, s.TakesOver)
	for _, reconciler := range all {
		if err := reconciler.SetupWithManager(ctx, mgr); err != nil {
			return err
		}
	}
	return nil
}

// StopIdle waits until nothing is left to do and stops the instance. It fails the test if the reconcilers never stop writing.
func (c *Instance) StopIdle() {
	c.Stage.T.Helper()
	if !c.NeverIdle && !c.Stage.T.Failed() && !c.Crashed() && c.Context().Err() == nil {
		c.WaitIdle()
	}
	c.Stop()
}

// Series returns the values of a metric whose series have all these label values.
func (c *Instance) Series(name string, labels ...string) []float64 {
	c.Stage.T.Helper()
	families, err := c.Metrics.Gather()
	c.Stage.Expect(err).ToNot(HaveOccurred())
	var found []float64
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var has []string
			for _, label := range metric.GetLabel() {
				has = append(has, label.GetValue())
			}
			if !slices.ContainsFunc(labels, func(label string) bool { return !slices.Contains(has, label) }) {
				found = append(found, metric.GetGauge().GetValue()+metric.GetCounter().GetValue())
			}
		}
	}
	return found
}
