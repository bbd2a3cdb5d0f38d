// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// BenchmarkRemediation measures how long the in-tree controller and Remedy take from the moment when a Node becomes Unknown until the
// Machine has OwnerRemediated=False, from there until its MachineSet deletes it, and until the Node of its replacement is Ready: with Cluster
// API's rate limiter, which is its default, and without it. The figures mean something only while nothing else runs on the machine.
func BenchmarkRemediation(b *testing.B) {
	aside()
	for _, limited := range []bool{true, false} {
		b.Run(fmt.Sprintf("rateLimiting=%v", limited), func(b *testing.B) { benchmarkRemediation(b, limited) })
	}
}

func benchmarkRemediation(b *testing.B, limited bool) {
	b.Helper()
	g := NewWithT(b)
	begin := time.Now()
	w, err := world.Start(b.Context(), world.Options{
		Variables: map[string]string{world.RateLimiting: fmt.Sprint(limited)}, Logs: os.Getenv("WORLD_LOGS"),
	})
	g.Expect(err).ToNot(HaveOccurred())
	b.Cleanup(w.Stop)
	b.Logf("the management cluster is ready after %.1f s", time.Since(begin).Seconds())
	begin = time.Now()
	c, err := w.Cluster(b.Context(), world.Shape{Name: "benchmark", Workers: 3})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(b.Context(), w, c)
	g.Expect(c.Ready(b.Context())).To(Succeed())
	b.Logf("a cluster of 1 + 3 Machines is ready after %.1f s", time.Since(begin).Seconds())

	b.Run("controller=in-tree", func(b *testing.B) { benchmarkCheck(b, w, c, inTreeCheck(c)) })
	b.Run("controller=remedy", func(b *testing.B) { benchmarkCheck(b, w, c, remedyCheck(c, world.WorkersPool)) })
}

// benchmarkCheck measures one check, of either controller. No other check selects its Machines meanwhile.
func benchmarkCheck(b *testing.B, w *world.World, c *world.Cluster, check client.Object) {
	b.Helper()
	g := NewWithT(b)
	g.Expect(w.Client.Create(b.Context(), check)).To(Succeed())
	b.Cleanup(func() { expectToGo(b, w, check) })
	var marked, deleted, replacementReady float64
	for range b.N {
		g.Expect(c.Ready(b.Context())).To(Succeed())
		g.Eventually(func() *int32 { return currentHealthy(b, w, check) }, soon).Should(HaveValue(BeEquivalentTo(3)))
		untilMarked, untilDeleted, untilReady := stopwatch(b, w, c)
		marked, deleted, replacementReady = marked+untilMarked, deleted+untilDeleted, replacementReady+untilReady
	}
	b.ReportMetric(marked/float64(b.N), "s-until-unhealthy")
	b.ReportMetric(deleted/float64(b.N), "s-from-unhealthy-to-deletion")
	b.ReportMetric(replacementReady/float64(b.N), "s-until-replacement-ready")
	b.ReportMetric(0, "ns/op")
}

// stopwatch sets the Node of a worker to Unknown. It measures until its Machine is marked, from there until that is deleted, and until the
// Node of its replacement is Ready.
func stopwatch(b *testing.B, w *world.World, c *world.Cluster) (marked, deleted, replacementReady float64) {
	b.Helper()
	g := NewWithT(b)
	machine, node := workerOf(b, c)
	known := names(b, c)
	ctx, cancel := context.WithTimeout(b.Context(), soon)
	defer cancel()
	machines, err := w.Client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(c.Namespace))
	g.Expect(err).ToNot(HaveOccurred())
	defer machines.Stop()
	begin, markedAt := time.Now(), time.Time{}
	g.Expect(c.SetNodeCondition(b.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
	for deleted == 0 {
		event, open := <-machines.ResultChan()
		g.Expect(open).To(BeTrue(), "Machine %s is not deleted in time; it was marked: %v", machine.Name, !markedAt.IsZero())
		m, is := event.Object.(*clusterv1.Machine)
		if !is || m.Name != machine.Name {
			continue
		}
		if markedAt.IsZero() && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			markedAt = time.Now()
		}
		if !m.DeletionTimestamp.IsZero() {
			g.Expect(markedAt).ToNot(BeZero(), "nothing else deletes the Machine")
			deleted = time.Since(markedAt).Seconds()
		}
	}
	g.Eventually(func() bool { return replaced(b, c, known) }, soon, 50*time.Millisecond).Should(BeTrue())
	return markedAt.Sub(begin).Seconds(), deleted, time.Since(begin).Seconds()
}

// replaced reports whether a Machine that is not known has a Ready Node.
func replaced(b *testing.B, c *world.Cluster, known map[string]bool) bool {
	b.Helper()
	machines, err := c.Machines(b.Context())
	NewWithT(b).Expect(err).ToNot(HaveOccurred())
	for _, m := range machines {
		if known[m.Name] || m.Status.NodeRef.Name == "" {
			continue
		}
		node, err := c.Node(b.Context(), m.Status.NodeRef.Name)
		if err == nil && world.ReadyNode(node) {
			return true
		}
	}
	return false
}
