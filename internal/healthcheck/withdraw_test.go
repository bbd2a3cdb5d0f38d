// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Each of these changes ends a request without recovery, and the target keeps no condition or annotation.
func TestRequest_NoLongerWanted_IsWithdrawn(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kindCheck){
		"check deleted":       (*kindCheck).delete,
		"other labels":        func(c *kindCheck) { c.s.moveTo("m-1", "others") },
		"other selector":      (*kindCheck).selectOthers,
		"observe mode":        (*kindCheck).observe,
		"remediation skipped": func(c *kindCheck) { c.s.Annotate(c.s.target("m-1"), c.s.skip, "yes") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				check := withdrawRequest(s, change)
				s.waitMachineCondition("m-1", "HealthCheckSucceeded", "")
				s.Eventually(s.annotations("m-1")).ShouldNot(HaveKey(And(HavePrefix(remedyv1.Prefix), Not(Equal(s.skip)))))
				s.Eventually(check.finalizers).Should(BeEmpty())
			})
		})
	}
	t.Run("owner remediation", func(t *testing.T) {
		t.Parallel()
		withdrawRequest(newKindStage(t, false), func(c *kindCheck) {
			// Without an owner, remediation is blocked.
			m, check := c.s.target("m-1"), c.Object.(*remedyv1.MachineHealthCheck)
			c.s.Change(m, func() { m.SetOwnerReferences(nil) })
			c.s.Change(check, func() { check.Spec.RemediationTemplate = nil })
		})
	})
}

// startHanging starts the remediation of a target by a remediator that does not finish.
func startHanging(s *kindStage) *kindCheck {
	s.T.Helper()
	s.first = s.soft
	s.createUnhealthy("m-1")
	check := s.createCheck()
	s.Start()
	s.waitRequest("m-1")
	s.Remediate(s.first, remediator.Hangs)
	return check
}

// withdrawRequest makes a change that ends a request. The remediator gets the timed-out annotation.
func withdrawRequest(s *kindStage, change func(*kindCheck)) *kindCheck {
	s.T.Helper()
	check := startHanging(s)
	s.waitMachineCondition("m-1", "ExternallyRemediated", "False WaitingForRemediation")
	s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
	change(check)
	s.Eventually(beingDeleted(s.request("m-1"))).Should(BeTrue())
	s.Expect(s.request("m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	s.Remediate(s.first, remediator.Hangs)
	s.Eventually(s.request("m-1")).Should(BeNil())
	s.waitMachineCondition("m-1", "ExternallyRemediated", "")
	return check
}

// The request of the earlier template is withdrawn. The next one is created when it no longer exists.
func TestRequest_OtherTemplate_IsReplaced(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(s.soft))
		s.Start()
		s.Eventually(s.requestOf(s.soft, "m-1")).ShouldNot(BeNil())
		s.Remediate(s.soft, remediator.Hangs)
		check.setTemplate(s.hard)
		s.Eventually(beingDeleted(s.requestOf(s.soft, "m-1"))).Should(BeTrue())
		s.Expect(s.requestOf(s.hard, "m-1")()).To(BeNil())
		s.Remediate(s.soft, remediator.Hangs)
		s.Eventually(s.requestOf(s.hard, "m-1")).ShouldNot(BeNil())
		s.Expect(s.requestOf(s.soft, "m-1")()).To(BeNil())
	})
}

func TestRequest_MachineDeleted_IsWithdrawn(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		if s.ofNodes {
			// Fence-agents-remediation would keep its request until the Node exists again.
			s.soft = remediator.SelfNode
		}
		check := startHanging(s)
		s.Expect(s.Admin.Delete(s.Ctx, s.target("m-1"))).To(Succeed())
		if !s.ofNodes {
			s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
		}
		// A remediator that reports the missing Node before would have failed.
		s.Eventually(beingDeleted(s.request("m-1"))).Should(BeTrue())
		s.Eventually(func() any {
			s.Remediate(s.first, remediator.Hangs)
			return s.request("m-1")()
		}).Should(BeNil())
		s.Eventually(check.finalizers).Should(BeEmpty())
		s.Eventually(check.outcomes).Should(Equal([]string{"m-1 Replaced"}))
	})
}

func TestRequest_MachineBeingDeleted_IsNotCreated(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		target := s.target("m-1")
		s.Change(target, func() { target.SetFinalizers([]string{"example.com/keeper"}) })
		s.Expect(s.Admin.Delete(s.Ctx, target)).To(Succeed())
		check := s.createCheck()
		c := s.Start()
		s.Eventually(check.decision("m-1")).Should(Or(Equal("Blocked Terminating"), Equal("Blocked StuckDeleting")))
		c.WaitIdle()
		s.Expect(s.Requests(s.first)).To(BeEmpty())
		s.Change(target, func() { target.SetFinalizers(nil) })
	})
}

// A user requests a remediation by an annotation. It is not repeated before the user removes the annotation.
func TestRemediateAnnotation_NotRemoved_RemediatesOnce(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.first = s.soft
		s.createTargets("m-1")
		check, target := s.createCheck(), s.target("m-1")
		s.Change(target, func() { target.SetAnnotations(map[string]string{s.remediate: ""}) })
		c := s.Start()
		request := s.waitRequest("m-1")
		s.Remediate(s.first, remediator.Succeeds)
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked AnnotationNotRemoved"))
		s.Advance(time.Hour)
		c.WaitIdle()
		s.Expect(s.request("m-1")().GetUID()).To(Equal(request.GetUID()), "the remediation is not repeated")

		// The user removes the annotation.
		s.Annotate(target, s.remediate, "")
		s.Eventually(func() any {
			s.Remediate(s.first, remediator.Succeeds)
			return s.request("m-1")()
		}).Should(BeNil())
		s.Eventually(check.healthy).Should(Equal(1))
	}, stage.WithClock)
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
	// The clock stands still: a preflight check stays valid, however slow the machine is.
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
		// A write that has conflicted is repeated by another reconcile.
		s.Expect(reconciles).To(BeNumerically("<=", 2))
	}, stage.WithClock)
}
