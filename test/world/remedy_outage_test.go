// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// Two Nodes become Unknown during an outage, and one of them is Ready again before its end. A user requests the remediation of another
// Machine.
func TestOutage_WorkloadCluster_NothingIsRemediated(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c := ownCluster(t, world.Shape{Namespace: uniqueName("islands"), Name: "island", Workers: 2, Pools: []world.Pool{{Name: "asked", Replicas: 1}, {Name: "in-tree", Replicas: 1}}})
	check, asked := aCheck(t, c, world.WorkersPool, nil), aCheck(t, c, "asked", nil)
	looksAfter(t, check, 2)
	looksAfter(t, asked, 1)
	theirs := inTreeCheck(c)
	theirs.Spec.Selector.MatchLabels[world.PoolLabel] = "in-tree"
	g.Expect(w.Client.Create(t.Context(), theirs)).To(Succeed())
	t.Cleanup(func() { expectToGo(t, w, theirs) })
	g.Eventually(func() *int32 { return currentHealthy(t, w, theirs) }, soon).Should(HaveValue(BeEquivalentTo(1)))
	workers, seen := poolOf(t, c, world.WorkersPool), follow(t, c, world.WorkersPool)
	wanted, wantedInTree := poolOf(t, c, "asked")[0], poolOf(t, c, "in-tree")[0]
	link, err := c.Link(t.Context())
	g.Expect(err).ToNot(HaveOccurred())

	link.Cut()
	falls(t, c, workers...)
	g.Eventually(says(t, check, remedyv1.ClusterReachableCondition), soon).Should(Equal("False ClusterUnreachable"))
	g.Eventually(func() string { return counts(now(t, check)) }, soon).
		Should(Equal("2 expected, 0 healthy, 0 unhealthy, 0 suspect, 2 undetermined, 0 remediating, 0 held"))
	t.Run("what a person asks for counts all the same", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(func() string { return fetched(t, "http://"+w.Process(world.Core).Diagnostics+"/metrics") }, soon).
			Should(ContainSubstring(`capi_cluster_cache_connection_up{cluster_name="`+c.Name+`",cluster_namespace="`+c.Namespace+`"} 0`), "Cluster API takes longer to see it")
		for _, m := range []clusterv1.Machine{wanted, wantedInTree} {
			before := client.MergeFrom(m.DeepCopy())
			m.Annotations[clusterv1.RemediateMachineAnnotation] = ""
			g.Expect(w.Client.Patch(t.Context(), &m, before)).To(Succeed())
		}
		of := func(m clusterv1.Machine) func() string {
			read := machineCondition(t.Context(), w, m, clusterv1.MachineHealthCheckSucceededCondition)
			return func() string { return read().Reason }
		}
		g.Eventually(of(wanted), soon).Should(Equal(clusterv1.MachineHealthCheckHasRemediateAnnotationReason))
		g.Expect(of(wantedInTree)()).ToNot(Equal(clusterv1.MachineHealthCheckHasRemediateAnnotationReason), "the in-tree controller is blind")
	})

	// That a cluster was cut off is known to the one who has seen it.
	keepsItsMemory(t)
	g.Eventually(func() string { return logOfPresentManager(t, w) }, soon).
		Should(MatchRegexp(`Workload cluster is not connected.*Cluster="`+c.Namespace+"/"+c.Name+`"`), "the status may be that of a manager that was killed")
	g.Eventually(says(t, check, remedyv1.ClusterReachableCondition), soon).Should(Equal("False ClusterUnreachable"))
	turns(t, c, workers[0], corev1.ConditionTrue)
	link.Restore()
	g.Eventually(says(t, check, remedyv1.ClusterReachableCondition), soon).Should(HaveSuffix(remedyv1.ReconnectingReason))
	g.Expect(seen.marked(t)).To(BeEmpty(), "nothing is known yet")
	isWhole(t, c, world.WorkersPool, 2, workers[1])
	isClean(t, check, 2)
	g.Expect(seen.marked(t)).To(Equal([]string{workers[1].Name}), "only the one that is still silent when the Nodes have spoken")
}

// logOfPresentManager is what the manager has logged since it was started last.
func logOfPresentManager(t *testing.T, w *world.World) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Logs, world.Remedy+".log"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return string(content[max(0, bytes.LastIndex(content, []byte("Starting manager"))):])
}
