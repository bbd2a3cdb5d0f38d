// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
)

// controller is a running one.
type controller struct {
	*faults.Process
	s     *stage
	cache client.Reader
	// clusters are what it knows of workload clusters.
	clusters *workload.Clusters
	// requests are what it knows of requests.
	requests *requests.Requests
	// passes is how many it has begun, by check.
	passes sync.Map
	stop   func()
	// gatherer has the metrics, which tell of which checks anything is known.
	gatherer prometheus.Gatherer
	// read happens when a check has been read from the cache.
	read func()
	// restless: each pass tries something again that is refused.
	restless bool
}

// passCounter counts passes: each begins by reading its check; one of Cluster API is read once more on its way to us.
type passCounter struct {
	client.Reader
	c *controller
}

func (p passCounter) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, begins := o.(*remedyv1.MachineHealthCheck); begins {
		p.c.passesOf(key.Name).Add(1)
		defer p.c.read()
	}
	if _, is := o.(*clusterv1.MachineHealthCheck); is {
		p.c.passesOf(coreName(key.Name)).Add(1)
	}
	return p.Reader.Get(ctx, key, o, options...)
}

// start runs the controller as a manager does, with the manager's own rights, until the test ends or it is stopped.
func (s *stage) start() *controller {
	s.t.Helper()
	c, err := s.startAs(faults.Start(s.ctx), s.user())
	s.Expect(err).ToNot(HaveOccurred())
	s.t.Cleanup(c.leave)
	return c
}

// user is the manager as the API server knows it.
func (s *stage) user() *rest.Config {
	s.t.Helper()
	user, err := management.Config(controlplane.ServiceAccount(instance.Namespace, instance.ServiceAccount))
	s.Expect(err).ToNot(HaveOccurred())
	user.QPS, user.Burst = 1000, 1000
	return user
}

// startAs is one life of the controller. It fails if the process has crashed by then.
func (s *stage) startAs(process *faults.Process, user *rest.Config) (*controller, error) {
	s.t.Helper()
	c := &controller{Process: process, s: s, read: func() {}}
	if s.firstRead != nil {
		once := &sync.Once{}
		c.read = func() { once.Do(func() { s.firstRead(c) }) }
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
	c.stop = sync.OnceFunc(func() {
		cancel()
		// Who hangs is seen in what everybody is at.
		if err := <-ended; err != nil && !process.Crashed() {
			all := make([]byte, 1<<22)
			s.t.Errorf("it does not end: %v\n%s", err, all[:runtime.Stack(all, true)])
		}
		c.clusters.CloseConnections()
	})
	return c, nil
}

func (s *stage) manager(user *rest.Config) (manager.Manager, error) {
	return ctrl.NewManager(user, ctrl.Options{
		Scheme: scheme(s.t), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: log,
		Controller:              config.Controller{SkipNameValidation: ptr.To(true), MaxConcurrentReconciles: max(s.workers, 1)},
		GracefulShutdownTimeout: ptr.To(time.Minute),
		Cache: ctrlcache.Options{
			SyncPeriod:        s.sync,
			DefaultTransform:  ctrlcache.TransformStripManagedFields(),
			ByObject:          map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: map[string]ctrlcache.Config{s.namespace: {}},
		},
	})
}

func (c *controller) wire(ctx context.Context, mgr manager.Manager) error {
	s := c.s
	now := clock.Clock(clock.RealClock{})
	if s.clock != nil {
		now = s.clock
	}
	clusters, err := workload.New(mgr, clock.RealClock{})
	if err != nil {
		return err
	}
	options := workload.Options{UserAgent: "test", Concurrency: 10, QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true}
	if err := clusters.Connect(ctx, mgr, options); err != nil {
		return err
	}
	asked, err := requests.New(ctx, requests.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: now, Namespace: s.namespace})
	if err != nil {
		return err
	}
	registry := prometheus.NewPedanticRegistry()
	c.gatherer = registry
	counted, err := metrics.New(registry)
	if err != nil {
		return err
	}
	c.cache, c.clusters, c.requests = mgr.GetCache(), clusters, asked
	all := controllers.Reconcilers(&healthcheck.Environment{
		Cache: passCounter{mgr.GetCache(), c}, Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: clusters, Requests: asked,
		Events: mgr.GetEventRecorder("remedy"), Metrics: counted, Clock: now, WatchFilter: s.filter, Observe: s.observe,
	}, s.takesOver)
	for _, reconciler := range all {
		if err := reconciler.SetupWithManager(ctx, mgr); err != nil {
			return err
		}
	}
	return nil
}

// leave ends a controller when its test is done. It has to have come to rest: whoever writes on and on would do so for ever.
func (c *controller) leave() {
	c.s.t.Helper()
	if !c.restless && !c.s.t.Failed() && !c.Crashed() && c.Context().Err() == nil {
		c.settle()
	}
	c.stop()
}

var nudges atomic.Int64

