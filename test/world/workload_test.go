// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func TestWorkload_RealAPIServer_IsWorkloadCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	begin := time.Now()
	c, err := w.Workload(t.Context(), world.Shape{Namespace: uniqueName("real"), Name: "genuine", Workers: 2})
	g.Expect(err).ToNot(HaveOccurred())
	replaceIncomplete(t.Context(), w, &c.Cluster)
	g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(HaveLen(3), "Cluster API finds the Nodes of its Machines")
	t.Logf("a workload cluster of 1 + 2 with a real API server has its Nodes after %s", time.Since(begin).Round(100*time.Millisecond))

	machine, node := workerOf(t, &c.Cluster)
	workload, err := c.Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	t.Run("conditions are set by the status subresource, and Cluster API sees them", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
		g.Eventually(machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition), soon).
			Should(HaveField("Status", metav1.ConditionUnknown))
	})
	t.Run("it has Leases", func(t *testing.T) {
		g := NewWithT(t)
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}
		g.Expect(workload.Get(t.Context(), key, lease)).To(Succeed())
		before := lease.Spec.RenewTime.Time
		g.Expect(c.Heartbeat(t.Context(), node)).To(Succeed())
		g.Expect(workload.Get(t.Context(), key, lease)).To(Succeed())
		g.Expect(lease.Spec.RenewTime.After(before)).To(BeTrue())
	})
	t.Run("managers reach it through the link", func(t *testing.T) { managersUseLink(t, c) })
	t.Run("a Machine that goes is replaced, with a Node", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(w.Client.Delete(t.Context(), &machine)).To(Succeed())
		g.Eventually(func() bool { return names(t, &c.Cluster)[machine.Name] }, soon).Should(BeFalse())
		g.Eventually(func() []string { return nodesOf(t, &c.Cluster) }, soon).Should(And(HaveLen(3), Not(ContainElement(node))))
	})
	t.Run("it can crash and come back", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.Plane.Crash("kube-apiserver")).To(Succeed())
		g.Expect(workload.List(t.Context(), &corev1.NodeList{})).ToNot(Succeed())
		g.Expect(c.Plane.Revive(t.Context(), "kube-apiserver")).To(Succeed())
		g.Expect(workload.List(t.Context(), &corev1.NodeList{})).To(Succeed())
	})
}

// nodesOf are the Nodes that Cluster API has found for the Machines that stay.
func nodesOf(t *testing.T, c *world.Cluster) []string {
	t.Helper()
	machines, err := c.Machines(t.Context())
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	var nodes []string
	for _, m := range machines {
		if m.Status.NodeRef.Name != "" && m.DeletionTimestamp == nil {
			nodes = append(nodes, m.Status.NodeRef.Name)
		}
	}
	return nodes
}

// managersUseLink: the kubeconfig of the Secret, which a manager reads, leads through the link.
func managersUseLink(t *testing.T, c *world.Workload) {
	g := NewWithT(t)
	kubeconfig, err := c.Kubeconfig(t.Context(), true)
	g.Expect(err).ToNot(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	g.Expect(err).ToNot(HaveOccurred())
	link, err := c.Link(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	before := link.Carried()
	manager, err := client.New(config, client.Options{})
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(manager.List(t.Context(), &corev1.NodeList{})).To(Succeed())
	g.Expect(link.Carried()).To(BeNumerically(">", before), "or it goes past the link")
}

// inMemoryIsTooThin is why there is a second API server; the day it fails, there need not be.
func inMemoryIsTooThin(t *testing.T, c *world.Cluster, node string) {
	g := NewWithT(t)
	there, err := c.Client(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	said := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": node}}}
	g.Expect(there.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(said), client.FieldOwner("one"))).ToNot(Succeed(), "server-side apply")
	got, err := c.Node(t.Context(), node)
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(there.Status().Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{}`)))).ToNot(Succeed(), "the status of a Node")
	g.Expect(there.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(corev1.NamespaceNodeLease))).ToNot(Succeed(), "Leases")
	g.Expect(c.RenewLease(t.Context(), node)).To(MatchError(ContainSubstring("see World.Workload")))
}
