// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// A worker of every cluster becomes unhealthy at the same time: each is replaced, once, and no other Machine is.
func TestFleet_OneFaultInEachCluster_ReplacesOneEach(t *testing.T) {
	if runsInOwnProcess(t) {
		return
	}
	g := NewWithT(t)
	w := theWorld(t)
	fleet := make([]*world.Cluster, depth.Of(5, 20))
	begin := time.Now()
	for i := range fleet {
		c, err := w.Cluster(t.Context(), world.Shape{Namespace: uniqueName("fleet"), Name: fmt.Sprintf("fleet-%d", i), Workers: 1})
		g.Expect(err).ToNot(HaveOccurred())
		replaceIncomplete(t.Context(), w, c)
		fleet[i] = c
	}
	seen := make([]*history, len(fleet))
	for i, c := range fleet {
		g.Expect(c.Ready(t.Context())).To(Succeed())
		looksAfter(t, aCheck(t, c, world.WorkersPool, nil), 1)
		seen[i] = follow(t, c, world.WorkersPool)
	}
	t.Logf("%d clusters are ready after %s", len(fleet), time.Since(begin).Round(100*time.Millisecond))
	for _, c := range fleet {
		falls(t, c, poolOf(t, c, world.WorkersPool)[0])
	}
	begin = time.Now()
	for i, c := range fleet {
		g.Eventually(func() []string { return seen[i].marked(t) }, soon).Should(HaveLen(1), c.Name)
	}
	t.Logf("the owner remediation of all of them is requested after %s", time.Since(begin).Round(100*time.Millisecond))
	for i, c := range fleet {
		check := remedyCheck(c, world.WorkersPool)
		isWhole(t, c, world.WorkersPool, 1)
		isClean(t, check, 1)
		marked := seen[i].marked(t)
		g.Expect(marked).To(HaveLen(1), "and no replacement")
		g.Expect(outcomes(now(t, check))).To(Equal([]string{marked[0] + " Replaced"}))
		g.Expect(poolOf(t, c, world.WorkersPool)).To(ConsistOf(HaveField("Name", Not(Equal(marked[0])))))
	}
}
