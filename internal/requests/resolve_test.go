// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Everything that can be missing is missing at first, and comes while the manager runs.
func TestResolve_Trouble_EndsWithoutRestart(t *testing.T) {
	s := newScene(t, "Reboot")
	c, soft, group := s.check("a"), s.reference(), s.kind.Group
	resource := func(plural string) string { return plural + "." + group }

	first := s.requests.Resolve(t.Context(), c, "", soft)[0]
	s.Expect(first.Err).ToNot(HaveOccurred())
	s.Expect(first.Usable()).To(BeFalse())
	s.Expect(first.Problem.Reason).To(Equal(remedyv1.KindNotServedReason))
	s.Expect(first.Again).To(Equal(noon.Add(missingFor)))
	_, err := s.requests.OfCheck(t.Context(), c, soft.RequestKind())
	s.Expect(err).To(MatchError(ContainSubstring("is not served")))
	s.notServed(c, "RebootTemplate")
	s.install(s.kind.TemplateCRD())
	s.notServed(c, "Reboot")
	s.install(s.kind.RequestCRD())

	forbidden := s.trouble(
		c, soft, remedyv1.ForbiddenReason, "the manager must be allowed to get, list, watch "+resource("reboottemplates")+" in any namespace",
	)
	s.Expect(forbidden.Problem.ClusterRole).To(Equal("remedy-reboottemplates"))
	s.Expect(forbidden.Again).ToNot(BeZero())
	_, err = s.requests.OfCheck(t.Context(), c, soft.RequestKind())
	s.Expect(err).To(MatchError(ContainSubstring("must be allowed to list, watch " + resource("reboots") + " in any namespace: apply a ClusterRole that allows it, such as remedy-reboots, with the label " + remedyv1.AggregateToManagerLabel + "=true")))
	rules := s.kind.Rules()
	s.grant(rules[1])
	s.trouble(
		c, soft, remedyv1.ForbiddenReason,
		"the manager must be allowed to get, list, watch, create, patch, delete "+resource("reboots")+" in any namespace",
	)
	few := *rules[0].DeepCopy()
	few.Verbs = []string{"get", "list", "watch", "create"}
	s.grant(rules[1], few)
	forbidden = s.trouble(
		c, soft, remedyv1.ForbiddenReason, "the manager must be allowed to patch, delete "+resource("reboots")+" in namespace "+s.namespace,
	)
	s.Expect(forbidden.Problem.ClusterRole).To(Equal("remedy-reboots"))

	s.traffic.since()
	s.grant(rules...)
	s.trouble(c, soft, remedyv1.TemplateNotFoundReason, "the template does not exist in namespace "+s.namespace+": create it, or correct the reference")
	is := func(reason string) bool {
		one := s.resolved(c, "", soft)
		return one.Problem != nil && one.Problem.Reason == reason
	}
	bad := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	bad.SetGroupVersionKind(s.kind.Template())
	bad.SetNamespace(s.namespace)
	bad.SetName("soft")
	s.Expect(admin.Create(t.Context(), bad)).To(Succeed())
	s.wokenFor(func() bool { return is(remedyv1.TemplateInvalidReason) })
	s.trouble(c, soft, remedyv1.TemplateInvalidReason,
		"spec.template.spec must be an object, for example spec: {template: {spec: {}}}; Remedy copies it to spec of the request")
	s.Expect(unstructured.SetNestedMap(bad.Object, map[string]any{}, "spec", "template", "spec")).To(Succeed())
	s.Expect(admin.Update(t.Context(), bad)).To(Succeed())
	s.wokenFor(func() bool {
		one := s.resolved(c, "", soft)
		return one.Usable()
	})
	s.Expect(admin.Delete(t.Context(), bad)).To(Succeed())
	s.wokenFor(func() bool { return is(remedyv1.TemplateNotFoundReason) })
}

func TestResolve_Denied_IsAskedAgainWhenDue(t *testing.T) {
	s := newScene(t, "Reboot")
	c, soft := s.check("a"), s.reference()
	ask := func() int {
		s.traffic.since()
		s.requests.Resolve(t.Context(), c, "", soft)
		_, err := s.requests.OfCheck(t.Context(), c, soft.RequestKind())
		s.Expect(err).To(HaveOccurred())
		// What a client asks for itself when it is used first does not count.
		return len(slices.DeleteFunc(s.traffic.since(), func(asked string) bool {
			return asked == "GET /api" || asked == "GET /apis" || asked == "GET /apis/authorization.k8s.io/v1"
		}))
	}
	s.Expect(ask()).To(Equal(3), "whether either kind is served, and requests in another version")
	s.clock.Step(missingFor - 1)
	s.Expect(ask()).To(BeZero())
	s.clock.Step(1)
	s.Expect(ask()).To(Equal(3))
	s.install(s.kind.CRDs()...)
	s.clock.Step(missingFor)
	// Once each: get, list, watch of templates everywhere and get in the namespace; list and watch of requests.
	s.Expect(ask()).To(Equal(2 + 4 + 2))
	s.Expect(ask()).To(BeZero())
	s.clock.Step(missingFor)
	s.Expect(ask()).To(Equal(4 + 2))
}

