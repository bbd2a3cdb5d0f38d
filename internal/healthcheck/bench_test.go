// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	fakecache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// benchmarkReconcile measures a reconcile of so many Machines: first all of them are healthy, then one in a hundred is unhealthy and its
// owner remediates it.
func benchmarkReconcile(b *testing.B, machines int) {
	s := stage.New(b)
	bulk := s.NewBulk()
	m := &stage.MachinesInMemory{Source: fakecache.NewFakeControllerSource()}
	for i := range machines {
		machine := bulk.Machine(i)
		machine.UID, machine.CreationTimestamp = types.UID(bulk.Name(i)), metav1.NewTime(time.Now().Add(-time.Hour))
		machine.Status.NodeRef.Name = bulk.Node(i)
		m.Machines = append(m.Machines, machine)
		m.Source.Add(machine)
	}
	s.Expect(stage.Parallel(machines, bulk.CreateNode)).To(Succeed())
	b.Cleanup(func() { s.Expect(s.Workload.DeleteAllOf(s.Ctx, &corev1.Node{})).To(Succeed()) })
	check := s.CreateCheck("workers")
	r := s.StartInMemory(m, 0, intree.AdoptionPolicy{})
	reconcile := func() {
		_, err := r.Reconcile(s.Ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		s.Expect(err).ToNot(HaveOccurred())
	}
	measure := func(b *testing.B, healthy int) {
		s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(healthy)))
		s.Eventually(func() bool {
			before := m.Writes.Load()
			reconcile()
			reconcile()
			return m.Writes.Load() == before
		}).WithPolling(time.Second).Should(BeTrue())
		b.ReportAllocs()
		for b.Loop() {
			reconcile()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(machines), "ns/Machine")
	}
	b.Run("all healthy", func(b *testing.B) { measure(b, machines) })
	s.Expect(stage.Parallel(machines/100, func(i int) error { return bulk.FailNode(i * 100) })).To(Succeed())
	b.Run("one percent unhealthy", func(b *testing.B) { measure(b, machines-machines/100) })
	// More than maxUnhealthy allows, so nothing more is remediated.
	s.Change(check, func() { check.Spec.MaxUnhealthy = ptr.To(intstr.FromString("40%")) })
	s.Expect(stage.Parallel(machines, bulk.FailNode)).To(Succeed())
	b.Run("all unhealthy", func(b *testing.B) { measure(b, 0) })
}

// BenchmarkOneFifthUnhealthy measures how long it takes until 1,000 of 5,000 Machines have OwnerRemediated=False, on a real API server.
func BenchmarkOneFifthUnhealthy(b *testing.B) {
	const machines = 5000
	for b.Loop() {
		b.StopTimer()
		s := stage.New(b)
		s.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
		bulk := s.NewBulk()
		bulk.Ready = func(i int) corev1.ConditionStatus {
			if i%5 == 0 {
				return corev1.ConditionUnknown
			}
			return corev1.ConditionTrue
		}
		bulk.Create(machines)
		check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"test"} })
		c := s.Start()
		c.NeverIdle = true
		s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(machines-machines/5)))
		c.WaitNoReconciles()
		s.Change(check, func() { check.Spec.PauseRequests = nil })
		b.StartTimer()
		s.Eventually(func() int {
			return stage.Count(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition), stage.OwnerRequested)
		}).Should(Equal(machines / 5))
		b.StopTimer()
		c.Stop()
		b.StartTimer()
	}
}

func BenchmarkReconcile5000(b *testing.B)  { benchmarkReconcile(b, 5000) }
func BenchmarkReconcile1000(b *testing.B)  { benchmarkReconcile(b, 1000) }
func BenchmarkReconcile10000(b *testing.B) { benchmarkReconcile(b, 10_000) }
