// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// giveUp lets a kind be served in another version only.
func (s *stage) giveUp(kind remediator.Kind, version string) {
	s.t.Helper()
	known := scheme(s.t)
	s.Expect(apiextensionsv1.AddToScheme(known)).To(Succeed())
	admin, err := client.New(management.Admin, client.Options{Scheme: known})
	s.Expect(err).ToNot(HaveOccurred())
	for _, crd := range kind.CRDs() {
		s.Expect(admin.Get(s.ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		// The API server itself writes to it at any time, and not to what is changed here.
		before := client.MergeFrom(crd.DeepCopy())
		next := *crd.Spec.Versions[0].DeepCopy()
		next.Name = version
		crd.Spec.Versions[0].Served, crd.Spec.Versions[0].Storage = false, false
		crd.Spec.Versions = append(crd.Spec.Versions, next)
		s.Expect(admin.Patch(s.ctx, crd, before)).To(Succeed())
	}
}

// TestARequestIsNotLostWithTheVersionThatItWasMadeIn: the remediator is upgraded, and does not serve the version any more that the check names.
func TestARequestIsNotLostWithTheVersionThatItWasMadeIn(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"while it is followed": false, "before a start": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			older := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
			newer := remediator.NewKind(s.namespace+".example.com", "v2", "SomeRemediation")
			s.Expect(management.InstallCRDObjects(older.CRDs()...)).To(Succeed())
			s.Expect(aggregate(s.ctx, older.Rules()...)).To(Succeed())
			s.sick("m-1")
			check := s.check("workers", by(s.template(older, "soft")))
			c := s.start()
			c.restless = true
			s.requested(older, "m-1")
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
			s.acts(older, remediator.Hangs)
			if restarts {
				c.stop()
			}
			s.giveUp(older, "v2")
			if restarts {
				s.start().restless = true
			}
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.TemplatesResolvedCondition), Equal("False KindNotServed")))
			s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) *remedyv1.RequestReference {
				if len(c.Status.UnhealthyTargets) == 0 {
					return nil
				}
				return c.Status.UnhealthyTargets[0].Request
			}, HaveValue(HaveField("APIVersion", newer.GroupVersion().String()))), "it goes on")
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
			s.Eventually(func() bool { return s.request(newer, "m-1")().GetDeletionTimestamp() != nil }).Should(BeTrue())
			s.Expect(s.request(newer, "m-1")().GetAnnotations()).To(HaveKey(remedyv1.TimedOutAnnotation))
			s.Expect(s.checks()).To(HaveLen(1))
			s.acts(newer, remediator.Hangs)
			s.Eventually(s.checks).Should(BeEmpty())
			s.Expect(s.request(newer, "m-1")()).To(BeNil())
		})
	}
}
