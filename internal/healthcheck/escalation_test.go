// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
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

// outcomes are the outcomes of the last remediations of a check, the latest first.
func outcomes(check *remedyv1.MachineHealthCheck) []string {
	all := make([]string, 0, len(check.Status.RecentRemediations))
	for _, r := range check.Status.RecentRemediations {
		all = append(all, r.Target+" "+string(r.Outcome))
	}
	return all
}

func stepOfRequest(request *unstructured.Unstructured) string {
	if request == nil {
		return ""
	}
	return request.GetAnnotations()[remedyv1.TemplateNameAnnotation] + " " + request.GetAnnotations()[remedyv1.StepAnnotation]
}

// stepOfTarget returns the step of a Machine in the status of a check; nil if the Machine is not listed as unhealthy.
func stepOfTarget(machine string) func(*remedyv1.MachineHealthCheck) *int32 {
	return func(check *remedyv1.MachineHealthCheck) *int32 {
		for i := range check.Status.UnhealthyTargets {
			if t := &check.Status.UnhealthyTargets[i]; t.Name == machine {
				return t.Step
			}
		}
		return nil
	}
}

// remediationEvents are the events on a check about the start and the end of remediations.
func remediationEvents(s *stage.Stage, check string) func() []string {
	return func() (all []string) {
		list := &corev1.EventList{}
		s.Expect(s.Admin.List(s.Ctx, list, client.InNamespace(s.Namespace))).To(Succeed())
		for i := range list.Items {
			e := &list.Items[i]
			if e.InvolvedObject.Kind == "MachineHealthCheck" && e.InvolvedObject.Name == check &&
				(e.Action == explain.StartRemediation || e.Action == explain.EndRemediation) {
				all = append(all, e.Reason+", "+e.Message)
			}
		}
		return all
	}
}

// The first template fails, then the second one, and then the owner remediates. Each step is one entry, one count and one pair of events.
func TestEscalation_StepFails_NextStepStarts(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck(
		"workers",
		stage.BySteps(s.CreateTemplate(remediator.FenceAgents, "soft"), s.CreateTemplate(remediator.FenceAgents, "hard"), nil),
	)
	c := s.Start()
	s.Eventually(s.Request(remediator.FenceAgents, "m-1")).Should(WithTransform(stepOfRequest, Equal("soft 1")))
	s.Remediate(remediator.FenceAgents, remediator.Fails)
	s.Eventually(stage.Get(s, unhealthy)).
		Should(WithTransform(stage.Annotations, HaveKeyWithValue(remedyv1.TriedAnnotation, "1 FenceAgentsRemediationTemplate/soft")))
	s.Eventually(func() string {
		s.Remediate(remediator.FenceAgents, remediator.Silent)
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		return stepOfRequest(s.Request(remediator.FenceAgents, "m-1")())
	}).Should(Equal("hard 2"))
	s.Expect(stage.MachineCondition("OwnerRemediated")(stage.Get(s, unhealthy)())).To(BeEmpty(), "owner remediation is the last step")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stepOfTarget("m-1"), HaveValue(BeEquivalentTo(2))))
	s.Remediate(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() *unstructured.Unstructured {
		s.Remediate(remediator.FenceAgents, remediator.Fails)
		return s.Request(remediator.FenceAgents, "m-1")()
	}).Should(BeNil())
	s.Eventually(stage.Get(s, unhealthy)).
		Should(WithTransform(stage.MachineCondition("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stepOfTarget("m-1"), HaveValue(BeEquivalentTo(3))))

	// The Machine recovers: the remediation history is removed, and the owner has nothing to do.
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, unhealthy)).
		Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(stage.Annotations, Not(HaveKey(remedyv1.TriedAnnotation))))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.RecentRemediations", HaveLen(3)), "each step is recorded")
	recent := check.Status.RecentRemediations
	for i, outcome := range []remedyv1.RemediationOutcome{remedyv1.RecoveredOutcome, remedyv1.FailedOutcome, remedyv1.FailedOutcome} {
		s.Expect(recent[i]).To(And(HaveField("Step", HaveValue(BeEquivalentTo(3-i))), HaveField("Outcome", outcome)))
		if i > 0 {
			s.Expect(recent[i].CompletionTime.Time).ToNot(BeTemporally(">", recent[i-1].StartTime.Time), "one step after the other")
		}
	}
	c.WaitIdle()
	counted := func(strategy, outcome string) []float64 {
		return c.Series("remedy_remediations_total", check.Name, strategy, outcome)
	}
	for strategy, counts := range map[string]map[string]float64{
		"template": {"started": 2, "failed": 2, "recovered": 0, "timed_out": 0, "replaced": 0, "withdrawn": 0},
		"owner":    {"started": 1, "failed": 0, "recovered": 1, "timed_out": 0, "replaced": 0, "withdrawn": 0},
	} {
		for outcome, n := range counts {
			s.Expect(counted(strategy, outcome)).To(Equal([]float64{n}), "%s %s", strategy, outcome)
		}
	}
	soft, hard := "the request of step 1 (FenceAgentsRemediationTemplate/soft)", "the request of step 2 (FenceAgentsRemediationTemplate/hard)"
	s.Eventually(remediationEvents(s, check.Name)).Should(ConsistOf(
		"RemediationStarted, m-1: Created "+soft+", attempt 1",
		"StepFailed, m-1: Remediation by "+soft+" ended because the remediator reported a failure",
		"RemediationStarted, m-1: Created "+hard+", attempt 1",
		"StepFailed, m-1: Remediation by "+hard+" ended because the remediator reported a failure",
		"RemediationStarted, m-1: Requested remediation by its owner",
		"Recovered, m-1: Remediation by its owner ended because the target is healthy again",
	))
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
		s.createCheck(inSteps(remediator.FenceAgents, remediator.Metal3))
		c := s.Start()
		s.Eventually(s.requestOf(remediator.FenceAgents, "m-1")).ShouldNot(BeNil())
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		s.Advance(9 * time.Minute)
		c.WaitIdle()
		s.Expect(beingDeleted(s.requestOf(remediator.FenceAgents, "m-1"))()).To(BeFalse(), "one minute of the timeout is left")
		s.Advance(time.Minute)
		s.Eventually(beingDeleted(s.requestOf(remediator.FenceAgents, "m-1"))).Should(BeTrue())
		s.Expect(s.requestOf(remediator.FenceAgents, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
		s.Expect(s.requestOf(remediator.Metal3, "m-1")()).To(BeNil(), "the request of the first step still exists")
		s.Remediate(remediator.FenceAgents, remediator.Hangs)
		s.Eventually(s.requestOf(remediator.Metal3, "m-1")).ShouldNot(BeNil())
		s.Expect(s.requestOf(remediator.FenceAgents, "m-1")()).To(BeNil())
	}, stage.WithClock)
}

