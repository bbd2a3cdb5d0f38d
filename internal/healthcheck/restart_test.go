// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The request of an earlier process is withdrawn, whatever has changed while no instance was running.
func TestRestart_ChangesWhileDown_AreHandled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kindCheck){
		"check deleted":    (*kindCheck).delete,
		"target recovered": func(check *kindCheck) { check.s.SetReady("m-1", corev1.ConditionTrue, 0) },
		"other template and status lost": func(check *kindCheck) {
			check.s.SetReady("m-1", corev1.ConditionTrue, 0)
			check.setTemplate(check.s.hard)
			check.loseStatus()
		},
		"other template, status lost and check deleted": func(check *kindCheck) {
			check.setTemplate(check.s.hard)
			check.loseStatus()
			check.delete()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				s.createUnhealthy("m-1")
				check := s.createCheck(inSteps(s.soft))
				c := s.Start()
				request := s.requestOf(s.soft, "m-1")
				s.Eventually(request).ShouldNot(BeNil())
				s.Remediate(s.soft, remediator.Hangs)
				s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
				c.WaitIdle()
				c.Crash()
				c.Stop()
				change(check)
				s.Start()
				s.Eventually(beingDeleted(s.requestOf(s.soft, "m-1"))).Should(BeTrue())
				s.Expect(check.finalizers()).To(ConsistOf(remedyv1.CleanupFinalizer), "the check has a request to clean up")
				s.Remediate(s.soft, remediator.Hangs)
				s.Eventually(request).Should(BeNil())
				s.Eventually(check.finalizers).Should(BeEmpty())
			})
		})
	}
}

// No Machine is known to be healthy when the Nodes cannot be read. That is not a storm, because no Machine is known to be unhealthy either.
func TestRestart_NodesUnreadable_IsNoStorm(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	role := useRestrictedUser(s, readNodes, readLeases)
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	annotated := s.CreateMachine("m-3")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		cooldown := stage.Duration(time.Hour)
		spec.MaxUnhealthy, spec.StormCooldownDuration = ptr.To(intstr.FromInt32(1)), &cooldown
	})
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(3)))
	c.WaitIdle()
	c.Crash()
	c.Stop()
	changePermissions(s, role, &corev1.Node{}, readLeases)
	c = s.Start()
	c.NeverIdle = true
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "False NodesUnreadable")
	s.Expect(stage.CheckMessage(remedyv1.ClusterReachableCondition)(check)).
		To(And(ContainSubstring("Nodes cannot be read: "),
			Or(ContainSubstring("has not read the Nodes"), ContainSubstring("lacks a permission"))))
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False ClusterUnreachable"))
	c.ReconcileAll()
	s.Expect(stage.Get(s, check)().Annotations).ToNot(HaveKey(remedyv1.StormSinceAnnotation))

	// When the Nodes can be read again, remediation is allowed as before.
	changePermissions(s, role, nil, readNodes, readLeases)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(3)))
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("True RemediationAllowed"))
	s.Annotate(annotated, clusterv1.RemediateMachineAnnotation, "yes")
	s.WaitMachineCondition(annotated, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// The check was changed while no instance was running. Its request has a version that its group serves but does not prefer. The preferred
// version of the group has another kind.
func TestRestart_RequestsInOtherVersion_AreFound(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.first = installConvertibleKind(s.Stage)
		s.Expect(stage.Management.InstallCRDObjects(remediator.NewKind(s.first.Group, "v3", "OtherRemediation").CRDs()...)).To(Succeed())
		s.createUnhealthy("m-1")
		check := s.createCheck()
		c := s.Start()
		s.waitRequest("m-1")
		s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
		c.WaitIdle()
		c.Crash()
		c.Stop()
		check.setTemplate(s.hard)
		check.loseStatus()
		check.delete()
		s.Start()
		s.Eventually(check.finalizers).Should(BeEmpty())
		s.Expect(s.request("m-1")()).To(BeNil(), "the request is deleted")
	})
}

// The permission on a kind that the check does not name any more is missing at the start, and is granted later.
func TestRestart_PermissionGrantedLater_IsUsed(t *testing.T) { //nolint:paralleltest // other tests would wait for that permission
	s := stage.New(t, stage.WithClock)
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(kind, "soft")))
	c := s.Start()
	s.WaitRequest(kind, "m-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	c.WaitIdle()
	c.Crash()
	c.Stop()
	s.Revoke(kind)
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.CreateUnhealthyMachine("m-2")
	other := s.CreateTemplate(remediator.Metal3, "other")
	s.Change(check, func() { check.Spec.RemediationTemplate = other })
	s.ChangeStatus(check, func() { check.Status.UnhealthyTargets = nil })
	s.Start()
	s.WaitRequest(remediator.Metal3, "m-2")
	s.Expect(s.Request(kind, "m-1")()).ToNot(BeNil())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() any {
		s.Advance(16 * time.Second)
		return s.Request(kind, "m-1")()
	}).Should(BeNil())
}
