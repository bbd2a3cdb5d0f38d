// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// rebooting remediates with a template of the example, whose remediator finds the Nodes of a workload cluster.
func rebooting(s *stage.Stage) func(*remedyv1.NodeHealthCheckSpec) {
	return func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "reboot")
	}
}

// ownNodes labels the Nodes of Machines as those of the stage.
func ownNodes(s *stage.Stage, machines ...string) {
	for _, machine := range machines {
		s.ChangeNode(machine, func(node *corev1.Node) { node.Labels = s.NodeLabels() })
	}
}

// A MachineHealthCheck is responsible before a NodeHealthCheck, also if it is created later. When it is deleted, the NodeHealthCheck takes
// its place.
func TestResponsible_MachineHealthCheck_ComesFirst(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.CreateMachine(name)
	}
	ownNodes(s, "m-1", "m-2", "m-3")
	machines := s.CreateCheck("workers")
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.FailNode("m-3")
	decided(s, check, "m-3", Equal("Blocked ManagedByOtherCheck"))
	s.Expect(stage.OfNodes(stage.CheckCondition(remedyv1.SelectorsDisjointCondition))(check)).To(Equal("False SelectorsOverlap"))
	s.Expect(stage.OfNodes(stage.CheckMessage(remedyv1.SelectorsDisjointCondition))(check)).
		To(ContainSubstring("MachineHealthCheck " + s.Namespace + "/workers"))
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Remediating ")))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())

	s.Expect(s.Admin.Delete(s.Ctx, machines)).To(Succeed())
	s.WaitRequest(remediator.Example, s.NodeName("m-3"))
}

// A remediation that has begun is not interrupted: the MachineHealthCheck waits until the request no longer exists.
func TestResponsible_RequestExists_KeepsTheNode(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	target := s.CreateMachine("m-3")
	ownNodes(s, "m-1", "m-2", "m-3")
	s.FailNode("m-3")
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("m-3"))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveKey(s.NodeName("m-3"))))
	machines := s.CreateCheck("workers")
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Blocked ManagedByOtherCheck")))
	c.WaitIdle()
	s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-3"]).To(BeEmpty())
	decided(s, check, "m-3", Equal("Remediating "))
	s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(machines)).To(Equal("False SelectorsOverlap"))
	s.Expect(stage.CheckMessage(remedyv1.SelectorsDisjointCondition)(machines)).To(ContainSubstring("NodeHealthCheck " + check.Name))
	s.Expect(stage.Get(s, target)().Annotations).ToNot(HaveKey(remedyv1.MarkedByAnnotation))

	// Only the end of the request wakes the MachineHealthCheck.
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-3"] }).
		Should(Equal(stage.OwnerRequested))
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
}

// Of two NodeHealthChecks, the first by name is responsible.
func TestResponsible_TwoNodeHealthChecks_FirstByName(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		s.CreateNode(name)
	}
	s.FailNode("n-3")
	second := s.CreateNodeCheck("b")
	first := s.CreateNodeCheck("a")
	s.Start()
	decided(s, first, "n-3", Equal("Remediating "))
	decided(s, second, "n-3", Equal("Blocked ManagedByOtherCheck"))
	s.Expect(s.Requests(remediator.FenceAgents)).To(HaveLen(1))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetAnnotations()).
		To(HaveKeyWithValue(remedyv1.CheckAnnotation, "NodeHealthCheck//"+first.Name))
}

// In a management cluster that manages itself, a check without a Cluster and a MachineHealthCheck of its Cluster monitor the same Nodes.
func TestResponsible_SelfHosted_BothKindsSeeEachOther(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithSelfHosted)
	s.CreateOwnMachines("m-1", "m-2", "m-3")
	machines := s.CreateCheck("workers")
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.FailNode("m-3")
	decided(s, check, "m-3", Equal("Blocked ManagedByOtherCheck"))
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Remediating ")))
	s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(machines)).To(Equal("False SelectorsOverlap"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
}

// An instance of one namespace is responsible for the checks of Clusters in that namespace only.
func TestResponsible_InstanceOfNamespace_SkipsOtherChecks(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyNode("n-1")
	local := s.CreateNodeCheck("local", func(spec *remedyv1.NodeHealthCheckSpec) { spec.ClusterRef = nil })
	other := s.CreateNodeCheck("other", func(spec *remedyv1.NodeHealthCheckSpec) { spec.ClusterRef.Namespace = "default" })
	own := s.CreateNodeCheck("own")
	s.Start()
	s.Eventually(stage.Get(s, own)).Should(WithTransform(status, Equal([]int32{1, 0, 1})))
	for _, check := range []*remedyv1.NodeHealthCheck{local, other} {
		s.Expect(stage.Get(s, check)().Status.Conditions).To(BeEmpty())
	}
}

// Nodes that are being deleted, or announced to be, are left to those who delete them.
func TestTerminating_TaintOrDeletion_Blocks(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	for _, name := range []string{"n-1", "n-2", "n-3"} {
		s.CreateNode(name)
	}
	s.CreateUnhealthyNode("n-4", func(node *corev1.Node) {
		now := metav1.NewTime(time.Now().Add(-time.Minute))
		node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now}}
	})
	check := s.CreateNodeCheck("workers")
	s.Start()
	decided(s, check, "n-4", Equal("Blocked Terminating"))
}

// Cluster API deletes a Machine with this annotation first when a MachineSet is scaled down.
func TestTerminating_MachineToBeDeleted_Blocks(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	s.Annotate(s.CreateUnhealthyMachine("m-3"), clusterv1.DeleteMachineAnnotation, "yes")
	ownNodes(s, "m-1", "m-2", "m-3")
	check := s.CreateNodeCheck("workers", rebooting(s))
	s.Start()
	decided(s, check, "m-3", Equal("Blocked Terminating"))
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
}
