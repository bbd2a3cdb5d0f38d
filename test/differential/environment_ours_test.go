// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// life is one process of Remedy, until the test ends or it is stopped. It reconciles by itself.
type life struct {
	*faults.Process
	stop func()
}

func (a *environment) start(user *rest.Config, now clock.Clock) *life {
	a.t.Helper()
	cached := ctrlcache.Options{
		DefaultTransform: ctrlcache.TransformStripManagedFields(),
		ByObject:         map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
	}
	return a.run(user, ctrl.Options{Cache: cached}, func(ctx context.Context, mgr manager.Manager) func() {
		a.wire(ctx, mgr, now)
		return func() {}
	})
}

// run starts a manager of the namespace. What setUp returns is called at its end.
func (a *environment) run(user *rest.Config, options ctrl.Options, setUp func(context.Context, manager.Manager) func()) *life {
	a.t.Helper()
	process := faults.Start(a.ctx)
	ctx, cancel := context.WithCancel(process.Context())
	options.Scheme, options.Metrics, options.Logger = scheme, metricsserver.Options{BindAddress: "0"}, logr.Discard()
	options.Controller = config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)}
	options.GracefulShutdownTimeout = ptr.To(time.Minute)
	options.Cache.DefaultNamespaces = map[string]ctrlcache.Config{a.namespace: {}}
	mgr, err := ctrl.NewManager(process.Config(user), options)
	a.Expect(err).ToNot(HaveOccurred())
	end := setUp(ctx, mgr)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	// A manager that is stopped before its caches are full waits for them, and the tap may let nothing through any more that fills them.
	synced, done := context.WithTimeout(ctx, 3*time.Minute)
	defer done()
	a.Expect(mgr.GetCache().WaitForCacheSync(synced)).To(BeTrue())
	l := &life{process, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !process.Crashed() {
			a.Expect(err).ToNot(HaveOccurred())
		}
		end()
	})}
	a.t.Cleanup(l.stop)
	return l
}

func (a *environment) wire(ctx context.Context, mgr manager.Manager, now clock.Clock) *workload.Clusters {
	a.t.Helper()
	clusters, err := workload.New(mgr, clock.RealClock{})
	a.Expect(err).ToNot(HaveOccurred())
	// In-tree uses the times as they are written, and these tests play failures of long ago.
	clusters.SetClockTolerance(100 * 365 * 24 * time.Hour)
	options := workload.Options{UserAgent: "test", Concurrency: 10, QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true}
	a.Expect(clusters.Connect(ctx, mgr, options)).To(Succeed())
	asked, err := requests.New(ctx, requests.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: now, Namespace: a.namespace})
	a.Expect(err).ToNot(HaveOccurred())
	counted, err := metrics.New(prometheus.NewPedanticRegistry())
	a.Expect(err).ToNot(HaveOccurred())
	all := controllers.Reconcilers(&healthcheck.Environment{
		Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Clusters: clusters, Requests: asked,
		Events: mgr.GetEventRecorder("remedy"), Metrics: counted, Clock: now, WatchFilter: a.watchFilter, Observe: a.observes,
	}, a.takesOver)
	for _, reconciler := range all {
		a.Expect(reconciler.SetupWithManager(ctx, mgr)).To(Succeed())
	}
	return clusters
}

// goes starts it as a cluster admin, with the real clock.
func (a *environment) goes() *life {
	a.t.Helper()
	user := rest.CopyConfig(server.Admin)
	user.QPS, user.Burst = 1000, 1000
	return a.start(user, clock.RealClock{})
}

// remedyCheck creates a check of Remedy with the spec of the in-tree check.
func (a *environment) remedyCheck(name string, changes ...func(*remedyv1.MachineHealthCheckSpec)) *remedyv1.MachineHealthCheck {
	a.t.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: a.meta(name)}
	c.Spec.ClusterName = clusterName
	c.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{poolLabel: "a"}
	c.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", Timeout: lasting(5 * time.Minute)}}
	for _, change := range changes {
		change(&c.Spec)
	}
	a.create(c)
	return c
}

func lasting(d time.Duration) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// byOurTemplate lets a check remediate by the template.
func byOurTemplate(spec *remedyv1.MachineHealthCheckSpec) {
	kind := remediator.Metal3
	spec.RemediationTemplate = &remedyv1.MachineTemplateReference{TemplateKind: remedyv1.TemplateKind{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Template().Kind, Name: templateName,
	}}
}

// status reads the status of a check of Remedy.
func (a *environment) status(c *remedyv1.MachineHealthCheck) func() remedyv1.MachineHealthCheckStatus {
	return func() remedyv1.MachineHealthCheckStatus {
		a.t.Helper()
		a.Expect(a.api.Get(a.ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
		return c.Status
	}
}

// condition is a condition of a check of Remedy; empty if it does not exist.
func (a *environment) checkCondition(c *remedyv1.MachineHealthCheck, kind string) func() string {
	read := a.status(c)
	return func() string {
		a.t.Helper()
		if said := meta.FindStatusCondition(read().Conditions, kind); said != nil {
			return string(said.Status) + " " + said.Reason
		}
		return ""
	}
}

// holds is what a check of Remedy does about a Machine, or why it does nothing.
func (a *environment) holds(c *remedyv1.MachineHealthCheck, machine string) func() string {
	read := a.status(c)
	return func() string {
		a.t.Helper()
		for _, t := range read().UnhealthyTargets {
			if t.Name == machine {
				return string(t.Decision) + " " + string(t.BlockedReason)
			}
		}
		return ""
	}
}
