// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The manager as a release installs it, with Machines of the real Cluster API. Each test has its own pool, usually in the shared cluster.

// unhealthyTimeout is how long a Node may be Unknown before a check considers its Machine unhealthy.
const unhealthyTimeout = 5 * time.Second

// memory is read-locked by tests that need what the manager has in memory, and locked by the test that kills the manager.
var memory sync.RWMutex

func keepsItsMemory(t *testing.T) {
	t.Helper()
	memory.RLock()
	t.Cleanup(memory.RUnlock)
}

// sharedCluster is a cluster with a pool for each test. A test never gets a pool in which Machines have been remediated: in the second
// round of go test -count, the first test makes a new cluster.
var sharedCluster = struct {
	lock    sync.Mutex
	world   *world.World
	cluster *world.Cluster
	used    map[string]bool
}{}

// clusterWithPool returns the shared cluster and the pool, which no other test uses.
func clusterWithPool(t *testing.T, pool string) (*world.Cluster, string) {
	t.Helper()
	g := NewWithT(t)
	w := theWorld(t)
	sharedCluster.lock.Lock()
	defer sharedCluster.lock.Unlock()
	if sharedCluster.world != w || sharedCluster.used[pool] {
		c, err := w.Cluster(t.Context(), world.Shape{Namespace: uniqueName("health"), Name: "shared", Pools: []world.Pool{
			{Name: "replaced", Replicas: 2},
			{Name: "queue", Replicas: 3},
			{Name: "paced", Replicas: 3},
			{Name: "gone", Replicas: 1},
			{Name: "crash", Replicas: 3},
			{Name: "escalated", Replicas: 1},
			{Name: "misplaced", Replicas: 1},
			{Name: "kept", Replicas: 1},
			{Name: "handed-over", Replicas: 1},
			{Name: "self-deleting", Replicas: 1},
			{Name: "shown", Replicas: 1},
			{Name: "marked", Replicas: 1},
			{Name: "marked-in-tree", Replicas: 1},
			{Name: "asked", Replicas: 1},
			{Name: "asked-in-tree", Replicas: 1},
		}})
		g.Expect(err).ToNot(HaveOccurred())
		replaceIncomplete(t.Context(), w, c)
		// Later, some Machine is always unhealthy.
		g.Expect(c.Ready(t.Context())).To(Succeed())
		sharedCluster.world, sharedCluster.cluster, sharedCluster.used = w, c, map[string]bool{}
	}
	sharedCluster.used[pool] = pool != controlPlanePool
	replaceIncomplete(t.Context(), w, sharedCluster.cluster)
	return sharedCluster.cluster, pool
}

// replaceIncomplete deletes, until the context ends, Machines without an infrastructure machine, so that their MachineSet replaces them.
// Without its rate limiter, Cluster API's MachineSet controller can take an infrastructure machine that it has just created for an orphan,
// because one of its caches is older than another. It deletes the infrastructure machine and leaves the Machine.
func replaceIncomplete(ctx context.Context, w *world.World, c *world.Cluster) {
	go func() {
		for ctx.Err() == nil {
			machines, _ := c.Machines(ctx)
			for i := range machines {
				m := &machines[i]
				made := conditions.GetReason(m, clusterv1.MachineInfrastructureReadyCondition) != clusterv1.MachineInfrastructureDoesNotExistReason
				if !made && m.DeletionTimestamp.IsZero() && time.Since(m.CreationTimestamp.Time) > 15*time.Second {
					_ = w.Client.Delete(ctx, m)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
	}()
}

// ownCluster makes a cluster for one test, and replaces its incomplete Machines until the test ends.
func ownCluster(t *testing.T, shape world.Shape) *world.Cluster {
	t.Helper()
	c := aCluster(t, shape)
	replaceIncomplete(t.Context(), theWorld(t), c)
	return c
}

// inPool selects the Machines of a pool.
func inPool(pool string) remedyv1.Selector {
	return remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{world.PoolLabel: remedyv1.LabelValue(pool)}}
}

func lasting(d time.Duration) *remedyv1.Duration {
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// aCheck makes a check of a pool: a Node that has been Unknown for five seconds is too much. It goes with the test.
func aCheck(t *testing.T, c *world.Cluster, name string, change func(*remedyv1.MachineHealthCheckSpec)) *remedyv1.MachineHealthCheck {
	t.Helper()
	check := remedyCheck(c, name)
	if change != nil {
		change(&check.Spec)
	}
	w := theWorld(t)
	NewWithT(t).Expect(w.Client.Create(t.Context(), check)).To(Succeed())
	t.Cleanup(func() { expectToGo(t, w, check) })
	return check
}

// remedyCheck is a check for Remedy of the pool with the same name.
func remedyCheck(c *world.Cluster, pool string) *remedyv1.MachineHealthCheck {
	return &remedyv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: pool},
		Spec: remedyv1.MachineHealthCheckSpec{
			ClusterName:         c.Name,
			Selector:            inPool(pool),
			UnhealthyConditions: []remedyv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", Timeout: *lasting(unhealthyTimeout)}},
		},
	}
}

// expectToGo deletes a check and waits until it is cleaned up and does not exist any more.
func expectToGo(t testing.TB, w *world.World, check client.Object) {
	t.Helper()
	g := NewWithT(t)
	ctx := context.Background()
	g.Expect(client.IgnoreNotFound(w.Client.Delete(ctx, check))).To(Succeed())
	g.Eventually(func() error { return w.Client.Get(ctx, client.ObjectKeyFromObject(check), check) }, soon).Should(MatchError(ContainSubstring("not found")))
}

// now reads a check.
func now(t *testing.T, check *remedyv1.MachineHealthCheck) *remedyv1.MachineHealthCheck {
	t.Helper()
	got := &remedyv1.MachineHealthCheck{}
	NewWithT(t).Expect(theWorld(t).Client.Get(t.Context(), client.ObjectKeyFromObject(check), got)).To(Succeed())
	return got
}

// conditionOf is a condition of a check, for Eventually.
func says(t *testing.T, check *remedyv1.MachineHealthCheck, kind string) func() string {
	t.Helper()
	return func() string { return word(now(t, check), kind) }
}

func word(check *remedyv1.MachineHealthCheck, kind string) string {
	if c := meta.FindStatusCondition(check.Status.Conditions, kind); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return "none"
}

// counts is the sum of a check: how many it selects, and how many of them are in each state.
func counts(check *remedyv1.MachineHealthCheck) string {
	s := &check.Status
	show := func(n *int32) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%s expected, %s healthy, %s unhealthy, %s suspect, %s undetermined, %s remediating, %s held", show(s.ExpectedMachines), show(s.CurrentHealthy),
		show(s.Unhealthy), show(s.Suspect), show(s.Undetermined), show(s.Remediating), show(s.Blocked))
}

