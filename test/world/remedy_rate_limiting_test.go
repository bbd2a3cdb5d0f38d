// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// The other tests disable Cluster API's rate limiter, which lets each of its controllers reconcile an object once per 15 seconds. Here it
// is enabled, as it is by default.
func TestRateLimiting_UpstreamDefault_MachinesAreReplaced(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const inTreePool, remedyPool = "in-tree", "remedy"
	w := startWorld(t, world.Options{WithoutInfrastructure: true, Flags: map[string][]string{world.Remedy: aTenaciousLead}})
	g.Expect(w.Process(world.Core).Args).To(ContainElement(ContainSubstring("ReconcilerRateLimiting=true")))
	workload, err := w.Workload(t.Context(), world.Shape{Namespace: "limited", Name: "limited", Pools: []world.Pool{
		{Name: inTreePool, Replicas: 1}, {Name: remedyPool, Replicas: 1},
	}})
	g.Expect(err).ToNot(HaveOccurred())
	c := &workload.Cluster
	replaceIncomplete(t.Context(), w, c)
	g.Eventually(func() []string { return nodesOf(t, c) }, soon).Should(HaveLen(3))
	inTree := inTreeCheck(c)
	inTree.Spec.Selector.MatchLabels[world.PoolLabel] = inTreePool
	checks := []client.Object{inTree, remedyCheck(c, remedyPool)}
	for _, check := range checks {
		g.Expect(w.Client.Create(t.Context(), check)).To(Succeed())
	}
	for _, check := range checks {
		g.Eventually(func() *int32 { return currentHealthy(t, w, check) }, soon).Should(HaveValue(BeEquivalentTo(1)))
	}
	inTreeMachine, remedyMachine := poolOf(t, c, inTreePool)[0], poolOf(t, c, remedyPool)[0]
	falls(t, c, inTreeMachine, remedyMachine)
	isWhole(t, c, inTreePool, 1, inTreeMachine)
	isWhole(t, c, remedyPool, 1, remedyMachine)
}
