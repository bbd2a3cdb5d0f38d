// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func TestASickMachineIsHandedToItsOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick, well := s.machine("m-1"), s.machine("m-2")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers")
	s.start()
	s.Eventually(get(s, sick)).Should(WithTransform(says("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Expect(says("HealthCheckSucceeded")(sick)).To(Equal("False UnhealthyNode"))
	s.Expect(sick.Annotations).To(HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/workers"))
	s.Eventually(get(s, well)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []*int32 {
		return []*int32{c.Status.ExpectedMachines, c.Status.CurrentHealthy, c.Status.Remediating}
	}, HaveExactElements(HaveValue(BeEquivalentTo(2)), HaveValue(BeEquivalentTo(1)), HaveValue(BeEquivalentTo(1)))))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.OwnerReferences).To(HaveLen(1))

	// It is healthy again: the mark is the owner's to remove, and ours is true.
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))

	// The check goes, and leaves no mark behind.
	s.ready("m-2", corev1.ConditionFalse, 10*time.Minute)
	s.Eventually(get(s, well)).Should(WithTransform(says("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	s.Eventually(get(s, well)).Should(WithTransform(says("OwnerRemediated"), BeEmpty()))
	s.Eventually(get(s, well)).Should(WithTransform(func(m *clusterv1.Machine) map[string]string { return m.Annotations }, Not(HaveKey(remedyv1.MarkedByAnnotation))))
	s.Expect(says("HealthCheckSucceeded")(well)).To(BeEmpty())
}
