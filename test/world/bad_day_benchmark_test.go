// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
// after the other, and each of them runs first once. It fails if Remedy is slower than the in-tree controller. For Remedy it also measures for
// how long the status of the check was wrong.
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

	var inTree, remedy badDay
	for range b.N {
		for _, ofRemedy := range []bool{false, true, true, false} {
			if ofRemedy {
				check := remedyCheck(&c.Cluster, world.WorkersPool)
				check.Spec.UnhealthyConditions[0].Timeout = *lasting(lossTimeout)
				remedy.measure(b, w, c, check)
			} else {
				check := inTreeCheck(&c.Cluster)
				check.Spec.Checks.UnhealthyNodeConditions[0].TimeoutSeconds = ptr.To(int32(lossTimeout.Seconds()))
				inTree.measure(b, w, c, check)
			}
		}
	}
	for i, name := range []string{"first", "median", "last"} {
		theirs, ours := inTree.seconds[i]/inTree.runs, remedy.seconds[i]/remedy.runs
		b.ReportMetric(theirs, "s-in-tree-"+name)
		b.ReportMetric(ours, "s-remedy-"+name)
		if ours > theirs {
			b.Errorf("Remedy requests the %s owner remediation after %.1f s, and the in-tree controller after %.1f s", name, ours, theirs)
		}
	}
	b.ReportMetric(remedy.wrong/remedy.runs, "s-status-wrong")
	b.ReportMetric(0, "ns/op")
}

// badDay has the results of one controller.
type badDay struct {
	// seconds are those until the first, the median and the last Machine is marked, of all runs together.
	seconds [3]float64
	// wrong is for how many seconds the status was wrong.
	wrong, runs float64
}

// measure lets one controller remediate.
func (d *badDay) measure(b *testing.B, w *world.World, c *world.Workload, check client.Object) {
	b.Helper()
	g := NewWithT(b)
	g.Eventually(func() error { return c.Ready(b.Context()) }, badDayTimeout).Should(Succeed())
	g.Expect(w.Client.Create(b.Context(), check)).To(Succeed())
	defer expectToGo(b, w, check)
	g.Eventually(func() *int32 { return currentHealthy(b, w, check) }, badDayTimeout).Should(HaveValue(BeEquivalentTo(badDayMachines)))
	lost, deadline := loseNodes(b, c)
	view := &badDayView{lost: lost, deadline: deadline, marked: map[string]bool{}}
	marked := view.follow(b, w, c, check)
	d.runs++
	for i, at := range []int{0, len(marked) / 2, len(marked) - 1} {
		d.seconds[i] += marked[at]
	}
	d.wrong += view.wrong.Seconds()
	b.Logf("%T: %.1f, %.1f, %.1f s; status wrong for %.1f s: %v",
		check, marked[0], marked[len(marked)/2], marked[len(marked)-1], view.wrong.Seconds(), view.errors)
}

// loseNodes sets Ready=Unknown on Nodes of workers, all since the same time, and returns their Machines and when these are unhealthy.
func loseNodes(b *testing.B, c *world.Workload) (map[string]bool, time.Time) {
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
	names := map[string]bool{}
	for i := range machines[:badDayLost] {
		names[machines[i].Name] = true
	}
	return names, deadline
}
