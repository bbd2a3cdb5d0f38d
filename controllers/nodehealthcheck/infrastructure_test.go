// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// In its older mode, metal3 deletes the Node in the middle of a reboot. The kubelet registers another one, which is the same server: the
// request continues until that is healthy.
func TestMetal3_NodeDeletion_IsNotInterrupted(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.NodeDeletion = true })
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyMachine("m-3")
	ownNodes(s, "m-3")
	deleted := s.Node("m-3")
	check := s.CreateNodeCheck("workers", stage.NodeSteps(s.CreateNodeTemplate(remediator.Metal3, "metal3")))
	c := s.Start()
	request := s.WaitRequest(remediator.Metal3, deleted.Name)
	decided(s, check, "m-3", Equal("Remediating "))
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{2, 2, 0})))
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.Metal3, "m-3")()).To(And(
		HaveField("GetDeletionTimestamp()", BeNil()), HaveField("GetAnnotations()", Not(HaveKey(remedyv1.TimedOutAnnotation)))))

	restored := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: deleted.Name}, Spec: corev1.NodeSpec{ProviderID: deleted.Spec.ProviderID}}
	s.Expect(s.Workload.Create(s.Ctx, restored)).To(Succeed())
	// Until metal3 has restored its labels, the check does not select it.
	c.WaitIdle()
	s.Remediate(remediator.Metal3, remediator.Succeeds)
	s.Expect(s.Node("m-3").Labels).To(HaveKey("pool"))
	s.Expect(s.NodeRequest(remediator.Metal3, "m-3")().GetUID()).To(Equal(request.GetUID()))
	s.SetReady("m-3", corev1.ConditionTrue, 0)
	s.Eventually(s.NodeRequest(remediator.Metal3, "m-3")).Should(BeNil())
	recovered := ConsistOf(HaveField("Outcome", remedyv1.RecoveredOutcome))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.RecentRemediations", recovered))
}

// The remediators of infrastructure providers find nothing without a Machine: metal3 fails for ever, and the others do nothing.
func TestInfrastructure_NodeWithoutMachine_IsBlocked(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	createNodes(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.HCloud, "reboot")
	})
	c := s.Start()
	decided(s, check, "n-3", Equal("Blocked NoMachine"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.HCloud)).To(BeEmpty())
}