func TestResolve_UnsuitableKind_IsReported(t *testing.T) {
	for kind, ofTemplates := range map[string]bool{"Reboot": false, "RebootTemplate": true} {
		t.Run(kind+" is not namespaced", func(t *testing.T) {
			s := newScene(t, "Reboot")
			s.kind.Cluster, s.kind.TemplateCluster = !ofTemplates, ofTemplates
			s.install(s.kind.CRDs()...)
			s.trouble(s.check("a"), s.reference(), remedyv1.TemplateInvalidReason, kind+" is not namespaced: use another kind of template")
		})
	}
	t.Run("an irregular plural", func(t *testing.T) {
		s := newScene(t, "Gas")
		s.kind.Plural = "gases"
		s.provide()
		s.trouble(s.check("a"), s.reference(), remedyv1.WrongPluralReason,
			"the plural of Gas is gases, not gass: add Gas=gases to the annotation remedy.cluster.x-k8s.io/request-plurals of the check")
		s.Eventually(func() bool {
			s.clock.Step(missingFor)
			one := s.requests.Resolve(t.Context(), s.check("a"), "Gas=gases", s.reference())[0]
			return one.Usable()
		}).Should(BeTrue())
		// The permission was verified for another resource.
		one := s.resolved(s.check("a"), "Gas=others", s.reference())
		s.Expect(one.Problem.Reason).To(Equal(remedyv1.WrongPluralReason))
	})
}

func TestResolve_NamespacedPermission_IsEnoughToWrite(t *testing.T) {
	s := newScene(t, "Reboot")
	s.install(s.kind.CRDs()...)
	rules := s.kind.Rules()
	rules[0].Verbs = []string{"list", "watch"}
	s.grant(rules...)
	cp.Grant(t, s.user, s.namespace, s.kind.Rules()[0])
	s.template()
	s.usable(s.check("a"), s.reference())
	s.create(s.check("a"), Object{"m1", "uid-1"})
}

func TestResolve_KindRemoved_IsFoundAgain(t *testing.T) {
	s := settled(t)
	c, soft := s.check("a"), s.reference()
	s.create(c, Object{"m1", "uid-1"})
	s.wakes()
	s.uninstall(s.kind.CRDs()...)
	s.Eventually(func() []string {
		s.clock.Step(longestPause)
		return s.wakes()
	}).Should(ContainElement("a"))
	s.notServed(c, "RebootTemplate")
	s.Eventually(func() error {
		_, err := s.requests.OfCheck(t.Context(), c, soft.RequestKind())
		return err
	}).Should(MatchError(ContainSubstring("is not served")))
	s.requests.running.Wait()
	s.traffic.since()
	s.requests.Resolve(t.Context(), c, "", soft)
	s.Expect(s.traffic.lists("reboots")).To(BeZero(), "a kind that is not served is not listed")

	s.install(s.kind.CRDs()...)
	s.template()
	s.usable(c, soft)
	found, err := s.requests.OfCheck(t.Context(), c, soft.RequestKind())
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(found).To(BeEmpty())
	made := s.create(c, Object{"m1", "uid-1"})
	s.Expect(s.there("m1").GetUID()).To(Equal(made.UID))
}

func TestResolve_PermissionRemoved_IsFoundAgain(t *testing.T) {
	s := settled(t)
	c, soft := s.check("a"), s.reference()
	rules := s.kind.Rules()
	rules[0].Verbs = slices.DeleteFunc(rules[0].Verbs, func(verb string) bool { return verb == "create" })
	s.grant(rules...)
	// The cached answer is valid until the API server contradicts it.
	s.Eventually(func() error {
		_, _, err := s.requests.Create(t.Context(), s.draft(c, Object{"m" + s.clock.Now().Format("150405"), "uid-1"}))
		s.clock.Step(missingFor)
		return err
	}).Should(MatchError(ContainSubstring("if the manager lacks a permission, apply a ClusterRole that allows it, such as remedy-reboots, with the label remedy.cluster.x-k8s.io/aggregate-to-manager=true")))
	s.Expect(s.resolved(c, "", soft).Problem.Reason).To(Equal(remedyv1.ForbiddenReason))
	s.grant(s.kind.Rules()...)
	s.usable(c, soft)
}

func TestResolve_SameName_IsUnambiguous(t *testing.T) {
	s := settled(t)
	other := s.reference()
	other.Namespace = "elsewhere"
	all := s.requests.Resolve(t.Context(), s.check("a"), "", s.reference(), other)
	s.Expect(all[0].Usable()).To(BeTrue())
	s.Expect(all[1].Problem.Template).To(Equal("RebootTemplate/elsewhere/soft"))
}

func TestResolve_OtherNamespace_IsRejected(t *testing.T) {
	s := settled(t)
	config := s.config()
	c, err := client.New(config, client.Options{})
	s.Expect(err).ToNot(HaveOccurred())
	one, err := New(t.Context(), Options{Client: c, Config: config, Clock: s.clock, Namespace: "elsewhere"})
	s.Expect(err).ToNot(HaveOccurred())
	got := one.Resolve(t.Context(), s.check("a"), "", s.reference())[0]
	s.Expect(got.Problem.Detail).To(Equal("the manager monitors only namespace elsewhere: create the template there, or change the flag --namespace of the manager"))
}
