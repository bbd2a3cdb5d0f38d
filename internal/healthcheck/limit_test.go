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
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// 40% of three targets is 1, and 40% of two is 0. A target is deleted and replaced: that is no limit of 0. Then one is deleted and not
// replaced.
func TestMaxUnhealthy_MachineReplaced_IsNotZero(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createTargets("m-1", "m-2", "m-3")
		check := s.createCheck(maxUnhealthy("40%"))
		var zero atomic.Bool
		c := s.StartInterrupted(func(_ *http.Request, body string) bool {
			if strings.Contains(body, remedyv1.LimitIsZeroReason) {
				zero.Store(true)
			}
			return false
		}, nil)
		allowed := check.condition(remedyv1.RemediationAllowedCondition)
		healthy := func(n int) {
			s.Eventually(check.healthy).Should(Equal(n))
			c.WaitIdle()
			s.Expect(allowed()).To(Equal("True " + remedyv1.RemediationAllowedReason))
			s.Expect(zero.Load()).To(BeFalse())
		}
		healthy(3)
		s.Expect(s.Admin.Delete(s.Ctx, s.target("m-3"))).To(Succeed())
		healthy(2)
		s.createTargets("m-4")
		healthy(3)

		s.Expect(s.Admin.Delete(s.Ctx, s.target("m-4"))).To(Succeed())
		healthy(2)
		s.Advance(time.Minute)
		s.Eventually(allowed).Should(Equal("False " + remedyv1.LimitIsZeroReason))
	}, stage.WithClock)
}

// A check with 49% of two targets never remediates. It reports that while all targets are healthy, before a remediation is needed.
func TestMaxUnhealthy_RoundsDownToZero_IsReported(t *testing.T) {
	t.Parallel()
	forEachRemediation(t, func(s *kindStage) {
		s.createTargets("m-1", "m-2")
		check := s.createCheck(maxUnhealthy("49%"))
		c := s.Start()
		zero, allowed := "False "+remedyv1.LimitIsZeroReason, check.condition(remedyv1.RemediationAllowedCondition)
		s.Eventually(allowed).Should(Equal(zero))
		s.Expect(check.message(remedyv1.RemediationAllowedCondition)).To(ContainSubstring("Set maxUnhealthy to at least 1"))
		s.FailNode("m-1")
		// The health is reported although remediation is not allowed.
		s.waitMachineCondition("m-1", clusterv1.MachineHealthCheckSucceededCondition, stage.IsUnhealthy)
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked TooManyUnhealthy"))
		s.Expect(allowed()).To(Equal(zero))
		c.WaitIdle()
		s.Expect(s.remediation("m-1")()).To(BeEmpty())

		check.change(func(p parts) { p.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
		s.Eventually(s.remediation("m-1")).ShouldNot(BeEmpty())
	})
}
