// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func stepOfRequest(request *unstructured.Unstructured) string {
	if request == nil {
		return ""
	}
	return request.GetAnnotations()[remedyv1.TemplateNameAnnotation] + " " + request.GetAnnotations()[remedyv1.StepAnnotation]
}

// remediationEvents are the events on a check about the start and the end of remediations.
func (c *kindCheck) remediationEvents() (all []string) {
	c.s.T.Helper()
	list := &corev1.EventList{}
	c.s.Expect(c.s.Admin.List(c.s.Ctx, list, client.MatchingFields{"involvedObject.uid": string(c.GetUID())})).To(Succeed())
	for i := range list.Items {
		if e := &list.Items[i]; e.Action == explain.StartRemediation || e.Action == explain.EndRemediation {
			all = append(all, e.Reason+", "+strings.TrimPrefix(e.Message, c.s.name("")))
		}
	}
	return all
}

// The first template fails, then the second one, and then the owner of a Machine remediates. A Node has no owner, so its check waits.
func TestEscalation_StepFails_NextStepStarts(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.first = s.soft
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(s.first, s.first), func(set *settings) {
			set.ownerLast = !s.ofNodes
			set.Backoff.Initial, set.Backoff.Limit = ptr.To(stage.Duration(time.Hour)), ptr.To(stage.Duration(time.Hour))
		})
		c := s.Start()
		step := func() string { return stepOfRequest(s.request("m-1")()) }
		stepInStatus := func() *int32 { return check.target("m-1").Step }
		s.Eventually(step).Should(Equal("step-1 1"))
		s.Remediate(s.first, remediator.Fails)
		s.Eventually(s.annotations("m-1")).Should(HaveKeyWithValue(remedyv1.TriedAnnotation, "1 "+s.soft.Template().Kind+"/step-1"))
		s.Eventually(func() string {
			s.Remediate(s.first, remediator.Silent)
			s.Remediate(s.first, remediator.Hangs)
			return step()
		}).Should(Equal("step-2 2"))
		s.Expect(s.machineCondition("m-1", "OwnerRemediated")).To(BeEmpty(), "owner remediation is the last step")
		s.Eventually(stepInStatus).Should(HaveValue(BeEquivalentTo(2)))
		s.Eventually(func() any {
			s.Remediate(s.first, remediator.Fails)
			return s.request("m-1")()
		}).Should(BeNil())
		if s.ofNodes {
			s.Eventually(check.decision("m-1")).Should(Equal("Blocked EscalationExhausted"))
		} else {
			s.waitMachineCondition("m-1", "OwnerRemediated", "False WaitingForRemediation")
			s.Eventually(stepInStatus).Should(HaveValue(BeEquivalentTo(3)))
		}

		// The target recovers: the remediation history is removed, and the owner has nothing to do.
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.waitMachineCondition("m-1", "HealthCheckSucceeded", "True HealthCheckSucceeded")
		s.Eventually(s.annotations("m-1")).ShouldNot(Or(HaveKey(remedyv1.TriedAnnotation), HaveKey(remedyv1.AttemptsAnnotation)))
		expectEscalationRecorded(c, check)
	})
}