// isClean waits until a check has nothing to do, and nothing left of what it has done. All of that is seen in one look at it: each part for
// itself may be as it should for a moment, before the check has seen what has happened, or while others are still to come.
func isClean(t *testing.T, check *remedyv1.MachineHealthCheck, targets int) {
	t.Helper()
	clean := fmt.Sprintf("%[1]d expected, %[1]d healthy, 0 unhealthy, 0 suspect, 0 undetermined, 0 remediating, 0 held", targets)
	NewWithT(t).Eventually(func(g Gomega) {
		got := now(t, check)
		g.Expect(counts(got)).To(Equal(clean))
		g.Expect(got.Finalizers).To(BeEmpty(), "there is nothing to clean up any more")
		g.Expect(got.Annotations).To(BeEmpty(), "there is nothing to remember any more")
		g.Expect(got.Status.ObservedGeneration).To(Equal(got.Generation))
		g.Expect(got.Status.UnhealthyTargets).To(BeEmpty())
		g.Expect(word(got, remedyv1.ReadyCondition)).To(Equal("True Ready"))
		g.Expect(word(got, remedyv1.RemediationAllowedCondition)).To(Equal("True RemediationAllowed"))
		g.Expect(word(got, remedyv1.PausedCondition)).To(Equal("False NotPaused"))
		g.Expect(word(got, remedyv1.ClusterReachableCondition)).To(Equal("True ClusterReachable"))
		g.Expect(word(got, remedyv1.SelectorsDisjointCondition)).To(Equal("True SelectorsDisjoint"))
	}, soon).Should(Succeed())
}

// looksAfter waits until a check has seen its Machines, and that they are well.
func looksAfter(t *testing.T, check *remedyv1.MachineHealthCheck, targets int) {
	t.Helper()
	NewWithT(t).Eventually(func() string { return counts(now(t, check)) }, soon).
		Should(HavePrefix(fmt.Sprintf("%[1]d expected, %[1]d healthy,", targets)))
}

// outcomes are how remediations of a check ended: target and outcome.
func outcomes(check *remedyv1.MachineHealthCheck) []string {
	all := make([]string, 0, len(check.Status.RecentRemediations))
	for i := range check.Status.RecentRemediations {
		r := &check.Status.RecentRemediations[i]
		all = append(all, r.Target+" "+string(r.Outcome))
	}
	return all
}

// falls makes the Nodes of Machines Unknown.
func falls(t *testing.T, c *world.Cluster, machines ...clusterv1.Machine) {
	t.Helper()
	for i := range machines {
		turns(t, c, machines[i], corev1.ConditionUnknown)
	}
}

func turns(t *testing.T, c *world.Cluster, machine clusterv1.Machine, status corev1.ConditionStatus) {
	t.Helper()
	NewWithT(t).Expect(c.SetNodeCondition(t.Context(), machine.Status.NodeRef.Name, corev1.NodeReady, status, "Test")).To(Succeed())
}

// poolOf are the Machines of a pool; each has a Node.
func poolOf(t *testing.T, c *world.Cluster, pool string) []clusterv1.Machine {
	t.Helper()
	g := NewWithT(t)
	machines, err := c.PoolMachines(t.Context(), pool)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(machines).ToNot(BeEmpty())
	for i := range machines {
		g.Expect(machines[i].Status.NodeRef.Name).ToNot(BeEmpty())
	}
	return machines
}

// isWhole waits until a pool has as many Machines with a Node as it should, and none that is about to go; the given ones are not among
// them.
func isWhole(t *testing.T, c *world.Cluster, pool string, replicas int, without ...clusterv1.Machine) {
	t.Helper()
	NewWithT(t).Eventually(func() string {
		machines, err := c.PoolMachines(t.Context(), pool)
		if err != nil {
			return err.Error()
		}
		with := 0
		for i := range machines {
			if machines[i].Status.NodeRef.Name != "" && machines[i].DeletionTimestamp.IsZero() {
				with++
			}
			for j := range without {
				if machines[i].UID == without[j].UID {
					return machines[i].Name + " is still there"
				}
			}
		}
		return fmt.Sprintf("%d Machines, %d with a Node", len(machines), with)
	}, soon).Should(Equal(fmt.Sprintf("%d Machines, %d with a Node", replicas, replicas)))
}
