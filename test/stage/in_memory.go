// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// MachinesInMemory serves the Machines of a benchmark, because creating ten thousand in an API server takes minutes. They reach the cache
// as from a watch; the check, the Cluster and the Nodes are in real API servers.
type MachinesInMemory struct {
	client.Client
	Source   *fakecache.FakeControllerSource
	Machines []*clusterv1.Machine
	Writes   atomic.Int64
}

// NewInformer reads Machines from memory.
func (m *MachinesInMemory) NewInformer(
	from toolscache.ListerWatcher,
	o runtime.Object,
	resync time.Duration,
	by toolscache.Indexers,
) toolscache.SharedIndexInformer {
	if _, is := o.(*clusterv1.Machine); is {
		from = m.Source
	}
	return toolscache.NewSharedIndexInformer(from, o, resync, by)
}

// Patch updates a Machine in memory.
func (m *MachinesInMemory) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	m.Writes.Add(1)
	if machine, is := o.(*clusterv1.Machine); is {
		m.Source.Modify(machine.DeepCopy())
		return nil
	}
	return m.Client.Patch(ctx, o, patch, options...)
}

// Status updates the status of a Machine in memory.
func (m *MachinesInMemory) Status() client.SubResourceWriter {
	return memoryStatus{m.Client.Status(), m}
}

type memoryStatus struct {
	client.SubResourceWriter
	m *MachinesInMemory
}

// Patch implements client.SubResourceWriter.
func (s memoryStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if _, is := o.(*clusterv1.Machine); is {
		return s.m.Patch(ctx, o, patch)
	}
	s.m.Writes.Add(1)
	return s.SubResourceWriter.Patch(ctx, o, patch, options...)
}

// Get is a live read of a Machine.
func (m *MachinesInMemory) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if machine, is := o.(*clusterv1.Machine); is {
		for _, one := range m.Machines {
			if one.Name == key.Name {
				one.DeepCopyInto(machine)
			}
		}
		return nil
	}
	return m.Client.Get(ctx, key, o, options...)
}

// List is a live read of all Machines.
func (m *MachinesInMemory) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if machines, is := list.(*clusterv1.MachineList); is {
		for _, one := range m.Machines {
			machines.Items = append(machines.Items, *one.DeepCopy())
		}
		return nil
	}
	return m.Client.List(ctx, list, options...)
}

// StartInMemory runs the reconciler of one kind of checks with Machines in memory.
func (s *Stage) StartInMemory(m *MachinesInMemory, kind int, takesOver intree.AdoptionPolicy) *healthcheck.Reconciler {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	mgr, err := ctrl.NewManager(s.User(), ctrl.Options{
		Scheme: testenv.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: testenv.Logger,
		Controller: config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
		Cache: ctrlcache.Options{
			NewInformer: m.NewInformer, DefaultTransform: ctrlcache.TransformStripManagedFields(),
			ByObject:          map[client.Object]ctrlcache.ByObject{&corev1.Node{}: workload.StrippedNodes()},
			DefaultNamespaces: map[string]ctrlcache.Config{s.Namespace: {}},
		},
	})
	s.Expect(err).ToNot(HaveOccurred())
	clusters, err := workload.New(mgr, clock.RealClock{})
	s.Expect(err).ToNot(HaveOccurred())
	clusters.SetClockTolerance(playedTimes)
	s.Expect(clusters.Connect(ctx, mgr, workload.Options{UserAgent: "test", QPS: 1000, Burst: 1000, SyncPeriod: time.Hour, OnStandby: true})).
		To(Succeed())
	remediationRequests, err := requests.New(
		ctx,
		requests.Options{
			Client:    mgr.GetClient(),
			Reader:    mgr.GetAPIReader(),
			Config:    mgr.GetConfig(),
			Clock:     clock.RealClock{},
			Namespace: s.Namespace,
		},
	)
	s.Expect(err).ToNot(HaveOccurred())
	counted, err := metrics.New(prometheus.NewRegistry())
	s.Expect(err).ToNot(HaveOccurred())
	m.Client, err = client.New(mgr.GetConfig(), client.Options{Scheme: testenv.Scheme})
	s.Expect(err).ToNot(HaveOccurred())
	r := controllers.Reconcilers(&healthcheck.Environment{
		Cache: mgr.GetCache(), Live: m, Client: m, Clusters: clusters, Requests: remediationRequests,
		Events: mgr.GetEventRecorder("remedy"), Metrics: counted, Clock: clock.RealClock{},
	}, takesOver)[kind].Reconciler
	s.Expect(r.SetupWithManager(ctx, mgr)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.T.Cleanup(func() {
		cancel()
		s.Expect(<-ended).To(Succeed())
	})
	return r
}
