// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func TestNodes_Deleted_MachineIsReplaced(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	c, pool := clusterWithPool(t, "gone")
	check := aCheck(t, c, pool, nil)
	looksAfter(t, check, 1)
	sick, seen := poolOf(t, c, pool)[0], follow(t, c, pool)
	g.Expect(c.DeleteNode(t.Context(), sick.Status.NodeRef.Name)).To(Succeed())
	isWhole(t, c, pool, 1, sick)
	isClean(t, check, 1)
	g.Expect(outcomes(now(t, check))).To(ContainElement(sick.Name + " Replaced"))
	g.Expect(reasons(t, seen, sick.Name)).To(ConsistOf(clusterv1.MachineHealthCheckNodeDeletedReason))
}

// A Node that never joins: each Machine has its time, and is replaced after it.
func TestNodes_NeverJoins_MachineIsReplaced(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	c, _ := clusterWithPool(t, "")
	pool := uniqueName("never")
	check := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) { s.NodeStartupTimeout = lasting(30 * time.Second) })
	seen := follow(t, c, pool)
	addSilentPool(t, c, pool)
	g.Eventually(func() []string { return seen.marked(t) }, soon).ShouldNot(BeEmpty())
	marked := seen.marked(t)
	g.Eventually(func() []string { return slices.Sorted(maps.Keys(seen.last())) }, soon).
		Should(And(Not(BeEmpty()), Not(ContainElement(marked[0]))), "it is replaced")
	g.Expect(reasons(t, seen, marked[0])).To(ConsistOf(clusterv1.MachineHealthCheckNodeStartupTimeoutReason))
	g.Eventually(func() []string { return outcomes(now(t, check)) }, soon).Should(ContainElement(marked[0] + " Replaced"))
	for _, state := range seen.all(t) {
		if m := state[marked[0]]; m != nil && isMarked(m) {
			since := conditions.GetLastTransitionTime(m, clusterv1.MachineHealthCheckSucceededCondition)
			g.Expect(since.Sub(m.CreationTimestamp.Time)).To(BeNumerically(">=", 30*time.Second), "it had its time")
		}
	}
	g.Expect(client.IgnoreNotFound(theWorld(t).Client.Delete(t.Context(), &clusterv1.MachineDeployment{
		ObjectMeta: check.ObjectMeta, // their names are the same
	}))).To(Succeed())
}

// reasons are the reasons for which a Machine was ever unhealthy.
func reasons(t *testing.T, seen *history, machine string) []string {
	t.Helper()
	found := map[string]bool{}
	var all []string
	for _, state := range seen.all(t) {
		m := state[machine]
		if m == nil || !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
			continue
		}
		if reason := conditions.GetReason(m, clusterv1.MachineHealthCheckSucceededCondition); !found[reason] {
			found[reason], all = true, append(all, reason)
		}
	}
	return all
}

// addSilentPool makes a MachineDeployment of one, with the name of the pool: its machines start, and their Nodes do not.
func addSilentPool(t *testing.T, c *world.Cluster, pool string) {
	t.Helper()
	g := NewWithT(t)
	w := theWorld(t)
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevMachineTemplate"})
	g.Expect(w.Client.Get(t.Context(), c.Key(), template)).To(Succeed())
	silent := &unstructured.Unstructured{Object: map[string]any{"spec": template.Object["spec"]}}
	silent.SetGroupVersionKind(template.GroupVersionKind())
	silent.SetNamespace(c.Namespace)
	silent.SetName(pool)
	g.Expect(unstructured.SetNestedField(silent.Object, "24h", "spec", "template", "spec", "backend", "inMemory", "node", "provisioning", "startupDuration")).To(Succeed())
	g.Expect(w.Client.Create(t.Context(), silent)).To(Succeed())

	like := &clusterv1.MachineDeployment{}
	g.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: c.Name + "-gone"}, like)).To(Succeed())
	deployment := &clusterv1.MachineDeployment{Spec: like.Spec}
	deployment.Namespace, deployment.Name = c.Namespace, pool
	deployment.Spec.Replicas = ptr.To[int32](1)
	deployment.Spec.Selector.MatchLabels = map[string]string{world.PoolLabel: pool}
	deployment.Spec.Template.Labels = map[string]string{world.PoolLabel: pool}
	deployment.Spec.Template.Spec.InfrastructureRef.Name = pool
	g.Expect(w.Client.Create(t.Context(), deployment)).To(Succeed())
}
