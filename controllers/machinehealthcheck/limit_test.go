// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestALimitThatComesToNothingIsTold: such a check never remediates anything. That is said while everything is well, and not only when it is too late.
func TestALimitThatComesToNothingIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.machine("m-1")
	s.machine("m-2")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromString("49%")) })
	c := s.start()
	zero := "False " + remedyv1.LimitIsZeroReason
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.RemediationAllowedCondition), Equal(zero)))
	s.Expect(message(remedyv1.RemediationAllowedCondition)(check)).To(ContainSubstring("Set maxUnhealthy to at least 1"))
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)), "health is told all the same")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held TooManyUnhealthy")))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal(zero))
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())

	s.change(check, func() { check.Spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}
