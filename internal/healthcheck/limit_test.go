// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// 40% of three Machines is 1, and 40% of two is 0. A Machine is deleted and replaced: that is no limit of 0. Then one is deleted and not
// replaced.
func TestMaxUnhealthy_MachineReplaced_IsNotZero(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	old := s.CreateMachine("m-3")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromString("40%")) })
	var zero atomic.Bool
	c := s.StartInterrupted(func(_ *http.Request, body string) bool {
		if strings.Contains(body, remedyv1.LimitIsZeroReason) {
			zero.Store(true)
		}
		return false
	}, nil)
	allowed := WithTransform(stage.CheckCondition(remedyv1.RemediationAllowedCondition), Equal("True "+remedyv1.RemediationAllowedReason))
	healthy := func(n int) {
		s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(n)))
		c.WaitIdle()
		s.Expect(stage.Get(s, check)()).To(allowed)
		s.Expect(zero.Load()).To(BeFalse())
	}
	healthy(3)
	s.Expect(s.Admin.Delete(s.Ctx, old)).To(Succeed())
	healthy(2)
	healed := s.CreateMachine("m-4")
	healthy(3)

	s.Expect(s.Admin.Delete(s.Ctx, healed)).To(Succeed())
	healthy(2)
	s.Advance(time.Minute)
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.RemediationAllowedCondition), Equal("False "+remedyv1.LimitIsZeroReason)))
}

// A check with 49% of two Machines never remediates. It reports that while all Machines are healthy, before a remediation is needed.
func TestMaxUnhealthy_RoundsDownToZero_IsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromString("49%")) })
	c := s.Start()
	zero := "False " + remedyv1.LimitIsZeroReason
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.RemediationAllowedCondition), Equal(zero)))
	s.Expect(stage.CheckMessage(remedyv1.RemediationAllowedCondition)(check)).To(ContainSubstring("Set maxUnhealthy to at least 1"))
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition),
			Equal(stage.IsUnhealthy)), "the health is reported although remediation is not allowed")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked TooManyUnhealthy")))
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal(zero))
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())

	s.Change(check, func() { check.Spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
}
