// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestWhatHappenedWhileNobodyLookedIsSeenAtTheStart: what was left behind by an earlier process is cleaned up, whatever has become of the check.
func TestWhatHappenedWhileNobodyLookedIsSeenAtTheStart(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck){
		"the check was deleted": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		},
		"the Machine has recovered": func(s *stage, _ *remedyv1.MachineHealthCheck) {
			s.ready("m-1", corev1.ConditionTrue, 0)
		},
		"the template was exchanged, and the status was lost": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.ready("m-1", corev1.ConditionTrue, 0)
			other := s.template(remediator.Metal3, "other")
			s.change(check, func() { check.Spec.RemediationTemplate = other })
			s.changeStatus(check, func() { check.Status.UnhealthyTargets = nil })
		},
		"owners remediate now, the status was lost, and the check was deleted": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.change(check, func() { check.Spec.RemediationTemplate = nil })
			s.changeStatus(check, func() { check.Status.UnhealthyTargets = nil })
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.sick("m-1")
			check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
			c := s.start()
			s.requested(remediator.FenceAgents, "m-1")
			s.acts(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
			c.settle()
			c.Crash()
			c.stop()
			meanwhile(s, check)
			s.start()
			s.Eventually(func() bool { return s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
			s.Expect(s.checks()).To(ConsistOf(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer))), "there is something to clean up")
			s.acts(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(s.request(remediator.FenceAgents, "m-1")).Should(BeNil())
			s.Eventually(s.checks).Should(Or(BeEmpty(), ConsistOf(HaveField("Finalizers", BeEmpty()))))
		})
	}
}
