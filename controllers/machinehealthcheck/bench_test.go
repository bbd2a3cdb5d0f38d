// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	fakecache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
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

// memory is where the Machines of a benchmark are: to make ten thousand in an API server takes minutes, and what is measured is how they are looked
// at. They come into the manager's cache as from a watch; the check, the Cluster and the Nodes are in real API servers.
type memory struct {
	client.Client
	source *fakecache.FakeControllerSource
	all    []*clusterv1.Machine
	writes atomic.Int64
}

// NewInformer feeds the cache.
func (m *memory) NewInformer(from toolscache.ListerWatcher, o runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	if _, is := o.(*clusterv1.Machine); is {
		from = m.source
	}
	return toolscache.NewSharedIndexInformer(from, o, resync, by)
}

// Patch writes a Machine to where it is.
func (m *memory) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	m.writes.Add(1)
	if machine, is := o.(*clusterv1.Machine); is {
		m.source.Modify(machine.DeepCopy())
		return nil
	}
	return m.Client.Patch(ctx, o, patch, options...)
}

// Status writes the same.
func (m *memory) Status() client.SubResourceWriter { return memoryStatus{m.Client.Status(), m} }

type memoryStatus struct {
	client.SubResourceWriter
	m *memory
}

func (s memoryStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if _, is := o.(*clusterv1.Machine); is {
		return s.m.Patch(ctx, o, patch)
	}
	s.m.writes.Add(1)
	return s.SubResourceWriter.Patch(ctx, o, patch, options...)
}

// Get and List are those of a live look.
func (m *memory) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if machine, is := o.(*clusterv1.Machine); is {
		for _, one := range m.all {
			if one.Name == key.Name {
				one.DeepCopyInto(machine)
			}
		}
		return nil
	}
	return m.Client.Get(ctx, key, o, options...)
}

func (m *memory) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if machines, is := list.(*clusterv1.MachineList); is {
		for _, one := range m.all {
			machines.Items = append(machines.Items, *one.DeepCopy())
		}
		return nil
	}
	return m.Client.List(ctx, list, options...)
}

// startInMemory runs the controller of one kind of checks with Machines in memory.
func (s *stage) startInMemory(m *memory, kind int, takesOver intree.TakesOver) *healthcheck.Reconciler {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	mgr, err := ctrl.NewManager(s.user(), ctrl.Options{
		Scheme: scheme(s.t), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: log, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Cache: ctrlcache.Options{
			NewInformer: m.NewInformer, DefaultTransform: ctrlcache.TransformStripManagedFields(),
			ByObject:          map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: map[string]ctrlcache.Config{s.namespace: {}},
		},
	})
	s.Expect(err).ToNot(HaveOccurred())
	clusters, err := workload.New(mgr, clock.RealClock{})
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(clusters.Connect(ctx, mgr, workload.Options{UserAgent: "test", QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true})).To(Succeed())
	asked, err := requests.New(ctx, requests.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Config: mgr.GetConfig(), Clock: clock.RealClock{}, Namespace: s.namespace})
	s.Expect(err).ToNot(HaveOccurred())
	counted, err := metrics.New(prometheus.NewRegistry())
	s.Expect(err).ToNot(HaveOccurred())
	m.Client, err = client.New(mgr.GetConfig(), client.Options{Scheme: scheme(s.t)})
	s.Expect(err).ToNot(HaveOccurred())
	r := controllers.Reconcilers(&healthcheck.Environment{
		Cache: mgr.GetCache(), Live: m, Client: m, Clusters: clusters, Requests: asked,
		Events: mgr.GetEventRecorder("remedy"), Metrics: counted, Clock: clock.RealClock{},
	}, takesOver)[kind]
	s.Expect(r.SetupWithManager(ctx, mgr)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		s.Expect(<-ended).To(Succeed())
		clusters.CloseConnections()
	})
	return r
}

// benchmarkPass measures a pass over so many Machines, first when all are well, and then when one in a hundred is sick and its owner was asked.
func benchmarkPass(b *testing.B, machines int) {
	s := newStage(b)
	people := s.newCrowd()
	m := &memory{source: fakecache.NewFakeControllerSource()}
	for i := range machines {
		one := people.machine(i)
		one.UID, one.CreationTimestamp = types.UID(people.name(i)), metav1.NewTime(time.Now().Add(-time.Hour))
		one.Status.NodeRef.Name = people.node(i)
		m.all = append(m.all, one)
		m.source.Add(one)
	}
	s.Expect(eachOf(machines, people.register)).To(Succeed())
	b.Cleanup(func() { s.Expect(s.kubelet.DeleteAllOf(s.ctx, &corev1.Node{})).To(Succeed()) })
	check := s.check("workers")
	r := s.startInMemory(m, 0, intree.TakesOver{})
	look := func() {
		_, err := r.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		s.Expect(err).ToNot(HaveOccurred())
	}
	measure := func(b *testing.B, well int) {
		s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(well)))
		s.Eventually(func() bool {
			before := m.writes.Load()
			look()
			look()
			return m.writes.Load() == before
		}).WithPolling(time.Second).Should(BeTrue())
		b.ReportAllocs()
		for b.Loop() {
			look()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(machines), "ns/Machine")
	}
	b.Run("all are well", func(b *testing.B) { measure(b, machines) })
	s.Expect(eachOf(machines/100, func(i int) error { return people.fallIll(i * 100) })).To(Succeed())
	b.Run("one in a hundred is sick", func(b *testing.B) { measure(b, machines-machines/100) })
}

func BenchmarkPass1000(b *testing.B)  { benchmarkPass(b, 1000) }
func BenchmarkPass10000(b *testing.B) { benchmarkPass(b, 10_000) }

// BenchmarkCheckThatIsNotOurs measures a pass over a check of Cluster API that nobody has asked us to take over: a fleet may have thousands of these.
func BenchmarkCheckThatIsNotOurs(b *testing.B) {
	s := newStage(b)
	m := &memory{source: fakecache.NewFakeControllerSource()}
	check := s.core("theirs")
	r := s.startInMemory(m, 1, intree.TakesOver{Annotated: true})
	s.Eventually(func() error {
		return r.Cache.Get(s.ctx, client.ObjectKeyFromObject(check), &clusterv1.MachineHealthCheck{})
	}).Should(Succeed())
	b.ReportAllocs()
	for b.Loop() {
		_, err := r.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		s.Expect(err).ToNot(HaveOccurred())
	}
}
