// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// outcomes are how the last remediations have ended, the latest first.
func outcomes(check *remedyv1.MachineHealthCheck) []string {
	all := make([]string, 0, len(check.Status.RecentRemediations))
	for _, r := range check.Status.RecentRemediations {
		all = append(all, r.Target+" "+string(r.Outcome))
	}
	return all
}

func stepOf(request *unstructured.Unstructured) string {
	if request == nil {
		return ""
	}
	return request.GetAnnotations()[remedyv1.TemplateNameAnnotation] + " " + request.GetAnnotations()[remedyv1.StepAnnotation]
}

// atStep is at which step a check is with a Machine; nil if it is not known to be sick.
func atStep(machine string) func(*remedyv1.MachineHealthCheck) *int32 {
	return func(check *remedyv1.MachineHealthCheck) *int32 {
		for i := range check.Status.UnhealthyTargets {
			if t := &check.Status.UnhealthyTargets[i]; t.Name == machine {
				return t.Step
			}
		}
		return nil
	}
}

func annotations(m *clusterv1.Machine) map[string]string { return m.Annotations }

func TestAFailureEscalatesToTheNextTemplateAndThenToTheOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), s.template(remediator.FenceAgents, "hard"), nil))
	s.start()
	s.Eventually(s.request(remediator.FenceAgents, "m-1")).Should(WithTransform(stepOf, Equal("soft 1")))
	s.acts(remediator.FenceAgents, remediator.Fails)
	s.Eventually(get(s, sick)).Should(WithTransform(annotations, HaveKeyWithValue(remedyv1.TriedAnnotation, "1 FenceAgentsRemediationTemplate/soft")))
	s.Eventually(func() string {
		s.acts(remediator.FenceAgents, remediator.Silent)
		s.acts(remediator.FenceAgents, remediator.Hangs)
		return stepOf(s.request(remediator.FenceAgents, "m-1")())
	}).Should(Equal("hard 2"))
	s.Expect(says("OwnerRemediated")(get(s, sick)())).To(BeEmpty(), "the owner has not been asked yet")
	s.Eventually(get(s, check)).Should(WithTransform(atStep("m-1"), HaveValue(BeEquivalentTo(2))))
	s.acts(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() *unstructured.Unstructured {
		s.acts(remediator.FenceAgents, remediator.Fails)
		return s.request(remediator.FenceAgents, "m-1")()
	}).Should(BeNil())
	s.Eventually(get(s, sick)).Should(WithTransform(says("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Eventually(get(s, check)).Should(WithTransform(atStep("m-1"), HaveValue(BeEquivalentTo(3))))

	// It recovers after all: what is remembered goes, and the owner finds that there is nothing to do.
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(get(s, sick)).Should(WithTransform(annotations, Not(HaveKey(remedyv1.TriedAnnotation))))
}

func TestAStepThatTakesTooLongIsToldToStopAndGivenUp(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), s.template(remediator.Metal3, "hard")))
	c := s.start()
	s.requested(remediator.FenceAgents, "m-1")
	s.acts(remediator.FenceAgents, remediator.Hangs)
	s.wait(9 * time.Minute)
	c.settle()
	s.Expect(s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp()).To(BeNil(), "it has another minute")
	s.wait(time.Minute)
	s.Eventually(func() bool { return s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
	s.Expect(s.request(remediator.FenceAgents, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(s.request(remediator.Metal3, "m-1")()).To(BeNil(), "the one before is still there")
	s.acts(remediator.FenceAgents, remediator.Hangs)
	s.requested(remediator.Metal3, "m-1")
	s.Expect(s.request(remediator.FenceAgents, "m-1")()).To(BeNil())
}

func TestARequestThatIsKeptByAStrangerIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), s.template(remediator.Metal3, "hard")))
	c := s.start()
	request := s.requested(remediator.FenceAgents, "m-1")
	s.keep(request, "example.com/keeper")
	s.wait(11 * time.Minute)
	s.Eventually(func() bool { return s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
	c.settle()
	s.wait(5*time.Minute + time.Second)
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held PreviousStepNotReleased")))
	s.Expect(s.request(remediator.FenceAgents, "m-1")().GetFinalizers()).To(ConsistOf("example.com/keeper"), "it is not ours to remove")
	s.Expect(s.request(remediator.Metal3, "m-1")()).To(BeNil())
	s.keep(request)
	s.requested(remediator.Metal3, "m-1")
}

func TestASequenceThatFailedBeginsAgainAfterABackOff(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
	s.start()
	first := s.requested(remediator.FenceAgents, "m-1")
	s.acts(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() *unstructured.Unstructured {
		s.acts(remediator.FenceAgents, remediator.Fails)
		return s.request(remediator.FenceAgents, "m-1")()
	}).Should(BeNil())
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held Backoff")))
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ReadyCondition), Equal("False EscalationExhausted")))
	s.Eventually(get(s, check)).Should(WithTransform(outcomes, Equal([]string{"m-1 Failed"})))
	s.Expect(get(s, sick)().Annotations).To(HaveKeyWithValue(remedyv1.AttemptsAnnotation, "1"))
	s.wait(time.Minute + time.Second)
	second := s.requested(remediator.FenceAgents, "m-1")
	s.Expect(second.GetUID()).ToNot(Equal(first.GetUID()))
	s.Expect(second.GetAnnotations()).To(HaveKeyWithValue(remedyv1.AttemptAnnotation, "2"))
}

func TestARelapseStartsTheHealthyDelayAnew(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.Metal3, "soft")), func(spec *remedyv1.MachineHealthCheckSpec) {
		d := lasting(10 * time.Minute)
		spec.HealthyDelay = &d
	})
	c := s.start()
	request := s.requested(remediator.Metal3, "m-1")
	since := func() string {
		return s.request(remediator.Metal3, "m-1")().GetAnnotations()[remedyv1.HealthySinceAnnotation]
	}
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(since).ShouldNot(BeEmpty())
	first := since()
	s.wait(9 * time.Minute)
	c.settle()
	s.ready("m-1", corev1.ConditionFalse, 10*time.Minute)
	s.Eventually(since).Should(BeEmpty())
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(since).ShouldNot(Or(BeEmpty(), Equal(first)))
	s.wait(9 * time.Minute)
	c.settle()
	s.Expect(s.request(remediator.Metal3, "m-1")().GetUID()).To(Equal(request.GetUID()))
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(0)), "it is not believed yet")
	s.wait(time.Minute)
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil())
}

func TestAPersonConfirmsTheRecoveryWhereTheCheckAsksForIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.check("workers", by(s.template(remediator.Metal3, "soft")), func(spec *remedyv1.MachineHealthCheckSpec) { spec.Recovery = remedyv1.ConfirmedRecovery })
	c := s.start()
	s.requested(remediator.Metal3, "m-1")
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(func() map[string]string { return s.request(remediator.Metal3, "m-1")().GetAnnotations() }).Should(HaveKey(remedyv1.HealthySinceAnnotation))
	c.settle()
	s.Expect(s.request(remediator.Metal3, "m-1")().GetDeletionTimestamp()).To(BeNil())
	s.changeNode("m-1", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.ConfirmedHealthyAnnotation: ""} })
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil())
	// The word is used up: the next recovery needs another one.
	s.Eventually(func() map[string]string { return s.nodeOf("m-1").Annotations }).ShouldNot(HaveKey(remedyv1.ConfirmedHealthyAnnotation))
}