// A finalizer of another controller keeps the request of the first step. The check reports that, and does not remove the finalizer.
func TestEscalation_ForeignFinalizer_BlocksTheNextStep(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(remediator.FenceAgents, remediator.Metal3))
		c := s.Start()
		s.Eventually(s.requestOf(remediator.FenceAgents, "m-1")).ShouldNot(BeNil())
		request := s.requestOf(remediator.FenceAgents, "m-1")()
		s.SetRequestFinalizers(request, "example.com/keeper")
		s.Advance(11 * time.Minute)
		s.Eventually(beingDeleted(s.requestOf(remediator.FenceAgents, "m-1"))).Should(BeTrue())
		c.WaitIdle()
		s.Advance(5*time.Minute + time.Second)
		s.Eventually(check.decision("m-1")).Should(Equal("Blocked PreviousStepNotReleased"))
		s.Expect(s.requestOf(remediator.FenceAgents, "m-1")().GetFinalizers()).
			To(ConsistOf("example.com/keeper"), "another controller owns the finalizer")
		s.Expect(s.requestOf(remediator.Metal3, "m-1")()).To(BeNil())
		s.SetRequestFinalizers(request)
		s.Eventually(s.requestOf(remediator.Metal3, "m-1")).ShouldNot(BeNil())
	}, stage.WithClock)
}

// The check reports RemediationFailed, waits, and starts the second attempt at the first step.
func TestEscalation_AllStepsFail_RestartsAfterBackoff(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		check := s.createCheck(inSteps(remediator.FenceAgents))
		s.Start()
		request := s.requestOf(remediator.FenceAgents, "m-1")
		s.Eventually(request).ShouldNot(BeNil())
		first := request()
		s.Eventually(func() any {
			s.Remediate(remediator.FenceAgents, remediator.Fails)
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
		s.createCheck(func(set *settings) { set.Recovery = remedyv1.ConfirmedRecovery })
		c := s.Start()
		s.waitRequest("m-1")
		s.SetReady("m-1", corev1.ConditionTrue, 0)
		s.Eventually(func() map[string]string { return s.request("m-1")().GetAnnotations() }).Should(HaveKey(remedyv1.HealthySinceAnnotation))
		c.WaitIdle()
		s.Expect(s.request("m-1")().GetDeletionTimestamp()).To(BeNil())
		s.ChangeNode("m-1", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.ConfirmedHealthyAnnotation: ""} })
		s.Eventually(s.request("m-1")).Should(BeNil())
		// The annotation is removed: the next recovery needs another one.
		s.Eventually(func() map[string]string { return s.Node("m-1").Annotations }).ShouldNot(HaveKey(remedyv1.ConfirmedHealthyAnnotation))
	})
}
