// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// leaseRights are what is needed to see whether a kubelet has renewed its Lease.
var leaseRights = rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get"}}

// reallow gives the user of the workload cluster other rights, and waits until the API server knows what is forbidden now, if anything is.
func (s *stage) reallow(role *rbacv1.ClusterRole, forbidden client.Object, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	before := role.DeepCopy()
	role.Rules = append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}})
	s.Expect(s.kubelet.Patch(s.ctx, role, client.MergeFrom(before))).To(Succeed())
	if forbidden == nil {
		return
	}
	config, err := guest.Config(controlplane.User{Name: role.Name})
	s.Expect(err).ToNot(HaveOccurred())
	user, err := client.New(config, client.Options{Scheme: scheme(s.t)})
	s.Expect(err).ToNot(HaveOccurred())
	s.Eventually(func() bool {
		return apierrors.IsForbidden(user.Get(s.ctx, keyOf(corev1.NamespaceNodeLease, "nobody"), forbidden))
	}).Should(BeTrue())
}

// TestWhereLeasesCannotBeReadNothingBeginsAndEverythingEnds: whether the kubelet is alive after all matters for what is begun only.
func TestWhereLeasesCannotBeReadNothingBeginsAndEverythingEnds(t *testing.T) {
	t.Parallel()
	for by, asked := range map[string]bool{"by requests": true, "by owners": false} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			role := s.allow(nodeRights, leaseRights)
			first := s.sick("m-1")
			check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				if asked {
					byTemplate(s)(spec)
				}
			})
			c := s.start()
			c.restless = true
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
			s.reallow(role, &coordinationv1.Lease{}, nodeRights)
			second := s.sick("m-2")
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-2"), Equal("Held NotConfirmed")))
			s.Expect(check.Status.UnhealthyTargets).To(ContainElement(HaveField("Message", ContainSubstring("the Lease of its kubelet could not be read"))))
			c.pass()
			s.Expect(holds("m-1")(get(s, check)())).To(Equal("Remediating "))
			s.Expect(s.request(remediator.Metal3, "m-2")()).To(BeNil())
			s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, second)())).To(BeEmpty())

			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
			s.Eventually(s.checks).Should(BeEmpty())
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
			for _, m := range []*clusterv1.Machine{first, second} {
				s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
			}
		})
	}
}

// TestALeaseThatCannotBeReadMattersToTheSilentOnly: a Machine that has failed, or that somebody wants to be remediated, may well have gone dark, too.
func TestALeaseThatCannotBeReadMattersToTheSilentOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.allow(nodeRights)
	silent := s.sick("m-1")
	wished := s.sick("m-2", func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
	})
	failed := s.sick("m-3")
	s.changeStatus(failed, func() {
		failed.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{
			V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: ptr.To("it is gone")}, //nolint:staticcheck // providers that set it mean it
		}
	})
	check := s.check("workers")
	c := s.start()
	c.restless = true
	for _, m := range []*clusterv1.Machine{wished, failed} {
		s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)), m.Name)
	}
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held NotConfirmed")))
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, silent)())).To(BeEmpty())
}