// expectEscalationRecorded verifies that each step of TestEscalation_StepFails_NextStepStarts is one entry, one count and one pair of
// events.
func expectEscalationRecorded(c *stage.Instance, check *kindCheck) {
	s := check.s
	s.T.Helper()
	outcomes, counts := []string{"m-1 Failed", "m-1 Failed"}, map[string]map[string]float64{
		"template": {"started": 2, "failed": 2, "recovered": 0, "timed_out": 0, "replaced": 0, "withdrawn": 0},
	}
	var events []string
	for n := 1; n <= 2; n++ {
		by := fmt.Sprintf("the request of step %d (%s/step-%d)", n, s.soft.Template().Kind, n)
		events = append(events, "RemediationStarted, m-1: Created "+by+", attempt 1",
			"StepFailed, m-1: Remediation by "+by+" ended because the remediator reported a failure")
	}
	if !s.ofNodes {
		outcomes = append([]string{"m-1 Recovered"}, outcomes...)
		counts["owner"] = map[string]float64{"started": 1, "failed": 0, "recovered": 1, "timed_out": 0, "replaced": 0, "withdrawn": 0}
		events = append(events, "RemediationStarted, m-1: Requested remediation by its owner",
			"Recovered, m-1: Remediation by its owner ended because the target is healthy again")
	}
	s.Eventually(check.outcomes).Should(Equal(outcomes))
	recent := check.status().RecentRemediations
	for i := range recent {
		s.Expect(recent[i].Step).To(HaveValue(BeEquivalentTo(len(recent) - i)))
		if i > 0 {
			s.Expect(recent[i].CompletionTime.Time).ToNot(BeTemporally(">", recent[i-1].StartTime.Time), "one step after the other")
		}
	}
	c.WaitIdle()
	for strategy, byOutcome := range counts {
		for outcome, n := range byOutcome {
			s.Expect(c.Series("remedy_remediations_total", check.GetName(), strategy, outcome)).To(Equal([]float64{n}), "%s %s", strategy, outcome)
		}
	}
	s.Eventually(check.remediationEvents).Should(ConsistOf(events))
}

// requestOf returns a function that reads the request of a kind for a target; nil if there is none.
func (s *kindStage) requestOf(kind remediator.Kind, target string) func() *unstructured.Unstructured {
	return s.Request(kind, s.name(target))
}

// beingDeleted reports whether a request is being deleted.
func beingDeleted(request func() *unstructured.Unstructured) func() bool {
	return func() bool { return request().GetDeletionTimestamp() != nil }
}

// The request of a step that exceeds its timeout gets the timed-out annotation and is deleted. The next step starts when that request no
// longer exists.
func TestEscalation_StepTimesOut_NextStepStarts(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		s.createCheck(inSteps(s.soft, s.hard))
		c := s.Start()
		s.Eventually(s.requestOf(s.soft, "m-1")).ShouldNot(BeNil())
		s.Remediate(s.soft, remediator.Hangs)
		s.Advance(9 * time.Minute)
		c.WaitIdle()
		s.Expect(beingDeleted(s.requestOf(s.soft, "m-1"))()).To(BeFalse(), "one minute of the timeout is left")
		s.Advance(time.Minute)
		s.Eventually(beingDeleted(s.requestOf(s.soft, "m-1"))).Should(BeTrue())
		s.Expect(s.requestOf(s.soft, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
		s.Expect(s.requestOf(s.hard, "m-1")()).To(BeNil(), "the request of the first step still exists")
		s.Remediate(s.soft, remediator.Hangs)
		s.Eventually(s.requestOf(s.hard, "m-1")).ShouldNot(BeNil())
		s.Expect(s.requestOf(s.soft, "m-1")()).To(BeNil())
	}, stage.WithClock)
}

// A finalizer of another controller keeps the request of the first step. The check reports that, and does not remove the finalizer.
func TestEscalation_ForeignFinalizer_BlocksTheNextStep(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(s.soft, s.hard))
		c := s.Start()
		s.Eventually(s.requestOf(s.soft, "m-1")).ShouldNot(BeNil())
		request := s.requestOf(s.soft, "m-1")()
		s.SetRequestFinalizers(request, "example.com/keeper")
		s.Advance(11 * time.Minute)
		s.Eventually(beingDeleted(s.requestOf(s.soft, "m-1"))).Should(BeTrue())
		c.WaitIdle()
		s.Advance(5*time.Minute + time.Second)
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked PreviousStepNotReleased"))
		s.Eventually(check.condition(remedyv1.ReadyCondition)).Should(Equal("False PreviousStepNotReleased"))
		s.Expect(s.requestOf(s.soft, "m-1")().GetFinalizers()).
			To(ConsistOf("example.com/keeper"), "another controller owns the finalizer")
		s.Expect(s.requestOf(s.hard, "m-1")()).To(BeNil())
		s.SetRequestFinalizers(request)
		s.Eventually(s.requestOf(s.hard, "m-1")).ShouldNot(BeNil())
	}, stage.WithClock)
}

