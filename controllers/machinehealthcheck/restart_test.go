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

// TestWhatCannotBeReadAtTheStartIsNoStorm: nobody is known to be healthy then, and that is not because anybody is sick.
func TestWhatCannotBeReadAtTheStartIsNoStorm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	role := s.allow(nodeRights, leaseRights)
	s.machine("m-1")
	s.machine("m-2")
	asked := s.machine("m-3")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		cooldown := lasting(time.Hour)
		spec.MaxUnhealthy, spec.StormCooldownDuration = ptr.To(intstr.FromInt32(1)), &cooldown
	})
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(3)))
	c.settle()
	c.Crash()
	c.stop()
	s.reallow(role, &corev1.Node{}, leaseRights)
	c = s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False NodesUnreadable")))
	s.Expect(message(remedyv1.ClusterReachableCondition)(check)).To(And(ContainSubstring("No Node can be read: "), Or(ContainSubstring("have not arrived yet"), ContainSubstring("may not read that"))))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False ClusterUnreachable"))
	c.pass()
	s.Expect(get(s, check)().Annotations).ToNot(HaveKey(remedyv1.StormSinceAnnotation))

	// When everybody is read, everything is as it was.
	s.reallow(role, nil, nodeRights, leaseRights)
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(3)))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("True RemediationAllowed"))
	s.annotate(asked, clusterv1.RemediateMachineAnnotation, "yes")
	s.Eventually(get(s, asked)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}

// TestOldRequestsAreFoundInEveryVersion: the check was changed while nobody looked, and its requests were made in a version that their group serves, and does
// not prefer. The kind that is preferred there is another one.
func TestOldRequestsAreFoundInEveryVersion(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	kind := s.convertible()
	s.Expect(management.InstallCRDObjects(remediator.NewKind(kind.Group, "v3", "OtherRemediation").CRDs()...)).To(Succeed())
	s.sick("m-1")
	check := s.check("workers", by(s.template(kind, "soft")))
	c := s.start()
	s.requested(kind, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	c.settle()
	c.Crash()
	c.stop()
	s.change(check, func() { check.Spec.RemediationTemplate = nil })
	s.changeStatus(check, func() { check.Status.UnhealthyTargets = nil })
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	s.start()
	s.Eventually(s.checks).Should(BeEmpty())
	s.Expect(s.request(kind, "m-1")()).To(BeNil(), "it is not left behind")
}

// TestRightsThatComeAfterTheStartAreUsed: the right to a kind that the check does not name any more is missing at the start, and given later.
func TestRightsThatComeAfterTheStartAreUsed(t *testing.T) { //nolint:paralleltest // checks of other tests would wait for that right, too.
	s := newStage(t, withClock)
	kind := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.sick("m-1")
	check := s.check("workers", by(s.template(kind, "soft")))
	c := s.start()
	s.requested(kind, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	c.settle()
	c.Crash()
	c.stop()
	s.revoke(kind)
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.sick("m-2")
	other := s.template(remediator.Metal3, "other")
	s.change(check, func() { check.Spec.RemediationTemplate = other })
	s.changeStatus(check, func() { check.Status.UnhealthyTargets = nil })
	s.start()
	s.requested(remediator.Metal3, "m-2")
	s.Expect(s.request(kind, "m-1")()).ToNot(BeNil())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() any {
		s.wait(16 * time.Second)
		return s.request(kind, "m-1")()
	}).Should(BeNil())
}
