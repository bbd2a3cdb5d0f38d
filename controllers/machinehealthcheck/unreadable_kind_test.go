// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// convertible installs a kind of which requests are stored in another version than the one that a check names.
func (s *stage) convertible() remediator.Kind {
	s.t.Helper()
	kind := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
	crds := kind.CRDs()
	for _, crd := range crds {
		stored := *crd.Spec.Versions[0].DeepCopy()
		stored.Name = "v2"
		crd.Spec.Versions[0].Storage = false
		crd.Spec.Versions = append(crd.Spec.Versions, stored)
	}
	s.Expect(management.InstallCRDObjects(crds...)).To(Succeed())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	return kind
}

// convert says how requests of a kind are converted, and waits until that is so.
func (s *stage) convert(kind remediator.Kind, by *apiextensionsv1.CustomResourceConversion, like any) {
	s.t.Helper()
	admin, err := management.Client()
	s.Expect(err).ToNot(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	s.Expect(admin.Get(s.ctx, client.ObjectKeyFromObject(kind.RequestCRD()), crd)).To(Succeed())
	// The API server itself writes to it at any time, and not to what is changed here.
	before := client.MergeFrom(crd.DeepCopy())
	crd.Spec.Conversion = by
	s.Expect(admin.Patch(s.ctx, crd, before)).To(Succeed())
	s.Eventually(func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return s.admin.List(s.ctx, list, client.InNamespace(s.namespace))
	}).Should(WithTransform(func(err error) bool { return err == nil }, Equal(like)))
}

// nobodyAnswers is a conversion by a webhook that is down.
func nobodyAnswers() *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/convert")}, ConversionReviewVersions: []string{"v1"},
		},
	}
}

// awaits makes a Machine that is sick, and of which the first step has been tried. It is paused: the second step begins when that is over.
func (s *stage) awaits(name string, first *remedyv1.MachineTemplateReference, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := s.machine(name, append(changes, func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: "yes", remedyv1.TriedAnnotation: "1 " + first.Kind + "/" + first.Name}
	})...)
	s.ready(name, corev1.ConditionUnknown, 10*time.Minute)
	return m
}

// goesOn ends the pause of a Machine.
func (s *stage) goesOn(m *clusterv1.Machine) { s.annotate(m, clusterv1.PausedAnnotation, "") }

// said is what a check says about a Machine.
func said(machine string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, target := range check.Status.UnhealthyTargets {
			if target.Name == machine {
				return target.Message
			}
		}
		return ""
	}
}

// TestRequestsThatCannotBeConvertedHoldNobodyElse: one Machine has a request that cannot be read any more. What there is for others is taken back, and what
// is to come for them begins.
func TestRequestsThatCannotBeConvertedHoldNobodyElse(t *testing.T) {
	t.Parallel()
	for name, places := range map[string]string{"where places are not limited": "", "where all requests count": "100%"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, withClock)
			kind := s.convertible()
			soft := s.template(kind, "soft")
			first := s.machine("m-1")
			before, next := s.awaits("m-2", soft), s.awaits("m-3", soft)
			check := s.check("workers", steps(soft, nil), func(spec *remedyv1.MachineHealthCheckSpec) {
				if places != "" {
					spec.MaxInFlight = ptr.To(intstr.FromString(places))
				}
			})
			c := s.start()
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.goesOn(before)
			s.requested(kind, "m-1")
			s.Eventually(get(s, before)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
			c.settle()

			s.convert(kind, nobodyAnswers(), false)
			s.wait(11 * time.Minute)
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held NotConfirmed")))
			s.Expect(said("m-1")(check)).To(ContainSubstring("the facts could not be read again: SomeRemediation." + kind.Group))
			s.goesOn(next)
			s.Eventually(get(s, next)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)), "it has none")
			s.change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
			for _, m := range []*clusterv1.Machine{before, next} {
				s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), BeEmpty()), "it is taken back")
			}

			s.convert(kind, &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}, true)
			s.change(check, func() { check.Spec.PauseRequests = nil })
			s.Eventually(func() string {
				s.wait(16 * time.Second)
				return says(clusterv1.MachineOwnerRemediatedCondition)(get(s, first)())
			}).Should(Equal(marked), "its time is over")
			s.Expect(s.request(kind, "m-1")()).To(BeNil())
		})
	}
}

// revoke takes the rights to a kind and its group away. When it returns the API server has heard of that.
func (s *stage) revoke(kind remediator.Kind) {
	s.t.Helper()
	s.Expect(changeRights(s.ctx, s.admin, func(all []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return slices.DeleteFunc(all, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, kind.Group) })
	})).To(Succeed())
	s.Expect(management.UntilAllowed(s.ctx, ourManager, &kind.Rules()[0], false)).To(Succeed())
}

// TestTheRightToOneKindIsNoConcernOfOthers: as long as it is known from before who has a request of that kind, only they wait. A process that does not
// know begins with nobody, and takes back what it can all the same.
func TestTheRightToOneKindIsNoConcernOfOthers(t *testing.T) { //nolint:paralleltest // checks of other tests would wait for that right, too.
	s := newStage(t, withClock)
	kind := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	soft := s.template(kind, "soft")
	toOwned := func(m *clusterv1.Machine) { m.Labels["pool"] = "owned" }
	byRequest := []*clusterv1.Machine{s.awaits("m-2", soft), s.awaits("m-3", soft)}
	byOwner := []*clusterv1.Machine{s.awaits("o-1", soft, toOwned), s.awaits("o-2", soft, toOwned)}
	s.machine("m-1")
	s.machine("m-4")
	check := s.check("workers", steps(soft, s.template(remediator.Metal3, "hard")))
	owned := s.check("owned", ofPool("owned"), steps(soft, nil))
	c := s.start()
	c.restless = true
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.requested(kind, "m-1")
	c.settle()

	s.revoke(kind)
	s.ready("m-4", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(func() string {
		s.wait(16 * time.Second)
		return holds("m-4")(get(s, check)())
	}).Should(Equal("Held TemplateNotResolved"))
	s.goesOn(byRequest[0])
	s.requested(remediator.Metal3, "m-2")
	s.goesOn(byOwner[0])
	s.Eventually(get(s, byOwner[0])).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))

	c.stop()
	c = s.start()
	c.restless = true
	s.goesOn(byRequest[1])
	s.goesOn(byOwner[1])
	later := func() bool {
		s.wait(16 * time.Second)
		return holds("m-3")(get(s, check)()) == "Held TemplateNotResolved" && holds("o-2")(get(s, owned)()) == "Held NotConfirmed"
	}
	s.Eventually(later).Should(BeTrue())
	s.Expect(said("o-2")(owned)).To(ContainSubstring("its requests could not be read: SomeRemediation." + kind.Group + ": this program may not read them"))
	s.change(owned, func() { owned.Spec.PauseRequests = []string{"maintenance"} })
	s.Eventually(get(s, byOwner[0])).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), BeEmpty()), "it is taken back")
	s.change(owned, func() { owned.Spec.PauseRequests = nil })

	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() any {
		s.wait(16 * time.Second)
		return s.request(remediator.Metal3, "m-3")()
	}).ShouldNot(BeNil())
	s.Eventually(get(s, byOwner[1])).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.requested(kind, "m-4")
	c.restless = false
}
