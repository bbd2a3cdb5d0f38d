// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The sizes of BenchmarkBadDay. Lost Nodes have Ready=Unknown for lossTimeout before they are unhealthy, which is enough time to set that on
// all of them.
const (
	badDayMachines = 300
	badDayLost     = 100
	lossTimeout    = 30 * time.Second
	badDayTimeout  = 10 * time.Minute
)

// BenchmarkBadDay loses a third of the Nodes of a pool at the same time, and measures when the first, the median and the last Machine get
// OwnerRemediated=False, in seconds after they are unhealthy. The workload cluster has Leases. Both controllers run in the same world, one
// after the other. For Remedy it also measures for how long the status of the check was wrong about the number of unhealthy Machines.
func BenchmarkBadDay(b *testing.B) {
	aside()
	g := NewWithT(b)
	w, err := world.Start(b.Context(), world.Options{Logs: os.Getenv("WORLD_LOGS")})
	g.Expect(err).ToNot(HaveOccurred())
	b.Cleanup(w.Stop)
	c, err := w.Workload(b.Context(), world.Shape{Name: "bad-day", Workers: badDayMachines})
	g.Expect(err).ToNot(HaveOccurred())
	began := time.Now()
	g.Eventually(func() error { return c.Ready(b.Context()) }, badDayTimeout).Should(Succeed())
	b.Logf("%d Machines are ready after %.0f s", badDayMachines, time.Since(began).Seconds())

	inTree := inTreeCheck(&c.Cluster)
	inTree.Spec.Checks.UnhealthyNodeConditions[0].TimeoutSeconds = ptr.To(int32(lossTimeout.Seconds()))
	b.Run("controller=in-tree", func(b *testing.B) { benchmarkBadDay(b, w, c, inTree) })
	remedy := remedyCheck(&c.Cluster, world.WorkersPool)
	remedy.Spec.UnhealthyConditions[0].Timeout = *lasting(lossTimeout)
	b.Run("controller=remedy", func(b *testing.B) { benchmarkBadDay(b, w, c, remedy) })
}

func benchmarkBadDay(b *testing.B, w *world.World, c *world.Workload, check client.Object) {
	b.Helper()
	g := NewWithT(b)
	g.Eventually(func() error { return c.Ready(b.Context()) }, badDayTimeout).Should(Succeed())
	g.Expect(w.Client.Create(b.Context(), check)).To(Succeed())
	b.Cleanup(func() { expectToGo(b, w, check) })
	var first, median, last, wrong float64
	for range b.N {
		g.Eventually(func() error { return c.Ready(b.Context()) }, badDayTimeout).Should(Succeed())
		g.Eventually(func() *int32 { return currentHealthy(b, w, check) }, badDayTimeout).Should(HaveValue(BeEquivalentTo(badDayMachines)))
		deadline := loseNodes(b, c)
		marked, wrongTime := remediationTimes(b, w, c, check, deadline)
		first, median, last = first+marked[0], median+marked[len(marked)/2], last+marked[len(marked)-1]
		wrong += wrongTime
	}
	n := float64(b.N)
	b.ReportMetric(first/n, "s-first")
	b.ReportMetric(median/n, "s-median")
	b.ReportMetric(last/n, "s-last")
	if _, is := check.(*remedyv1.MachineHealthCheck); is {
		b.ReportMetric(wrong/n, "s-status-wrong")
	}
	b.ReportMetric(0, "ns/op")
}

// loseNodes sets Ready=Unknown on Nodes of workers, all since the same time, and returns when they are unhealthy.
func loseNodes(b *testing.B, c *world.Workload) time.Time {
	b.Helper()
	g := NewWithT(b)
	machines, err := c.PoolMachines(b.Context(), world.WorkersPool)
	g.Expect(err).ToNot(HaveOccurred())
	api, err := c.Client(b.Context())
	g.Expect(err).ToNot(HaveOccurred())
	// A metav1.Time has whole seconds.
	lost := metav1.NewTime(time.Now().Truncate(time.Second))
	var all sync.WaitGroup
	for part := range slices.Chunk(machines[:badDayLost], badDayLost/10) {
		all.Go(func() {
			for i := range part {
				node := &corev1.Node{}
				g.Expect(api.Get(b.Context(), client.ObjectKey{Name: part[i].Status.NodeRef.Name}, node)).To(Succeed())
				for at := range node.Status.Conditions {
					if condition := &node.Status.Conditions[at]; condition.Type == corev1.NodeReady {
						condition.Status, condition.Reason, condition.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", lost
					}
				}
				g.Expect(api.Status().Update(b.Context(), node)).To(Succeed())
			}
		})
	}
	all.Wait()
	deadline := lost.Add(lossTimeout)
	g.Expect(time.Now()).To(BeTemporally("<", deadline), "setting the conditions took longer than their timeout")
	return deadline
}

// remediationTimes returns, in order, after how many seconds each lost Machine got OwnerRemediated=False, and for how long the status of the
// check meanwhile did not count as many unhealthy Machines as there were.
func remediationTimes(
	b *testing.B, w *world.World, c *world.Workload, check client.Object, deadline time.Time,
) (marked []float64, wrong float64) {
	b.Helper()
	g := NewWithT(b)
	ctx, cancel := context.WithTimeout(b.Context(), badDayTimeout)
	defer cancel()
	events, err := w.Client.Watch(ctx, &clusterv1.MachineList{}, client.InNamespace(c.Namespace))
	g.Expect(err).ToNot(HaveOccurred())
	defer events.Stop()
	sample := time.NewTicker(time.Second)
	defer sample.Stop()
	seen := map[string]bool{}
	for len(marked) < badDayLost {
		select {
		case event, open := <-events.ResultChan():
			g.Expect(open).To(BeTrue(), "only %d of %d Machines were remediated", len(marked), badDayLost)
			machine, is := event.Object.(*clusterv1.Machine)
			if !is || seen[machine.Name] || !conditions.IsFalse(machine, clusterv1.MachineOwnerRemediatedCondition) {
				continue
			}
			seen[machine.Name] = true
			marked = append(marked, time.Since(deadline).Seconds())
		case <-sample.C:
			// A reconcile may take two seconds to report.
			if time.Since(deadline) > 2*time.Second && reportsHealthy(ctx, w, check) {
				wrong++
			}
		}
	}
	return marked, wrong
}

// reportsHealthy reports whether a check of Remedy has no unhealthy Machine in its status.
func reportsHealthy(ctx context.Context, w *world.World, check client.Object) bool {
	found, is := check.DeepCopyObject().(*remedyv1.MachineHealthCheck)
	if !is || w.Client.Get(ctx, client.ObjectKeyFromObject(check), found) != nil {
		return false
	}
	return ptr.Deref(found.Status.Unhealthy, 0) == 0
}
