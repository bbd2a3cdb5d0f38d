// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// leadTo makes the kubeconfig of the Cluster lead somewhere else.
func (s *stage) leadTo(config *rest.Config) {
	s.t.Helper()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = s.namespace, "prod-kubeconfig"
	s.change(secret, func() { secret.Data = map[string][]byte{"value": s.kubeconfig(config)} })
}

// allow lets nobody but a user with these rights, and the right to be probed, into the workload cluster.
func (s *stage) allow(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	s.t.Helper()
	name := s.namespace
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}})}
	s.Expect(s.kubelet.Create(s.ctx, role)).To(Succeed())
	s.Expect(s.kubelet.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	config, err := guest.Config(controlplane.User{Name: name})
	s.Expect(err).ToNot(HaveOccurred())
	if s.proxy != nil {
		config, err = s.proxy.Config(config)
		s.Expect(err).ToNot(HaveOccurred())
	}
	s.leadTo(config)
	return role
}

// nodeRights are all that is needed to read Nodes.
var nodeRights = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}

// TestAKubeconfigOfAnotherClusterCondemnsNobody has Secrets swapped: the Nodes are well, and elsewhere.
func TestAKubeconfigOfAnotherClusterCondemnsNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 6 {
		s.machine(fmt.Sprintf("m-%d", i))
	}
	s.leadTo(management.Admin)
	check := s.check("workers")
	c := s.start()
	// It asks again now and then whether it is the right one by now.
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False NoKnownNode")))
	s.Expect(message(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("this may be another cluster"))
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False NotReady"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(6)))
	for _, m := range s.machines() {
		s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(&m)).To(BeEmpty())
	}

	// The first Node that is there shows that it is the right one after all, and the others are not.
	management, err := client.New(management.Admin, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("m-0")}, Spec: corev1.NodeSpec{ProviderID: s.nodeOf("m-0").Spec.ProviderID}}
	s.Expect(management.Create(s.ctx, node)).To(Succeed())
	defer func() { s.Expect(management.Delete(s.ctx, node)).To(Succeed()) }()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
}

// TestASickNodeIsNotCalledHealthyWhenItsWatchIsRefused takes the right to list Nodes away, and then the watch that was begun with it.
func TestASickNodeIsNotCalledHealthyWhenItsWatchIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, withProxy)
	role := s.allow(nodeRights, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}})
	m := s.machine("m-1")
	check := s.check("workers")
	c := s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	rights := role.DeepCopy()
	withdrawn := role.DeepCopy()
	withdrawn.Rules = withdrawn.Rules[1:]
	s.Expect(s.kubelet.Patch(s.ctx, withdrawn, client.MergeFrom(rights))).To(Succeed())
	user, err := guest.Config(controlplane.User{Name: role.Name})
	s.Expect(err).ToNot(HaveOccurred())
	guestUser, err := client.New(user, client.Options{Scheme: scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	s.Eventually(func() bool { return apierrors.IsForbidden(guestUser.List(s.ctx, &corev1.NodeList{})) }).Should(BeTrue())
	s.Expect(s.proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Expect(s.proxy.Set(faults.Pass)).To(Succeed())
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False NodesUnreadable")))
	s.Expect(message(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("may not read that"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(1)))
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)))

	// It heals by itself.
	restored := withdrawn.DeepCopy()
	restored.Rules = rights.Rules
	s.Expect(s.kubelet.Patch(s.ctx, restored, client.MergeFrom(withdrawn))).To(Succeed())
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)), "what was read before the watch was refused is not believed again")
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal("False UnhealthyNode")))
}

// TestACheckIsNotReadyWhenNoNodeCanBeRead has a kubeconfig whose user may do nothing but be probed.
func TestACheckIsNotReadyWhenNoNodeCanBeRead(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.allow()
	s.machine("m-1")
	check := s.check("workers")
	c := s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(message(remedyv1.ClusterReachableCondition), ContainSubstring("allow it to get, list and watch Nodes")))
	s.Expect(tells(remedyv1.ClusterReachableCondition)(check)).To(Equal("False NodesUnreadable"))
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False NotReady"))
}

// TestAHoldSaysWhatCouldNotBeReadAgain has a user that may read Nodes, and not their Leases.
func TestAHoldSaysWhatCouldNotBeReadAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.allow(nodeRights)
	s.machine("m-1")
	s.ready("m-1", corev1.ConditionUnknown, time.Hour)
	check := s.check("workers")
	c := s.start()
	c.restless = true
	said := func(check *remedyv1.MachineHealthCheck) string {
		for _, target := range check.Status.UnhealthyTargets {
			if target.HoldReason == "NotConfirmed" {
				return target.Message
			}
		}
		return ""
	}
	s.Eventually(get(s, check)).Should(WithTransform(said, ContainSubstring("the Lease of its kubelet could not be read: the user of the cluster's kubeconfig may not read that")))
	s.Expect(said(check)).To(ContainSubstring("Leases"))
}
