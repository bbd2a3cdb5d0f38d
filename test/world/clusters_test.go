// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/world"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func TestWorld_Nodes_FollowTheTest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	begin := time.Now()
	c := ownCluster(t, world.Shape{Namespace: uniqueName("nodes"), Name: "nodes", Workers: 3})
	t.Logf("a cluster of 1 + 3 is ready after %s", time.Since(begin).Round(100*time.Millisecond))

	machine, node := workerOf(t, c)
	t.Run("a heartbeat changes heartbeat times only", func(t *testing.T) {
		g := NewWithT(t)
		before, err := c.Node(t.Context(), node)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(c.Heartbeat(t.Context(), node)).To(Succeed())
		after, err := c.Node(t.Context(), node)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(nodeReady(after).LastTransitionTime).To(Equal(nodeReady(before).LastTransitionTime))
		g.Expect(nodeReady(after).LastHeartbeatTime.After(nodeReady(before).LastHeartbeatTime.Time)).To(BeTrue())
		g.Expect(after.Labels).To(Equal(before.Labels))
		g.Expect(after.Spec).To(Equal(before.Spec))
	})
	t.Run("a condition stays as it was set, also under heartbeats", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown")).To(Succeed())
		beating, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		g.Expect(c.HeartbeatAll(beating, 200*time.Millisecond)).To(Succeed())
		got, err := c.Node(t.Context(), node)
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(nodeReady(got)).To(And(HaveField("Status", corev1.ConditionUnknown), HaveField("Reason", "NodeStatusUnknown")))
		g.Eventually(machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition), soon).
			Should(HaveField("Status", metav1.ConditionUnknown))
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")).To(Succeed())
		g.Eventually(machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition), soon).
			Should(HaveField("Status", metav1.ConditionTrue))
	})
	t.Run("some things it does not have", func(t *testing.T) { inMemoryIsTooThin(t, c, node) })
	t.Run("a deleted Node stays away, and its Machine can be replaced", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.DeleteNode(t.Context(), node)).To(Succeed())
		g.Eventually(machineCondition(t.Context(), w, machine, clusterv1.MachineNodeHealthyCondition), soon).
			Should(HaveField("Reason", clusterv1.MachineNodeDeletedReason))
		g.Consistently(func() error { _, err := c.Node(t.Context(), node); return err }, 2*time.Second).ShouldNot(Succeed())
		g.Expect(w.Client.Delete(t.Context(), &machine)).To(Succeed())
		g.Eventually(func() bool { return names(t, c)[machine.Name] }, soon).Should(BeFalse())
		g.Expect(c.Ready(t.Context())).To(Succeed())
	})
	g.Expect(c.Machines(t.Context())).To(HaveLen(4))
}

func TestWorld_ClusterClass_HasSeveralPools(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	begin := time.Now()
	c := aCluster(t, world.Shape{
		Namespace: uniqueName("team"), Name: "classy", ControlPlanes: 3, ClusterClass: true,
		Pools: []world.Pool{{Name: "small", Replicas: 1}, {Name: "big", Replicas: 2}},
	})
	t.Logf("a cluster of 3 + 3 from a ClusterClass is ready after %s", time.Since(begin).Round(100*time.Millisecond))
	cluster := &clusterv1.Cluster{}
	g.Expect(theWorld(t).Client.Get(t.Context(), c.Key(), cluster)).To(Succeed())
	g.Expect(cluster.Spec.Topology.ClassRef.Name).To(Equal(c.ClassName()))
	g.Expect(c.PoolMachines(t.Context(), "small")).To(HaveLen(1))
	g.Expect(c.PoolMachines(t.Context(), "big")).To(HaveLen(2))
	g.Expect(c.Delete(t.Context())).To(Succeed())
	g.Expect(c.Machines(t.Context())).To(BeEmpty())
}

func TestWorld_NetworkToWorkloadCluster_CanFail(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := theWorld(t)
	c := aCluster(t, world.Shape{Namespace: uniqueName("network"), Name: "far-away", Workers: 1})
	link, err := c.Link(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(link.Carried()).To(BeNumerically(">", 0), "or the managers go past it")

	probe := func() metav1.ConditionStatus {
		cluster := &clusterv1.Cluster{}
		if err := w.Client.Get(t.Context(), c.Key(), cluster); err != nil {
			return metav1.ConditionStatus(err.Error())
		}
		if found := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ClusterRemoteConnectionProbeCondition); found != nil {
			return found.Status
		}
		return "none"
	}
	g.Eventually(probe, soon).Should(Equal(metav1.ConditionTrue))
	machine, node := workerOf(t, c)
	seen := machineCondition(t.Context(), w, machine, clusterv1.MachineNodeReadyCondition)
	say := func(status corev1.ConditionStatus) {
		g.Expect(c.SetNodeCondition(t.Context(), node, corev1.NodeReady, status, "Test")).To(Succeed())
	}
	t.Run("silenced: nothing comes through, and then everything", func(t *testing.T) {
		g := NewWithT(t)
		link.Silence()
		say(corev1.ConditionUnknown)
		g.Consistently(seen, 3*time.Second).Should(HaveField("Status", metav1.ConditionTrue))
		link.Restore()
		g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionUnknown))
	})
	t.Run("cut: Cluster API reports it, and the test still reads the Nodes", func(t *testing.T) {
		g := NewWithT(t)
		link.Cut()
		say(corev1.ConditionTrue)
		g.Eventually(probe, soon).Should(Equal(metav1.ConditionFalse))
		g.Expect(seen()).To(HaveField("Status", metav1.ConditionUnknown))
	})
	t.Run("slow: late, but it comes", func(t *testing.T) {
		g := NewWithT(t)
		link.Slow(300 * time.Millisecond)
		g.Eventually(seen, soon).Should(HaveField("Status", metav1.ConditionTrue))
		link.Restore()
	})
	t.Run("the API server itself", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(c.StopAPIServer(t.Context())).To(Succeed())
		_, err := c.Node(t.Context(), node)
		g.Expect(err).To(HaveOccurred())
		g.Expect(c.StartAPIServer(t.Context())).To(Succeed())
		g.Eventually(func() error { _, err := c.Node(t.Context(), node); return err }, soon).Should(Succeed())
	})
}
