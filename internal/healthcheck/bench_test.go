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

// benchmarkPass measures a pass over so many Machines, first when all are well, and then when one in a hundred is sick and its owner was
// asked.
func benchmarkPass(b *testing.B, machines int) {
	s := stage.New(b)
	people := s.NewBulk()
	m := &stage.MachinesInMemory{Source: fakecache.NewFakeControllerSource()}
	for i := range machines {
		one := people.Machine(i)
		one.UID, one.CreationTimestamp = types.UID(people.Name(i)), metav1.NewTime(time.Now().Add(-time.Hour))
		one.Status.NodeRef.Name = people.Node(i)
		m.Machines = append(m.Machines, one)
		m.Source.Add(one)
	}
	s.Expect(stage.Parallel(machines, people.CreateNode)).To(Succeed())
	b.Cleanup(func() { s.Expect(s.Workload.DeleteAllOf(s.Ctx, &corev1.Node{})).To(Succeed()) })
	check := s.CreateCheck("workers")
	r := s.StartInMemory(m, 0, intree.TakesOver{})
	look := func() {
		_, err := r.Reconcile(s.Ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(check)})
		s.Expect(err).ToNot(HaveOccurred())
	}
	measure := func(b *testing.B, well int) {
		s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(well)))
		s.Eventually(func() bool {
			before := m.Writes.Load()
			look()
			look()
			return m.Writes.Load() == before
		}).WithPolling(time.Second).Should(BeTrue())
		b.ReportAllocs()
		for b.Loop() {
			look()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(machines), "ns/Machine")
	}
	b.Run("all are well", func(b *testing.B) { measure(b, machines) })
	s.Expect(stage.Parallel(machines/100, func(i int) error { return people.FailNode(i * 100) })).To(Succeed())
	b.Run("one in a hundred is sick", func(b *testing.B) { measure(b, machines-machines/100) })
}

func BenchmarkPass1000(b *testing.B)  { benchmarkPass(b, 1000) }
func BenchmarkPass10000(b *testing.B) { benchmarkPass(b, 10_000) }
