// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// remediating starts the remediation of the Node n-3 by a remediator that does not finish.
func remediating(
	s *stage.Stage,
	changes ...func(*remedyv1.NodeHealthCheckSpec),
) (*corev1.Node, *remedyv1.NodeHealthCheck, *stage.Instance) {
	s.T.Helper()
	node := createNodes(s)
	check := s.CreateNodeCheck("workers", changes...)
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.Stop)
	decided(s, check, "n-3", Equal("Remediating "))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(1)))
	return node, check, c
}

// isDeleting reports whether the request for the Node n-3 is being deleted.
func isDeleting(s *stage.Stage, kind remediator.Kind) func() bool {
	return func() bool { return s.NodeRequest(kind, "n-3")().GetDeletionTimestamp() != nil }
}

// A Node that joins again under its name is the same server. It gets no request while the one for the earlier Node exists, also if the
// check names another kind or another namespace now.
func TestNameConflict_NodeJoinsAgain_WaitsForTheEarlierRequest(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*stage.Stage, *remedyv1.NodeHealthCheckSpec){
		"other kind": func(s *stage.Stage, spec *remedyv1.NodeHealthCheckSpec) {
			spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "other")
		},
		"other namespace": func(s *stage.Stage, spec *remedyv1.NodeHealthCheckSpec) {
			namespace := s.Namespace + "-other"
			s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
			s.Create(remediator.FenceAgents.NewTemplate(namespace, "workers", map[string]any{"agent": "fence_ipmilan"}))
			spec.RemediationTemplate.Namespace = namespace
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAllNamespaces)
			node, check, c := remediating(s)
			s.Remediate(remediator.FenceAgents, remediator.Hangs)
			s.Expect(s.Admin.Delete(s.Ctx, node)).To(Succeed())
			s.Eventually(isDeleting(s, remediator.FenceAgents)).Should(BeTrue())
			s.Change(check, func() { change(s, &check.Spec) })
			s.CreateUnhealthyNode("n-3")
			decided(s, check, "n-3", Equal("Blocked RequestNameConflict"))
			// The remediator still acts on the server.
			c.ReconcileAll()
			s.Expect(c.AllWrites()).ToNot(ContainElement(And(HaveField("Verb", "delete"), HaveField("Resource", HavePrefix("leases")))))
			s.Expect(holder(s)()).To(Equal("NodeHealthCheck//" + check.Name))
			s.SetRequestFinalizers(s.NodeRequest(remediator.FenceAgents, "n-3")())
			decided(s, check, "n-3", Equal("Remediating "))
		})
	}
}

// The request of a MachineHealthCheck that is being deleted still runs, so the NodeHealthCheck waits for its end.
func TestResponsible_RequestForMachine_KeepsItsNode(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyMachine("m-3")
	ownNodes(s, "m-3")
	machines := s.CreateCheck("machines", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "metal3")))
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.WaitRequest(remediator.Metal3, "m-3")
	s.Remediate(remediator.Metal3, remediator.Hangs)
	s.Expect(s.Admin.Delete(s.Ctx, machines)).To(Succeed())
	s.Eventually(func() *metav1.Time { return s.Request(remediator.Metal3, "m-3")().GetDeletionTimestamp() }).ShouldNot(BeNil())
	c.WaitIdle()
	decided(s, check, "m-3", Equal("Blocked ManagedByOtherCheck"))
	s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
	s.SetRequestFinalizers(s.Request(remediator.Metal3, "m-3")())
	s.WaitRequest(remediator.Example, s.NodeName("m-3"))
}

// clusterctl move deletes the Cluster while a manager of another management cluster continues with the requests in the workload cluster.
func TestWorkloadLocation_ClusterIsMoved_RequestIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	_, check, c := remediating(s, inWorkload(s))
	c.NeverIdle = true
	s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
	s.Eventually(
		stage.Get(s, check),
	).Should(
		WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.PausedCondition)), Equal("True Paused")),
	)
	s.Expect(s.Admin.Delete(s.Ctx, s.Cluster)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", BeEmpty()))
	request := requestInWorkload(s)()
	s.Expect(request.GetDeletionTimestamp()).To(BeNil())
	s.Expect(request.GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
}

// Another operator may act on a Node as soon as its Lease is released, so it is held while requests cannot be read.
func TestNodeLease_RequestsUnreadable_IsHeld(t *testing.T) {
	s := stage.New(t, stage.WithAllNamespaces)
	_, check, first := remediating(s)
	first.StopIdle()
	s.Revoke(remediator.FenceAgents)
	t.Cleanup(func() { s.Expect(stage.Aggregate(s.Ctx, remediator.FenceAgents.Rules()...)).To(Succeed()) })
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.Stop)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.TemplatesResolvedCondition)), Equal("False Forbidden")))
	s.Eventually(func() bool { return c.Evaluated(check.Name) }).Should(BeTrue())
	s.Expect(holder(s)()).To(Equal("NodeHealthCheck//" + check.Name))
	s.Expect(check.Status.InFlightRemediations).To(HaveLen(1))
}

