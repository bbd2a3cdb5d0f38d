// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

// remembered: annotations and owners are what outlives a move; conditions of Machines and the status of a request are not.
func remembered(t *testing.T, from, to *world.World, memory *world.Cluster) {
	g := NewWithT(t)
	machine, _ := workerOf(t, memory.In(to))
	g.Expect(machine.Annotations).To(HaveKeyWithValue(annotation, "attempts: 1"))
	g.Expect(meta.FindStatusCondition(machine.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)).To(BeNil())

	request := world.NewRemediation(world.Remediation, machine.Namespace, machine.Name)
	g.Expect(to.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)).To(Succeed())
	g.Expect(request.GetAnnotations()).To(HaveKeyWithValue(annotation, "step: 1"))
	g.Expect(request.GetOwnerReferences()).To(ConsistOf(HaveField("UID", machine.UID)))
	g.Expect(request.Object).ToNot(HaveKey("status"))

	owned := &remedyv1.MachineHealthCheck{}
	g.Expect(to.Client.Get(t.Context(), client.ObjectKey{Namespace: memory.Namespace, Name: "owned"}, owned)).To(Succeed())
	g.Expect(owned.Annotations).To(HaveKeyWithValue(annotation, "attempts: 2"))
	g.Expect(owned.Spec.ClusterName).To(Equal(memory.Name))

	// Cluster-scoped objects are copied, never deleted: from now on there are two checks of these Nodes, and one of them has no Cluster.
	labelled := &remedyv1.NodeHealthCheck{}
	for _, w := range []*world.World{from, to} {
		g.Expect(w.Client.Get(t.Context(), client.ObjectKey{Name: memory.Namespace}, labelled)).To(Succeed())
		g.Expect(labelled.Annotations).To(HaveKeyWithValue(annotation, "attempts: 3"))
	}
}

// nodesDidNotNotice: a Node is bound by its UID, and that is the workload cluster's business.
func nodesDidNotNotice(t *testing.T, genuine *world.Workload, to *world.World, before *corev1.Node) {
	g := NewWithT(t)
	moved, err := genuine.In(to)
	g.Expect(err).ToNot(HaveOccurred())
	after, err := moved.Node(t.Context(), before.Name)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(after.UID).To(Equal(before.UID))
	g.Expect(after.Annotations).To(HaveKeyWithValue(annotation, "attempts: 1"))
}

// goesOn: the Machines are unchanged, none is replaced, and changes of Nodes are detected, through the links of this
// world.
func goesOn(t *testing.T, w *world.World, memory *world.Cluster, genuine *world.Workload) {
	g := NewWithT(t)
	moved, err := genuine.In(w)
	g.Expect(err).ToNot(HaveOccurred())
	known := names(t, memory)
	begin := time.Now()
	g.Expect(memory.Ready(t.Context())).To(Succeed())
	g.Eventually(func() []string { return nodesOf(t, &moved.Cluster) }, soon).Should(HaveLen(2))
	t.Logf("all Machines are Available again after %s", time.Since(begin).Round(100*time.Millisecond))
	g.Expect(names(t, memory)).To(Equal(known))
	for _, c := range []*world.Cluster{memory, &moved.Cluster} {
		machine, node := workerOf(t, c)
		seen := machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition)
		g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionTrue))
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
		g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionUnknown))
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")).To(Succeed())
		g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionTrue))
		link, err := c.Link(t.Context())
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(link.Carried()).To(BeNumerically(">", 0))
	}
}

// names are those of all Machines of a cluster.
func names(t testing.TB, c *world.Cluster) map[string]bool {
	t.Helper()
	machines, err := c.Machines(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	found := map[string]bool{}
	for _, m := range machines {
		found[m.Name] = true
	}
	return found
}