// The check reports RemediationFailed, waits, and starts the second attempt at the first step.
func TestEscalation_AllStepsFail_RestartsAfterBackoff(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(s.soft))
		s.Start()
		request := s.requestOf(s.soft, "m-1")
		s.Eventually(request).ShouldNot(BeNil())
		first := request()
		s.Eventually(func() any {
			s.Remediate(s.soft, remediator.Fails)
			return request()
		}).Should(BeNil())
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked Backoff"))
		s.Eventually(check.status).Should(And(
			HaveField("Conditions", ContainElement(And(HaveField("Type", remedyv1.ReadyCondition), HaveField("Reason", "RemediationFailed")))),
			HaveField("RecentRemediations", ConsistOf(And(HaveField("Target", s.name("m-1")), HaveField("Outcome", remedyv1.FailedOutcome)))),
		))
		s.Expect(s.target("m-1").GetAnnotations()).To(HaveKeyWithValue(remedyv1.AttemptsAnnotation, "1"))
		s.Advance(time.Minute + time.Second)
		s.Eventually(request).ShouldNot(BeNil())
		s.Expect(request().GetUID()).ToNot(Equal(first.GetUID()))
		s.Expect(request().GetAnnotations()).To(HaveKeyWithValue(remedyv1.AttemptAnnotation, "2"))
	}, stage.WithClock)
}

// A target that becomes unhealthy during healthyDelay has to be healthy for the whole delay again.
func TestHealthyDelay_UnhealthyAgain_Restarts(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.HealthyDelay = ptr.To(stage.Duration(10 * time.Minute)) })
		c := s.Start()
		request := s.waitRequest("m-1")
		since := func() string { return s.request("m-1")().GetAnnotations()[remedyv1.HealthySinceAnnotation] }
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(since).ShouldNot(BeEmpty())
		first := since()
		s.Advance(9 * time.Minute)
		c.WaitIdle()
		s.SetReady("m-1", corev1.ConditionFalse, 10*time.Minute)
		s.Eventually(since).Should(BeEmpty())
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(since).ShouldNot(Or(BeEmpty(), Equal(first)))
		s.Advance(9 * time.Minute)
		c.WaitIdle()
		s.Expect(s.request("m-1")().GetUID()).To(Equal(request.GetUID()))
		s.Eventually(check.healthy).Should(BeZero(), "healthyDelay has not passed")
		s.Advance(time.Minute)
		s.Eventually(s.request("m-1")).Should(BeNil())
	}, stage.WithClock)
}

// With recovery: Confirmed, the request stays until a user annotates the healthy Node.
func TestConfirmedRecovery_HealthyTarget_WaitsForAnnotation(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(func(set *settings) { set.Recovery = remedyv1.ConfirmedRecovery })
		c := s.Start()
		s.waitRequest("m-1")
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(func() map[string]string { return s.request("m-1")().GetAnnotations() }).Should(HaveKey(remedyv1.HealthySinceAnnotation))
		c.WaitIdle()
		s.Expect(s.request("m-1")().GetDeletionTimestamp()).To(BeNil())
		s.Expect(check.condition(remedyv1.ReadyCondition)()).To(Equal("False RecoveryNotConfirmed"))
		s.ChangeNode("m-1", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.ConfirmedHealthyAnnotation: ""} })
		s.Eventually(s.request("m-1")).Should(BeNil())
		s.Eventually(check.condition(remedyv1.ReadyCondition)).Should(Equal("True Ready"))
		// The annotation is removed: the next recovery needs another one.
		s.Eventually(func() map[string]string { return s.Node("m-1").Annotations }).ShouldNot(HaveKey(remedyv1.ConfirmedHealthyAnnotation))
	})
}
