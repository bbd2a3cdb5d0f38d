// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A MachineHealthCheck has precedence over a NodeHealthCheck, but it does not interrupt a remediation that the NodeHealthCheck has started.
func TestOverlap_NodeHealthCheckInFlight_BlocksTheMachine(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	nodeCheck := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	nodeCheck.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: s.Namespace, Name: "prod"}
	nodeCheck.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: s.Namespace}
	nodeCheck.Spec.RemediationTemplate.TemplateKind = remedyv1.TemplateKind{
		APIVersion: "medik8s.io/v1alpha1",
		Kind:       "AnyRemediationTemplate",
		Name:       "any",
	}
	s.Create(nodeCheck)
	t.Cleanup(func() { s.Expect(s.Admin.Delete(s.Ctx, nodeCheck)).To(Succeed()) })
	s.ChangeStatus(nodeCheck, func() {
		nodeCheck.Status.InFlightRemediations = map[string]metav1.Time{s.NodeName("m-1"): metav1.Now()}
	})
	blocked, other := s.CreateUnhealthyMachine("m-1"), s.CreateUnhealthyMachine("m-2")
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, other)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)),
			"the NodeHealthCheck has not started to remediate this Node")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked ManagedByOtherCheck")))
	s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(check)).To(Equal("False SelectorsOverlap"))
	s.Expect(stage.CheckMessage(remedyv1.SelectorsDisjointCondition)(check)).To(ContainSubstring("NodeHealthCheck " + s.Namespace))
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, blocked)())).To(BeEmpty())
	s.Expect(stage.Annotations(blocked)).ToNot(HaveKey(remedyv1.MarkedByAnnotation))

	// Only this change wakes the MachineHealthCheck.
	s.ChangeStatus(nodeCheck, func() { nodeCheck.Status.InFlightRemediations = nil })
	s.Eventually(stage.Get(s, blocked)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
}
