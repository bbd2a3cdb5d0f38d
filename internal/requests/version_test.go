// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// versions are the definitions of a kind that is stored and served in the last of these versions, and known in all.
func versions(kind remediator.Kind, names ...string) []*apiextensionsv1.CustomResourceDefinition {
	crds := kind.CRDs()
	for _, crd := range crds {
		first := crd.Spec.Versions[0]
		crd.Spec.Versions = nil
		for i, name := range names {
			version := *first.DeepCopy()
			version.Name, version.Served, version.Storage = name, i == len(names)-1, i == len(names)-1
			crd.Spec.Versions = append(crd.Spec.Versions, version)
		}
	}
	return crds
}

// redefine gives definitions that are there these versions.
func (s *scene) redefine(crds ...*apiextensionsv1.CustomResourceDefinition) {
	s.t.Helper()
	for _, crd := range crds {
		live := &apiextensionsv1.CustomResourceDefinition{}
		s.Expect(admin.Get(s.t.Context(), client.ObjectKeyFromObject(crd), live)).To(Succeed())
		// The API server itself writes to it at any time, and not to what is changed here.
		before := client.MergeFrom(live.DeepCopy())
		live.Spec.Versions = crd.Spec.Versions
		s.Expect(admin.Patch(s.t.Context(), live, before)).To(Succeed())
	}
}

// TestRequestsAreFollowedInTheVersionThatIsServed: a remediator gives up an old version while there are requests, which were made in it.
func TestRequestsAreFollowedInTheVersionThatIsServed(t *testing.T) {
	s := settled(t)
	c, kind := s.check("a"), s.reference().RequestKind()
	s.create(c, Object{"m1", "uid-1"})
	s.redefine(versions(s.kind, "v1", "v2")...)
	var found []*Found
	s.Eventually(func(g Gomega) {
		var err error
		s.clock.Step(missingFor)
		found, err = s.requests.Of(t.Context(), c, kind)
		if err == nil {
			g.Expect(namesOf(found)).To(Equal([]string{"m1"}), "what is not known is not taken for nothing")
			g.Expect(found[0].Kind.Version).To(Equal("v2"))
		}
		g.Expect(err).ToNot(HaveOccurred())
	}).Should(Succeed())
	named, known := s.requests.Named(kind, found[0].Key())
	s.Expect(known).To(BeTrue())
	s.Expect(named).To(Equal(found[0]))
	live, err := s.requests.LiveOf(t.Context(), c, kind)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(live).To(ConsistOf(HaveField("UID", found[0].UID)))
	s.Expect(found[0].Template.Same(s.reference())).To(BeTrue())
	s.trouble(c, s.reference(), remedyv1.KindNotServedReason, "RebootTemplate is not served in "+s.kind.Group+"/v1: install the remediator, or correct the reference")

	s.kind = remediator.NewKind(s.kind.Group, "v2", "Reboot")
	s.Expect(s.requests.TellToStop(t.Context(), found[0], noon)).To(Succeed())
	s.Expect(s.there("m1").GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(s.requests.Delete(t.Context(), found[0])).To(Succeed())
	s.Expect(s.there("m1")).To(BeNil())
	s.Eventually(func() ([]*Found, error) { return s.requests.Of(t.Context(), c, kind) }).Should(BeEmpty())

	// Only where no version is left there cannot be any.
	s.uninstall(s.kind.CRDs()...)
	s.Eventually(func() string {
		s.clock.Step(missingFor)
		_, err := s.requests.Of(t.Context(), c, kind)
		if err == nil {
			return ""
		}
		return err.Error()
	}).Should(ContainSubstring(NotServed))
	live, err = s.requests.LiveOf(t.Context(), c, kind)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(live).To(BeEmpty())
}

// TestKindsAreFoundInEveryVersionOfTheirGroup: the one that is preferred need not serve them, nor that of their templates; and each is found once.
func TestKindsAreFoundInEveryVersionOfTheirGroup(t *testing.T) {
	s := newScene(t, "Reboot")
	both := remediator.NewKind(s.kind.Group, "v1", "Reset")
	crds := versions(both, "v1", "v3")
	for _, crd := range crds {
		crd.Spec.Versions[0].Served = true
	}
	apart := remediator.NewKind(s.kind.Group, "v1", "Fence")
	s.install(append(s.kind.CRDs(), crds...)...)
	s.install(apart.RequestCRD())
	s.install(remediator.NewKind(s.kind.Group, "v2", "Fence").TemplateCRD())
	s.grant(slices.Concat(s.kind.Rules(), both.Rules(), apart.Rules())...)
	s.Eventually(s.kinds).Should(ConsistOf(s.kind.GroupVersionKind, apart.GroupVersionKind, HaveField("Kind", "Reset")))
	s.Eventually(s.preferred).Should(Equal("v3"))
}

// preferred is the version that the group of a kind prefers.
func (s *scene) preferred() string {
	s.t.Helper()
	group := &metav1.APIGroup{}
	s.Expect(s.requests.discovery.Get().AbsPath("/apis", s.kind.Group).Do(s.t.Context()).Into(group)).To(Succeed())
	return group.PreferredVersion.Version
}

// TestKindsOfWhichTheRightsComeAreFoundThen: who has had them may get them back.
func TestKindsOfWhichTheRightsComeAreFoundThen(t *testing.T) {
	s := newScene(t, "Reboot")
	other := remediator.NewKind(s.kind.Group, "v1", "Reset")
	s.install(append(s.kind.CRDs(), other.CRDs()...)...)
	s.grant(s.kind.Rules()...)
	s.Eventually(s.kinds).Should(ConsistOf(s.kind.GroupVersionKind))
	s.grant(append(s.kind.Rules(), other.Rules()...)...)
	s.Eventually(func() ([]schema.GroupVersionKind, error) {
		s.clock.Step(missingFor)
		return s.kinds()
	}).Should(ConsistOf(s.kind.GroupVersionKind, other.GroupVersionKind))
}

// TestRightsThatAreNotListedAreAskedFor: some of those who decide about rights do not say which there are.
func TestRightsThatAreNotListedAreAskedFor(t *testing.T) {
	s := settled(t)
	s.through(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(request.URL.Path, "/selfsubjectrulesreviews"):
				return answered(request, http.StatusCreated, `{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","status":{"incomplete":true,"resourceRules":[],"nonResourceRules":[]}}`), nil
			case request.URL.Path == "/apis/apps/v1":
				return answered(request, http.StatusServiceUnavailable, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":503}`), nil
			}
			return next.RoundTrip(request)
		})
	})
	s.Eventually(s.kinds).Should(ContainElement(s.kind.GroupVersionKind), "and nothing is wrong for want of what may not be ours")
}
