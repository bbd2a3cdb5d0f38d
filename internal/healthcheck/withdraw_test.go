// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Each of these changes ends a request without recovery: the remediator gets the timed-out annotation, and the Machine keeps no condition
// or annotation.
func TestRequest_NoLongerWanted_IsWithdrawn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine){
		"check deleted": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
		},
		"other labels": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.Change(m, func() { m.Labels["pool"] = "others" })
		},
		"other selector": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
		},
		"observe mode": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
		},
		"remediation skipped": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.Annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"owner remediation": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			// Without an owner, remediation is blocked.
			s.Change(m, func() { m.OwnerReferences = nil })
			s.Change(check, func() { check.Spec.RemediationTemplate = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			unhealthy := s.CreateMachine("m-1")
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.FenceAgents, "soft")))
			s.Start()
			s.WaitRequest(remediator.FenceAgents, "m-1")
			s.Remediate(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(stage.Get(s, unhealthy)).
				Should(WithTransform(stage.MachineCondition("ExternallyRemediated"), Equal("False WaitingForRemediation")))
			change(s, check, unhealthy)
			s.Eventually(func() bool { return s.Request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
			s.Expect(s.Request(remediator.FenceAgents, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
			s.Remediate(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(s.Request(remediator.FenceAgents, "m-1")).Should(BeNil())
			s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.MachineCondition("ExternallyRemediated"), BeEmpty()))
			if check.Spec.RemediationTemplate == nil {
				return
			}
			s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), BeEmpty()))
			s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.Annotations, Not(HaveKey(HavePrefix(remedyv1.Prefix)))))
			s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).
				Should(Or(BeEmpty(), HaveEach(HaveField("Finalizers", BeEmpty()))))
		})
	}
}

// The request of the earlier template is withdrawn. The next one is created when it no longer exists.
func TestRequest_OtherTemplate_IsReplaced(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(remediator.FenceAgents))
		s.Start()
		s.Eventually(s.requestOf(remediator.FenceAgents, "m-1")).ShouldNot(BeNil())
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		check.setTemplate(remediator.Metal3)
		s.Eventually(beingDeleted(s.requestOf(remediator.FenceAgents, "m-1"))).Should(BeTrue())
		s.Expect(s.requestOf(remediator.Metal3, "m-1")()).To(BeNil())
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		s.Eventually(s.requestOf(remediator.Metal3, "m-1")).ShouldNot(BeNil())
		s.Expect(s.requestOf(remediator.FenceAgents, "m-1")()).To(BeNil())
	})
}

func TestRequest_MachineDeleted_IsWithdrawn(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.FenceAgents, "soft")))
	s.Start()
	s.WaitRequest(remediator.FenceAgents, "m-1")
	s.Remediate(remediator.FenceAgents, remediator.Hangs)
	s.Expect(s.Admin.Delete(s.Ctx, unhealthy)).To(Succeed())
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	s.Eventually(func() bool {
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		return s.Request(remediator.FenceAgents, "m-1")() == nil
	}).Should(BeTrue())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", BeEmpty()))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(outcomes, Equal([]string{"m-1 Replaced"})))
}

func TestRequest_MachineBeingDeleted_IsNotCreated(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1", func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/keeper"} })
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Expect(s.Admin.Delete(s.Ctx, unhealthy)).To(Succeed())
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")))
	c := s.Start()
	s.Eventually(
		stage.Get(s, check),
	).Should(
		WithTransform(stage.Decision("m-1"), Or(Equal("Blocked Terminating"), Equal("Blocked StuckDeleting"))),
	)
	c.WaitIdle()
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
	s.SetFinalizers(unhealthy)
}

// A user requests a remediation by an annotation. It is not repeated before the user removes the annotation.
func TestRemediateAnnotation_NotRemoved_RemediatesOnce(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := s.CreateMachine("m-1")
	check := s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.FenceAgents, "soft")))
	s.Annotate(m, clusterv1.RemediateMachineAnnotation, "")
	s.Change(m, func() { m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""} })
	c := s.Start()
	request := s.WaitRequest(remediator.FenceAgents, "m-1")
	s.Remediate(remediator.FenceAgents, remediator.Succeeds)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked AnnotationNotRemoved")))
	s.Advance(time.Hour)
	c.WaitIdle()
	s.Expect(s.Request(remediator.FenceAgents, "m-1")().GetUID()).To(Equal(request.GetUID()), "the remediation is not repeated")

	// The user removes the annotation.
	s.Annotate(m, clusterv1.RemediateMachineAnnotation, "")
	s.Eventually(func() bool {
		s.Remediate(remediator.FenceAgents, remediator.Succeeds)
		return s.Request(remediator.FenceAgents, "m-1")() == nil
	}).Should(BeTrue())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
}

// Another object has the name of a request. It is not touched, other targets are remediated, and its deletion is noticed.
func TestRequest_NameTaken_IsNotTouched(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2")
		foreign := s.first.NewRequest(s.Namespace, s.name("m-1"))
		s.Create(foreign)
		check := s.createCheck()
		s.Start()
		s.waitRequest("m-2")
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked RequestNameConflict"))
		s.Expect(s.request("m-1")().GetUID()).To(Equal(foreign.GetUID()))
		s.Expect(s.Admin.Delete(s.Ctx, foreign)).To(Succeed())
		s.Eventually(func() map[string]string {
			if request := s.request("m-1")(); request != nil {
				return request.GetAnnotations()
			}
			return nil
		}).Should(HaveKey(remedyv1.CheckAnnotation))
	})
}

// One reconcile starts all remediations that are allowed.
func TestReconcile_ManyUnhealthyMachines_StartsAllAtOnce(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7")
		s.createCheck()
		c := s.Start()
		s.Eventually(func() int { return len(s.Requests(s.first)) }).Should(Equal(7))
		c.WaitIdle()
		// A reconcile ends with the status of the check.
		creates, reconciles, creating := 0, 0, false
		for _, w := range c.Writes() {
			switch {
			case w.Verb == "create" && w.Resource == s.first.Plural:
				creates++
				if !creating {
					reconciles, creating = reconciles+1, true
				}
			case strings.HasPrefix(s.checks, w.Resource) && w.Subresource == "status":
				creating = false
			}
		}
		s.Expect(creates).To(Equal(7))
		s.Expect(reconciles).To(Equal(1))
	})
}
