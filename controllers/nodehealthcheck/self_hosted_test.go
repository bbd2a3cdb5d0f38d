// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// annotatedNode is an unhealthy Node of the management cluster on which its kubelet has written a Machine of the Cluster of the stage.
func annotatedNode(s *stage.Stage, machine, providerID string) {
	s.T.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.NodeName(machine), Labels: s.NodeLabels(),
			Annotations: map[string]string{
				clusterv1.ClusterNamespaceAnnotation: s.Namespace, clusterv1.ClusterNameAnnotation: "prod", clusterv1.MachineAnnotation: machine,
			},
		},
		Spec: corev1.NodeSpec{ProviderID: providerID},
	}
	s.Create(node)
	s.T.Cleanup(func() { s.Expect(s.Admin.Delete(context.Background(), node)).To(Succeed()) })
	s.ChangeStatus(node, func() {
		since := metav1.NewTime(time.Now().Add(-10 * time.Minute))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: since}}
	})
}

// ofManagementCluster makes a check one of the management cluster, where it selects a single Node.
func ofManagementCluster(spec *remedyv1.NodeHealthCheckSpec) {
	spec.ClusterRef, spec.MaxUnhealthy = nil, ptr.To(intstr.FromString("100%"))
}

// A kubelet of the management cluster writes the Cluster of a tenant on its Node, which has the name of a Node of that Cluster. The Machine
// of the tenant gets neither a request, nor does the remediation of that Node block its own.
func TestAnnotatedNode_OfOtherCluster_HasNoMachine(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithTenants)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	s.CreateMachine("m-3")
	annotatedNode(s, "m-3", "")
	healthy := s.CreateCheck("workers")
	check := s.CreateNodeCheck("own", ofManagementCluster, rebooting(s))
	infrastructure := s.CreateNodeCheck("z-infrastructure", ofManagementCluster, func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.HCloud, "reboot")
	})
	c := s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("m-3"))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveKey(s.NodeName("m-3"))))
	s.Expect(s.NodeRequest(remediator.Example, "m-3")().GetOwnerReferences()).ToNot(ContainElement(HaveField("Kind", "Machine")))

	s.FailNode("m-3")
	s.Eventually(stage.Get(s, healthy)).Should(WithTransform(stage.Decision("m-3"), Equal("Remediating ")))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	decided(s, infrastructure, "m-3", Equal("Blocked NoMachine"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.HCloud)).To(BeEmpty())
}

// In a management cluster that manages itself, a Node is that of a Machine only if both have the same provider ID.
func TestSelfHosted_NoProviderID_IsNotEvaluated(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithSelfHosted)
	s.CreateOwnMachines("m-1", "m-2")
	machine := s.CreateMachineWithoutNode("m-3", nil)
	s.ChangeStatus(machine, func() { machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: s.NodeName("m-3")} })
	annotatedNode(s, "m-3", "")
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedNodes", HaveValue(BeEquivalentTo(3))))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.Expect(stage.Get(s, check)().Status.Undetermined).To(HaveValue(BeEquivalentTo(1)))
}
