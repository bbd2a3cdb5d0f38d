// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestARequestIsWithdrawn shows what ends a request beside recovery: the remediator is told to stop, and the Machine keeps nothing.
func TestARequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	for name, because := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine){
		"when the check is deleted": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		},
		"when the check does not select the Machine any more": func(s *stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.change(m, func() { m.Labels["pool"] = "others" })
		},
		"when the check selects others": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
		},
		"when the check only observes": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
		},
		"when the Machine shall be skipped": func(s *stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"when owners remediate from now on": func(s *stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			// No owner: what is left then is a hold.
			s.change(m, func() { m.OwnerReferences = nil })
			s.change(check, func() { check.Spec.RemediationTemplate = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			sick := s.machine("m-1")
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
			s.start()
			s.requested(remediator.FenceAgents, "m-1")
			s.acts(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(get(s, sick)).Should(WithTransform(says("ExternallyRemediated"), Equal("False WaitingForRemediation")))
			because(s, check, sick)
			s.Eventually(func() bool { return s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
			s.Expect(s.request(remediator.FenceAgents, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
			s.acts(remediator.FenceAgents, remediator.Hangs)
			s.Eventually(s.request(remediator.FenceAgents, "m-1")).Should(BeNil())
			s.Eventually(get(s, sick)).Should(WithTransform(says("ExternallyRemediated"), BeEmpty()))
			if check.Spec.RemediationTemplate == nil {
				return
			}
			s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), BeEmpty()))
			s.Eventually(get(s, sick)).Should(WithTransform(annotations, Not(HaveKey(HavePrefix(remedyv1.Prefix)))))
			s.Eventually(func() []remedyv1.MachineHealthCheck { return s.checks() }).Should(Or(BeEmpty(), HaveEach(HaveField("Finalizers", BeEmpty()))))
		})
	}
}

func TestARequestOfAnotherTemplateReplacesTheOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
	s.start()
	s.requested(remediator.FenceAgents, "m-1")
	s.acts(remediator.FenceAgents, remediator.Hangs)
	hard := s.template(remediator.Metal3, "hard")
	s.change(check, func() { check.Spec.RemediationTemplate = hard })
	s.Eventually(func() bool { return s.request(remediator.FenceAgents, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
	s.Expect(s.request(remediator.Metal3, "m-1")()).To(BeNil())
	s.acts(remediator.FenceAgents, remediator.Hangs)
	s.requested(remediator.Metal3, "m-1")
	s.Expect(s.request(remediator.FenceAgents, "m-1")()).To(BeNil())
}

func TestARequestOfAMachineThatIsGoneIsWithdrawn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
	s.start()
	s.requested(remediator.FenceAgents, "m-1")
	s.acts(remediator.FenceAgents, remediator.Hangs)
	s.Expect(s.admin.Delete(s.ctx, sick)).To(Succeed())
	s.Expect(s.kubelet.Delete(s.ctx, s.nodeOf("m-1"))).To(Succeed())
	s.Eventually(func() bool {
		s.acts(remediator.FenceAgents, remediator.Hangs)
		return s.request(remediator.FenceAgents, "m-1")() == nil
	}).Should(BeTrue())
	s.Eventually(get(s, check)).Should(HaveField("Finalizers", BeEmpty()))
	s.Eventually(get(s, check)).Should(WithTransform(outcomes, Equal([]string{"m-1 Replaced"})))
}

func TestAMachineThatIsBeingDeletedGetsNoRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1", func(m *clusterv1.Machine) { m.Finalizers = []string{"example.com/keeper"} })
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Expect(s.admin.Delete(s.ctx, sick)).To(Succeed())
	check := s.check("workers", by(s.template(remediator.Metal3, "soft")))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Or(Equal("Held Leaving"), Equal("Held StuckDeleting"))))
	c.settle()
	s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
	s.keepMachine(sick)
}

func TestWhatAPersonAsksForIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	m := s.machine("m-1")
	check := s.check("workers", by(s.template(remediator.FenceAgents, "soft")))
	s.annotate(m, clusterv1.RemediateMachineAnnotation, "")
	s.change(m, func() { m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""} })
	c := s.start()
	request := s.requested(remediator.FenceAgents, "m-1")
	s.acts(remediator.FenceAgents, remediator.Succeeds)
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held AnnotationNotRemoved")))
	s.wait(time.Hour)
	c.settle()
	s.Expect(s.request(remediator.FenceAgents, "m-1")().GetUID()).To(Equal(request.GetUID()), "it was done, and is not done again")

	// The person has seen it.
	s.annotate(m, clusterv1.RemediateMachineAnnotation, "")
	s.Eventually(func() bool {
		s.acts(remediator.FenceAgents, remediator.Succeeds)
		return s.request(remediator.FenceAgents, "m-1")() == nil
	}).Should(BeTrue())
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
}

func TestTheSameNameForSomethingElseIsNotTouched(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	s.machine("m-2")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
	stranger := remediator.Metal3.NewRequest(s.namespace, "m-1")
	s.create(stranger)
	check := s.check("workers", by(s.template(remediator.Metal3, "soft")))
	s.start()
	s.requested(remediator.Metal3, "m-2")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held NameTaken")))
	s.Expect(s.request(remediator.Metal3, "m-1")().GetUID()).To(Equal(stranger.GetUID()))
	s.Expect(s.admin.Delete(s.ctx, stranger)).To(Succeed())
	s.Eventually(func() map[string]string {
		if request := s.request(remediator.Metal3, "m-1")(); request != nil {
			return request.GetAnnotations()
		}
		return nil
	}).Should(HaveKey(remedyv1.CheckAnnotation))
}

func TestEveryUnhealthyMachineIsHandledInOnePass(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4", "m-5", "m-6", "m-7"} {
		s.machine(name)
		s.ready(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	s.check("workers", by(s.template(remediator.Metal3, "soft")))
	c := s.start()
	s.Eventually(func() int { return len(s.requests(remediator.Metal3)) }).Should(Equal(7))
	c.settle()
	// A pass ends with the status of the check.
	creates, passes, making := 0, 0, false
	for _, w := range c.Writes() {
		switch {
		case w.Verb == "create" && w.Resource == remediator.Metal3.Plural:
			creates++
			if !making {
				passes, making = passes+1, true
			}
		case w.Resource == "machinehealthchecks" && w.Subresource == "status":
			making = false
		}
	}
	s.Expect(creates).To(Equal(7))
	s.Expect(passes).To(Equal(1))
}
