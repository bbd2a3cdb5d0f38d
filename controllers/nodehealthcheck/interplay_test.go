// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A Node gets a Machine while a NodeHealthCheck remediates it. The remediation ends as it has begun, and after that the MachineHealthCheck
// is responsible.
func TestResponsible_MachineAppearsLater_TakesOverAfterTheRequest(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	ownNodes(s, "m-1", "m-2")
	s.CreateUnhealthyNode("n-3")
	machines := s.CreateCheck("workers")
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("n-3"))
	// Other checks read from the status which Nodes a check remediates.
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveKey(s.NodeName("n-3"))))
	later := s.CreateMachineWithoutNode("m-3", nil)
	s.ChangeStatus(later, func() { later.Status.NodeRef = clusterv1.MachineNodeReference{Name: s.NodeName("n-3")} })
	s.ChangeNode("n-3", func(node *corev1.Node) { node.Spec.ProviderID = later.Spec.ProviderID })
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Blocked ManagedByOtherCheck")))
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-3"]).To(BeEmpty())

	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(func() int { return len(s.Requests(remediator.Example)) }).Should(BeZero())
	c.WaitIdle()
	s.FailNode("n-3")
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Remediating ")))
	decided(s, check, "n-3", Equal("Blocked ManagedByOtherCheck"))
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
}

// Cluster API's controller reconciles an in-tree check that is not adopted. It is responsible for its Machines as one of Remedy is.
func TestResponsible_InTreeCheckNotAdopted_ComesFirst(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.CreateMachine(name)
	}
	ownNodes(s, "m-1", "m-2", "m-3")
	inTree := s.CreateInTreeCheck("in-tree")
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.FailNode("m-3")
	decided(s, check, "m-3", Equal("Blocked ManagedByOtherCheck"))
	s.Expect(stage.OfNodes(stage.CheckMessage(remedyv1.SelectorsDisjointCondition))(check)).To(ContainSubstring("in-tree"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())

	s.Expect(s.Admin.Delete(s.Ctx, inTree)).To(Succeed())
	s.WaitRequest(remediator.Example, s.NodeName("m-3"))
}

// In a management cluster that manages itself, a check without a Cluster and one with its Cluster are about the same Nodes.
func TestResponsible_SelfHostedTwoNodeHealthChecks_FirstByName(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithSelfHosted)
	s.CreateOwnMachines("m-1", "m-2", "m-3")
	first := s.CreateNodeCheck("a")
	second := s.CreateNodeCheck("b", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.ClusterRef = &remedyv1.ClusterReference{Namespace: s.Namespace, Name: "prod"}
	})
	c := s.Start()
	s.Eventually(stage.Get(s, second)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.FailNode("m-3")
	decided(s, second, "m-3", Equal("Blocked ManagedByOtherCheck"))
	decided(s, first, "m-3", Equal("Remediating "))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(HaveLen(1))
}
