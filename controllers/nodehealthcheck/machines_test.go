// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// createControlPlaneNodes creates a control plane whose Nodes a check selects.
func createControlPlaneNodes(s *stage.Stage, n int) []*clusterv1.Machine {
	s.T.Helper()
	machines := s.CreateControlPlane(n)
	for _, m := range machines {
		s.ChangeNode(m.Name, func(node *corev1.Node) { node.Labels = s.NodeLabels() })
	}
	return machines
}

// A Machine whose Node was deleted still is a member of etcd. A Node of the control plane that has no Machine can have a member, too, about
// which no owner reports. Without those members, the three others would keep quorum without one of them.
func TestControlPlane_NodeOrMachineAlone_IsEtcdMember(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*stage.Stage)
		nodes   int32
	}{
		"Machine without Node": {func(s *stage.Stage) {
			for _, m := range createControlPlaneNodes(s, 5)[3:] {
				s.SetEtcdMember(m, metav1.ConditionFalse)
				s.Expect(s.Workload.Delete(s.Ctx, s.Node(m.Name))).To(Succeed())
			}
		}, 3},
		"Node without Machine": {func(s *stage.Stage) {
			createControlPlaneNodes(s, 3)
			s.CreateNode("cp-4", func(node *corev1.Node) { node.Labels[workload.EtcdLabel] = "true" })
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t)
			test.prepare(s)
			check := s.CreateNodeCheck("workers", rebooting(s))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{test.nodes, test.nodes, 0})))
			s.FailNode("cp-1")
			decided(s, check, "cp-1", Equal("Blocked QuorumAtRisk"))
			c.WaitIdle()
			s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
		})
	}
}

// The cache does not show what happened to Machines. The preflight check of a Node reads its Machine and the members of etcd live.
func TestPreflight_MachineOfNodeChanged_BlocksRemediation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(s *stage.Stage, machines []*clusterv1.Machine)
		decides string
	}{
		"etcd member": {func(s *stage.Stage, machines []*clusterv1.Machine) {
			s.SetEtcdMember(machines[1], metav1.ConditionFalse)
		}, "Blocked QuorumAtRisk"},
		"deleted": {func(s *stage.Stage, machines []*clusterv1.Machine) {
			s.Expect(s.Admin.Delete(s.Ctx, machines[0])).To(Succeed())
		}, "Blocked PreflightFailed"},
		"being deleted": {func(s *stage.Stage, machines []*clusterv1.Machine) {
			s.SetFinalizers(machines[0], "example.com/keeper")
			s.T.Cleanup(func() { s.SetFinalizers(machines[0]) })
			s.Expect(s.Admin.Delete(s.Ctx, machines[0])).To(Succeed())
		}, "Blocked PreflightFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			stage.LockControlPlane(t)
			s := stage.New(t)
			machines := createControlPlaneNodes(s, 3)
			check := s.CreateNodeCheck("workers", rebooting(s))
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
			c.WaitIdle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			test.change(s, machines)
			s.Eventually(func() int { return c.Watches().BlockedBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
			s.FailNode("cp-1")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("cp-1"), Equal(test.decides)))
			s.Expect(s.Requests(remediator.Example)).To(BeEmpty())
			c.Watches().Release()
		})
	}
}

// A Node with another provider ID than its Machine may be another server. The connection is correct, and the other Nodes are remediated.
func TestProviderID_OneDiffers_OthersAreRemediated(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	other := s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	s.CreateMachine("m-3")
	ownNodes(s, "m-1", "m-2", "m-3")
	s.Change(other, func() { other.Spec.ProviderID += "-earlier" })
	s.ChangeNode("m-1", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.RemediateNodeAnnotation: "yes"} })
	s.FailNode("m-2")
	check := s.CreateNodeCheck("workers", rebooting(s))
	c := s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("m-2"))
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.Example, "m-1")()).To(BeNil())
	reachable := meta.FindStatusCondition(stage.Get(s, check)().Status.Conditions, remedyv1.ClusterReachableCondition)
	s.Expect(reachable).To(And(HaveField("Status", metav1.ConditionTrue),
		HaveField("Message", HaveSuffix("delete the Machines: "+s.NodeName("m-1")))))
}

// While an earlier Machine of a server is being deleted, the Node is that of the other one, whatever their names are.
func TestMachines_TwoNameOneNode_TheOneThatStaysHasIt(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	machine := s.CreateUnhealthyMachine("m-3")
	ownNodes(s, "m-1", "m-2", "m-3")
	earlier := s.CreateMachineWithoutNode("a-3", nil, func(m *clusterv1.Machine) {
		m.Spec.ProviderID, m.Finalizers = machine.Spec.ProviderID, []string{"test.invalid/keep"}
	})
	s.ChangeStatus(earlier, func() { earlier.Status.NodeRef = machine.Status.NodeRef })
	s.Expect(s.Admin.Delete(s.Ctx, earlier)).To(Succeed())
	t.Cleanup(func() { s.Change(earlier, func() { earlier.Finalizers = nil }) })
	s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Metal3, "metal3")
	})
	s.Start()
	s.WaitRequest(remediator.Metal3, s.NodeName("m-3"))
	s.Expect(s.NodeRequest(remediator.Metal3, "m-3")().GetOwnerReferences()).To(ContainElement(HaveField("UID", machine.UID)))
}

// noNodes reads the Nodes of the management cluster as a user without that permission.
type noNodes struct {
	next, forbidden http.RoundTripper
	revoked         *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (n noNodes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/v1/nodes" && n.revoked.Load() {
		return n.forbidden.RoundTrip(r)
	}
	return n.next.RoundTrip(r)
}

// The manager loses the permission to list Nodes of the management cluster. The check of these Nodes reports that, and the checks of
// workload clusters do not stop.
func TestNodes_ManagementForbidden_OthersGoOn(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithSelfHosted)
	s.CreateOwnMachines("m-1", "m-2", "m-3")
	local, machines := s.CreateNodeCheck("nodes"), s.CreateCheck("workers")
	forbidden, err := rest.TransportFor(stage.Management.ConfigOf(t, controlplane.User{Name: "without-permissions"}))
	s.Expect(err).ToNot(HaveOccurred())
	var revoked atomic.Bool
	user := s.User()
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return noNodes{next, forbidden, &revoked} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.Stop)
	s.Eventually(stage.Get(s, local)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	revoked.Store(true)
	message := stage.OfNodes(stage.CheckMessage(remedyv1.ClusterReachableCondition))
	// The watch is verified every 30 seconds.
	s.Eventually(stage.Get(s, local), 10*time.Minute).
		Should(WithTransform(message, ContainSubstring("lacks a permission in the management cluster")))
	s.FailNode("m-3")
	s.Eventually(stage.Get(s, machines)).Should(WithTransform(stage.Decision("m-3"), Equal("Remediating ")))
}
