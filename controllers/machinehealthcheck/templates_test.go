// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// message is what a condition of a check says to people.
func message(kind string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, c := range check.Status.Conditions {
			if c.Type == kind {
				return c.Message
			}
		}
		return ""
	}
}

func TestATemplateThatComesLaterIsUsed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(reference(remediator.Metal3, "soft")))
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False TemplateNotFound")))
	s.Expect(message(remedyv1.TemplatesResolvedCondition)(check)).To(And(ContainSubstring("Metal3RemediationTemplate/soft"), ContainSubstring("create it")))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held TemplateNotResolved")))
	// The Machine says that it is not healthy, whatever becomes of the template; and nobody waits for a remediator.
	s.Eventually(get(s, sick)).Should(WithTransform(says("HealthCheckSucceeded"), Equal("False UnhealthyNode")))
	s.Expect(says("ExternallyRemediated")(sick)).To(BeEmpty())
	s.template(remediator.Metal3, "soft")
	s.requested(remediator.Metal3, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
}

func TestATemplateThatIsWrongIsToldAndCanBeMended(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	template := remediator.Metal3.NewTemplate(s.namespace, "soft", nil)
	right := template.Object["spec"]
	template.Object["spec"] = map[string]any{}
	s.create(template)
	check := s.check("workers", by(reference(remediator.Metal3, "soft")))
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False TemplateInvalid")))
	s.Expect(message(remedyv1.TemplatesResolvedCondition)(check)).To(ContainSubstring("spec.template"))
	s.change(template, func() { template.Object["spec"] = right })
	s.requested(remediator.Metal3, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))

	// It goes while its request is under way: that goes on, and nothing new is started.
	s.Expect(s.admin.Delete(s.ctx, template)).To(Succeed())
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False TemplateNotFound")))
	s.Expect(s.request(remediator.Metal3, "m-1")().GetDeletionTimestamp()).To(BeNil())
}

func TestARequestIsMadeFromTheTemplateAsItIsNow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	template := remediator.Metal3.NewTemplate(s.namespace, "soft", map[string]any{"strategy": "old"})
	s.create(template)
	check := s.check("workers", by(reference(remediator.Metal3, "soft")))
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
	s.change(template, func() {
		s.Expect(unstructured.SetNestedField(template.Object, "new", "spec", "template", "spec", "strategy")).To(Succeed())
	})
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Expect(s.requested(remediator.Metal3, "m-1").Object["spec"]).To(Equal(map[string]any{"strategy": "new"}))
}

func TestAKindAndTheRightsToItMayComeLater(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	kind := remediator.NewKind("late.example.com", "v1", "LateRemediation")
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(reference(kind, "soft")))
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False KindNotServed")))
	s.Expect(message(remedyv1.TemplatesResolvedCondition)(check)).To(ContainSubstring("install the remediator"))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held TemplateNotResolved")))

	s.Expect(management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.template(kind, "soft")
	s.Eventually(func() string {
		s.wait(16 * time.Second)
		return tells(remedyv1.TemplatesResolvedCondition)(get(s, check)())
	}).Should(Equal("False Forbidden"))
	s.Expect(message(remedyv1.TemplatesResolvedCondition)(check)).To(And(
		ContainSubstring("ClusterRole"), ContainSubstring("lateremediation"), ContainSubstring(remedyv1.AggregateToManagerLabel+"=true")))
	s.Expect(s.requests(kind)).To(BeEmpty())

	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() bool {
		s.wait(16 * time.Second)
		return s.request(kind, "m-1")() != nil
	}).Should(BeTrue())
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
}

func TestARefusedRequestIsToldInTheWordsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	kind := s.demanding("strict.example.com", "StrictRemediation")
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.check("workers", by(s.template(kind, "soft")))
	c := s.start()
	c.restless = true
	tried := func() int {
		n := 0
		for _, w := range c.Writes() {
			if w.Verb == "create" && strings.HasPrefix(w.Resource, "strictremediation") {
				n++
			}
		}
		return n
	}
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held RequestFailed")))
	s.Expect(strings.Contains(check.Status.UnhealthyTargets[0].Message, "address")).To(BeTrue(), check.Status.UnhealthyTargets[0].Message)
	c.pass()
	c.pass()
	s.Expect(tried()).To(Equal(1), "whatever wakes us, it is not tried again at once")
	s.Eventually(func() int {
		s.wait(16 * time.Second)
		return tried()
	}).Should(BeNumerically(">=", 2), "but after a while")
}

// TestAKindThatIsNotServedHoldsNoOtherStep: there are no requests of a kind whose remediator is not installed. What comes before it is begun.
func TestAKindThatIsNotServedHoldsNoOtherStep(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]bool{"it was never installed": false, "it is removed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, withClock)
			missing := remediator.NewKind(s.namespace+".example.com", "v1", "MissingRemediation")
			hard := reference(missing, "hard")
			if removed {
				s.Expect(management.InstallCRDObjects(missing.CRDs()...)).To(Succeed())
				s.Expect(aggregate(s.ctx, missing.Rules()...)).To(Succeed())
				s.template(missing, "hard")
			}
			s.machine("m-1")
			check := s.check("workers", steps(s.template(remediator.Metal3, "soft"), hard))
			c := s.start()
			c.restless = true
			if removed {
				s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("True TemplatesResolved")))
				s.uninstall(missing)
			}
			s.Eventually(func() string {
				s.wait(16 * time.Second)
				return tells(remedyv1.TemplatesResolvedCondition)(get(s, check)())
			}).Should(Equal("False KindNotServed"))
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.requested(remediator.Metal3, "m-1")
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False KindNotServed")))
			s.Expect(message(remedyv1.TemplatesResolvedCondition)(check)).To(And(ContainSubstring("MissingRemediationTemplate"), Not(ContainSubstring("Metal3"))))
		})
	}
}

// uninstall removes a kind.
func (s *stage) uninstall(kind remediator.Kind) {
	s.t.Helper()
	admin, err := management.Client()
	s.Expect(err).ToNot(HaveOccurred())
	for _, crd := range kind.CRDs() {
		s.Expect(admin.Delete(s.ctx, crd)).To(Succeed())
	}
}

// demanding is a kind whose requests the API server refuses, as they need an address that no template has.
func (s *stage) demanding(group, name string) remediator.Kind {
	s.t.Helper()
	kind := remediator.NewKind(group, "v1", name)
	crds := kind.CRDs()
	spec := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Required = []string{"address"}
	crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	s.Expect(management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	return kind
}