// nudgeAnnotation means nothing. It wakes a check up.
const nudgeAnnotation = "test.invalid/nudge"

func (c *controller) passesOf(check string) *atomic.Int64 {
	n, _ := c.passes.LoadOrStore(check, &atomic.Int64{})
	return n.(*atomic.Int64)
}

// nudge wakes all checks up, and changes none of them but those whose Cluster is gone.
func (s *stage) nudge() {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, nudgeAnnotation, nudges.Add(1)))
	clusters := &clusterv1.ClusterList{}
	s.Expect(s.admin.List(s.ctx, clusters, client.InNamespace(s.namespace))).To(Succeed())
	woken := map[string]bool{}
	for i := range clusters.Items {
		err := s.admin.Patch(s.ctx, &clusters.Items[i], patch)
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		woken[clusters.Items[i].Name] = err == nil
	}
	for _, check := range s.checks() {
		if !woken[check.Spec.ClusterName] {
			s.Expect(client.IgnoreNotFound(s.admin.Patch(s.ctx, &check, patch))).To(Succeed())
		}
	}
}

// pass lets the controller do one whole pass over each check that there is.
func (c *controller) pass() {
	c.s.t.Helper()
	// A check is looked at by one worker at a time: when the second passes begin, the first are over.
	rounds, cores := 2, c.s.cores()
	if len(cores) > 0 {
		rounds = 4
	}
	for range rounds {
		before := map[string]int64{}
		for _, check := range c.s.checks() {
			before[check.Name] = c.passesOf(check.Name).Load()
		}
		for _, check := range cores {
			before[coreName(check.Name)] = c.passesOf(coreName(check.Name)).Load()
		}
		c.s.nudge()
		c.s.Eventually(func() bool {
			for name, n := range before {
				if c.passesOf(name).Load() == n && c.s.exists(name) {
					return c.Context().Err() != nil
				}
			}
			return true
		}).Should(BeTrue())
	}
}

// exists says whether a check is still there: one that has gone since is not looked at any more.
func (s *stage) exists(check string) bool {
	s.t.Helper()
	o := client.Object(&remedyv1.MachineHealthCheck{})
	name, core := strings.CutPrefix(check, coreName(""))
	if core {
		o = &clusterv1.MachineHealthCheck{}
	}
	err := s.admin.Get(s.ctx, keyOf(s.namespace, name), o)
	s.Expect(client.IgnoreNotFound(err)).To(Succeed())
	return err == nil
}

// settle waits until the controller has nothing more to do: passes over a world that it sees as it is change nothing.
func (c *controller) settle() {
	c.s.t.Helper()
	c.s.Eventually(func(g Gomega) {
		g.Expect(c.upToDate()).To(BeTrue())
		before, versions := len(c.Writes()), c.versions()
		c.pass()
		g.Expect(c.Writes()[before:]).To(BeEmpty())
		g.Expect(c.versions()).To(Equal(versions))
	}).Should(Succeed(), "it comes to no rest")
}

// series are the values of a metric that have all these among their labels.
func (c *controller) series(name string, labels ...string) []float64 {
	c.s.t.Helper()
	families, err := c.gatherer.Gather()
	c.s.Expect(err).ToNot(HaveOccurred())
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

// judged says whether this process has judged a check. It waits until everything is read for the first time.
func (c *controller) judged(check string) bool {
	families, err := c.gatherer.Gather()
	c.s.Expect(err).ToNot(HaveOccurred())
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == check {
					return true
				}
			}
		}
	}
	return false
}

// upToDate says whether the controller has judged every check, and its caches have seen all that there is.
func (c *controller) upToDate() bool {
	// A cache of clusters that is ended while it connects hangs.
	if c.s.proxy == nil && !c.clusters.At(keyOf(c.s.namespace, "prod")).Connection(c.s.ctx).Up {
		return false
	}
	for _, check := range c.s.checks() {
		if paused := tells(remedyv1.PausedCondition)(&check) == "True Paused"; !paused && !c.judged(check.Name) {
			return false
		}
	}
	live, cached := &clusterv1.MachineList{}, &clusterv1.MachineList{}
	in := client.InNamespace(c.s.namespace)
	if c.s.admin.List(c.s.ctx, live, in) != nil || c.cache.List(c.s.ctx, cached, in) != nil || len(live.Items) != len(cached.Items) {
		return false
	}
	seen := map[string]string{}
	for i := range cached.Items {
		seen[cached.Items[i].Name] = cached.Items[i].ResourceVersion
	}
	for i := range live.Items {
		if seen[live.Items[i].Name] != live.Items[i].ResourceVersion {
			return false
		}
	}
	return true
}

// versions are those of all Machines.
func (c *controller) versions() map[string]string {
	c.s.t.Helper()
	versions := map[string]string{}
	for _, m := range c.s.machines() {
		versions[m.Name] = m.ResourceVersion
	}
	return versions
}
