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
	fakecache "k8s.io/client-go/tools/cache/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
}

func BenchmarkReconcile1000(b *testing.B)  { benchmarkReconcile(b, 1000) }
func BenchmarkReconcile10000(b *testing.B) { benchmarkReconcile(b, 10_000) }
