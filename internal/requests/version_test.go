// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"

	. "github.com/onsi/gomega"
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

// TestWatch_VersionRemoved_UsesServedVersion: a remediator gives up an old version while there are requests, which were made in it.
func TestWatch_VersionRemoved_UsesServedVersion(t *testing.T) {
	s := settled(t)
	c, kind := s.check("a"), s.reference().RequestKind()
	s.create(c, Object{"m1", "uid-1"})
	s.redefine(versions(s.kind, "v1", "v2")...)
	var found []*Request
	s.Eventually(func(g Gomega) {
		var err error
		s.clock.Step(missingFor)
		found, err = s.requests.OfCheck(t.Context(), c, kind)
		if err == nil {
			g.Expect(namesOf(found)).To(Equal([]string{"m1"}), "what is not known is not taken for nothing")
			g.Expect(found[0].Kind.Version).To(Equal("v2"))
		}
		g.Expect(err).ToNot(HaveOccurred())
	}).Should(Succeed())
	named, known := s.requests.Get(kind, found[0].Key())
	s.Expect(known).To(BeTrue())
	s.Expect(named).To(Equal(found[0]))
	live, err := s.requests.ListLive(t.Context(), c, kind)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(live).To(ConsistOf(HaveField("UID", found[0].UID)))
	s.Expect(found[0].Template.Same(s.reference())).To(BeTrue())
	s.notServed(c, "RebootTemplate")

	s.kind = remediator.NewKind(s.kind.Group, "v2", "Reboot")
	s.Expect(s.requests.StopRemediator(t.Context(), found[0], noon, false)).To(Succeed())
	s.Expect(s.there("m1").GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(s.requests.Delete(t.Context(), found[0])).To(Succeed())
	s.Expect(s.there("m1")).To(BeNil())
	s.Eventually(func() ([]*Request, error) { return s.requests.OfCheck(t.Context(), c, kind) }).Should(BeEmpty())

	// Only where no version is left there cannot be any.
	s.uninstall(s.kind.CRDs()...)
	s.Eventually(func() string {
		s.clock.Step(missingFor)
		_, err := s.requests.OfCheck(t.Context(), c, kind)
		if err == nil {
			return ""
		}
		return err.Error()
	}).Should(ContainSubstring(NotServed))
	live, err = s.requests.ListLive(t.Context(), c, kind)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(live).To(BeEmpty())
}