// Without the Leases no remediation starts, but the request for a healthy Node is deleted.
func TestNodeLease_Unreadable_RequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	_, _, first := remediating(s, rebooting(s))
	first.StopIdle()
	restricted(s, "nodes")
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(s.NodeRequest(remediator.Example, "n-3")).Should(BeNil())
}

// The Lease is released with the request, also if the check does not select the Node any more.
func TestNodeLease_NodeUnselected_IsReleased(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	remediating(s)
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	s.ChangeNode("n-3", func(node *corev1.Node) { node.Labels = nil })
	s.Eventually(isDeleting(s, remediator.FenceAgents)).Should(BeTrue())
	s.SetRequestFinalizers(s.NodeRequest(remediator.FenceAgents, "n-3")())
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
	s.Eventually(holder(s)).Should(BeEmpty())
}

// The Lease of one Node is released while the check still remediates another one.
func TestNodeLease_OneOfTwoUnselected_IsReleased(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	s.CreateNode("n-1")
	for _, name := range []string{"n-2", "n-3"} {
		s.CreateUnhealthyNode(name)
	}
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromString("100%")) })
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.Stop)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveLen(2)))
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	s.Expect(holder(s)()).To(Equal("NodeHealthCheck//" + check.Name))
	s.ChangeNode("n-3", func(node *corev1.Node) { node.Labels = nil })
	s.Eventually(isDeleting(s, remediator.FenceAgents)).Should(BeTrue())
	s.Expect(holder(s)()).To(Equal("NodeHealthCheck//" + check.Name))
	s.SetRequestFinalizers(s.NodeRequest(remediator.FenceAgents, "n-3")())
	s.Eventually(holder(s)).Should(BeEmpty())
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-2")()).ToNot(BeNil())
}

// A user who can create objects in a namespace without a template of the check cannot keep the check from being deleted.
func TestCleanup_ForgedRequest_DoesNotKeepTheCheck(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	_, check, _ := remediating(s)
	namespace := s.Namespace + "-tenant"
	s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	forged := remediator.FenceAgents.NewRequest(namespace, "any")
	forged.SetAnnotations(map[string]string{remedyv1.CheckAnnotation: "NodeHealthCheck//" + check.Name})
	forged.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "any", UID: "any"}})
	s.Create(forged)
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() bool {
		return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), &remedyv1.NodeHealthCheck{}) != nil
	}).Should(BeTrue())
	s.Expect(s.Admin.Delete(s.Ctx, forged)).To(Succeed())
}

// The request in the management cluster is withdrawn although its Node cannot be read. The Node keeps its remediation history.
func TestCleanup_ClusterUnreachable_RequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy)
	createNodes(s)
	s.ChangeNode("n-3", func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, remedyv1.AttemptsAnnotation, "1")
	})
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	c.NeverIdle = true
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(
		stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False ClusterUnreachable")))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(s.NodeRequest(remediator.Example, "n-3")).Should(BeNil())
	s.Eventually(func() bool {
		return s.Admin.Get(s.Ctx, client.ObjectKeyFromObject(check), &remedyv1.NodeHealthCheck{}) != nil
	}).Should(BeTrue())
	s.Expect(s.Node("n-3").Annotations).To(HaveKeyWithValue(remedyv1.AttemptsAnnotation, "1"))
}

// A request of Metal3 has the Machine of its Node as an owner, also if another step has its template in another namespace.
func TestRequest_StepsInTwoNamespaces_HasTheMachineAsOwner(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyMachine("m-3")
	ownNodes(s, "m-3")
	first := s.CreateNodeTemplate(remediator.Metal3, "first")
	second := *first
	second.Namespace = "elsewhere"
	s.CreateNodeCheck("workers", stage.NodeSteps(first, &second))
	s.Start()
	s.Expect(s.WaitRequest(remediator.Metal3, s.NodeName("m-3")).GetOwnerReferences()).To(ContainElement(HaveField("Kind", "Machine")))
}
