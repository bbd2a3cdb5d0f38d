// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// readLeases is the permission to read the Lease of a kubelet.
var readLeases = rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get"}}

// changePermissions changes the permissions of the user of the workload cluster, and waits until the API server forbids the read of an
// object, if one is given.
func changePermissions(s *stage.Stage, role *rbacv1.ClusterRole, forbidden client.Object, rules ...rbacv1.PolicyRule) {
	s.T.Helper()
	before := role.DeepCopy()
	role.Rules = append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}})
	s.Expect(s.Workload.Patch(s.Ctx, role, client.MergeFrom(before))).To(Succeed())
	if forbidden == nil {
		return
	}
	user := stage.Workload.As(s.T, controlplane.User{Name: s.Namespace})
	s.Eventually(func() bool {
		return apierrors.IsForbidden(user.Get(s.Ctx, stage.Key(corev1.NamespaceNodeLease, "no-node"), forbidden))
	}).Should(BeTrue())
}

// A current Lease would show that the kubelet still runs, so no remediation starts if the Lease cannot be read. Running remediations
// continue, and the cleanup does not need the Lease.
func TestNodeLease_Unreadable_StartsNothingAndCleansUp(t *testing.T) {
	t.Parallel()
	for by, withTemplate := range map[string]bool{"external remediation": true, "owner remediation": false} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			role := useRestrictedUser(s, readNodes, readLeases)
			first := s.CreateUnhealthyMachine("m-1")
			check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				if withTemplate {
					stage.ByNewTemplate(s)(spec)
				}
			})
			c := s.Start()
			c.NeverIdle = true
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
			changePermissions(s, role, &coordinationv1.Lease{}, readNodes)
			second := s.CreateUnhealthyMachine("m-2")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-2"), Equal("Blocked PreflightFailed")))
			s.Eventually(stage.Get(s, check)).
				Should(WithTransform(messageOfTarget("m-2"), ContainSubstring("the Lease of its kubelet could not be read")))
			c.ReconcileAll()
			s.Expect(stage.Decision("m-1")(stage.Get(s, check)())).To(Equal("Remediating "))
			s.Expect(s.Request(remediator.Metal3, "m-2")()).To(BeNil())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, second)())).To(BeEmpty())

			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			s.Eventually(s.Checks).Should(BeEmpty())
			s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty())
			for _, m := range []*clusterv1.Machine{first, second} {
				s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			}
		})
	}
}

// A Machine that has failed, or whose remediation a user has requested, is remediated although its Lease cannot be read. Only a Machine
// whose single problem is an Unknown Node is blocked.
func TestNodeLease_Unreadable_BlocksOnlyUnknownNodes(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	useRestrictedUser(s, readNodes)
	unknown := s.CreateUnhealthyMachine("m-1")
	annotated := s.CreateUnhealthyMachine("m-2", func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
	})
	failed := s.CreateUnhealthyMachine("m-3")
	s.ChangeStatus(failed, func() {
		message := &clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: ptr.To("VM deleted")} //nolint:staticcheck // providers still set it
		failed.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: message}            //nolint:staticcheck // as above
	})
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	for _, m := range []*clusterv1.Machine{annotated, failed} {
		s.Eventually(stage.Get(s, m)).
			Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)), m.Name)
	}
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked PreflightFailed")))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(messageOfTarget("m-1"), ContainSubstring(
		"the Lease of its kubelet could not be read: the user of the cluster's kubeconfig lacks a permission; "+
			"allow it to get leases.coordination.k8s.io in namespace kube-node-lease")))
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, unknown)())).To(BeEmpty())
}
