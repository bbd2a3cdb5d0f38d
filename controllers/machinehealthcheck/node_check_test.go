// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestAMachineWhoseNodeACheckOfNodesIsAtIsLeftToItUntilItIsDone: a check of Machines comes first, but it does not interrupt.
func TestAMachineWhoseNodeACheckOfNodesIsAtIsLeftToItUntilItIsDone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rival := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	rival.Spec.ClusterRef = &remedyv1.ClusterReference{Namespace: s.namespace, Name: "prod"}
	rival.Spec.RemediationTemplate = &remedyv1.NodeTemplateReference{Namespace: s.namespace}
	rival.Spec.RemediationTemplate.TemplateKind = remedyv1.TemplateKind{APIVersion: "medik8s.io/v1alpha1", Kind: "AnyRemediationTemplate", Name: "any"}
	s.create(rival)
	t.Cleanup(func() { s.Expect(s.admin.Delete(s.ctx, rival)).To(Succeed()) })
	s.changeStatus(rival, func() { rival.Status.InFlightRemediations = map[string]metav1.Time{s.node("m-1"): metav1.Now()} })
	at, other := s.sick("m-1"), s.sick("m-2")
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, other)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)), "it only comes first where neither has begun")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held CoveredByOther")))
	s.Expect(tells(remedyv1.SelectorsDisjointCondition)(check)).To(Equal("False SelectorsOverlap"))
	s.Expect(message(remedyv1.SelectorsDisjointCondition)(check)).To(ContainSubstring("NodeHealthCheck " + s.namespace))
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, at)())).To(BeEmpty())
	s.Expect(annotations(at)).ToNot(HaveKey(remedyv1.MarkedByAnnotation))

	// Nothing else happens that would make anybody look again.
	s.changeStatus(rival, func() { rival.Status.InFlightRemediations = nil })
	s.Eventually(get(s, at)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}
