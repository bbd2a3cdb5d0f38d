// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// leadTo makes the kubeconfig of the Cluster lead somewhere else.
func leadTo(s *stage.Stage, config *rest.Config) {
	s.T.Helper()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = s.Namespace, "prod-kubeconfig"
	s.Change(secret, func() { secret.Data = map[string][]byte{"value": s.Kubeconfig(config)} })
}

// allow lets nobody but a user with these rights, and the right to be probed, into the workload cluster.
func allow(s *stage.Stage, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	s.T.Helper()
	name := s.Namespace
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}}),
	}
	s.Expect(s.Workload.Create(s.Ctx, role)).To(Succeed())
	s.Expect(s.Workload.Create(s.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(Succeed())
	config, err := stage.Workload.Config(controlplane.User{Name: name})
	s.Expect(err).ToNot(HaveOccurred())
	if s.Proxy != nil {
		config, err = s.Proxy.Config(config)
		s.Expect(err).ToNot(HaveOccurred())
	}
	leadTo(s, config)
	return role
}

// nodeRights are all that is needed to read Nodes.
var nodeRights = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}

// TestAKubeconfigOfAnotherClusterCondemnsNobody has Secrets swapped: the Nodes are well, and elsewhere.
func TestAKubeconfigOfAnotherClusterCondemnsNobody(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for i := range 6 {
		s.CreateMachine(fmt.Sprintf("m-%d", i))
	}
	leadTo(s, stage.Management.Admin)
	check := s.CreateCheck("workers")
	c := s.Start()
	// It asks again now and then whether it is the right one by now.
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("False NoKnownNode")))
	s.Expect(stage.CheckMessage(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("this may be another cluster"))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False NotReady"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(6)))
	for _, m := range s.Machines() {
		s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m)).To(BeEmpty())
	}

	// The first Node that is there shows that it is the right one after all, and the others are not.
	management, err := client.New(stage.Management.Admin, client.Options{Scheme: stage.Scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.NodeName("m-0")},
		Spec:       corev1.NodeSpec{ProviderID: s.Node("m-0").Spec.ProviderID},
	}
	s.Expect(management.Create(s.Ctx, node)).To(Succeed())
	defer func() { s.Expect(management.Delete(s.Ctx, node)).To(Succeed()) }()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
}

// TestASickNodeIsNotCalledHealthyWhenItsWatchIsRefused takes the right to list Nodes away, and then the watch that was begun with it.
func TestASickNodeIsNotCalledHealthyWhenItsWatchIsRefused(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy)
	role := allow(
		s,
		nodeRights,
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	)
	m := s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	rights := role.DeepCopy()
	withdrawn := role.DeepCopy()
	withdrawn.Rules = withdrawn.Rules[1:]
	s.Expect(s.Workload.Patch(s.Ctx, withdrawn, client.MergeFrom(rights))).To(Succeed())
	user, err := stage.Workload.Config(controlplane.User{Name: role.Name})
	s.Expect(err).ToNot(HaveOccurred())
	guestUser, err := client.New(user, client.Options{Scheme: stage.Scheme(t)})
	s.Expect(err).ToNot(HaveOccurred())
	s.Eventually(func() bool { return apierrors.IsForbidden(guestUser.List(s.Ctx, &corev1.NodeList{})) }).Should(BeTrue())
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("False NodesUnreadable")))
	s.Expect(stage.CheckMessage(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("may not read that"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(1)))
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)))

	// It heals by itself.
	restored := withdrawn.DeepCopy()
	restored.Rules = rights.Rules
	s.Expect(s.Workload.Patch(s.Ctx, restored, client.MergeFrom(withdrawn))).To(Succeed())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)), "what was read before the watch was refused is not believed again")
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal("False UnhealthyNode")))
}

// TestACheckIsNotReadyWhenNoNodeCanBeRead has a kubeconfig whose user may do nothing but be probed.
func TestACheckIsNotReadyWhenNoNodeCanBeRead(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	allow(s)
	s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckMessage(remedyv1.ClusterReachableCondition), ContainSubstring("allow it to get, list and watch Nodes")))
	s.Expect(stage.CheckCondition(remedyv1.ClusterReachableCondition)(check)).To(Equal("False NodesUnreadable"))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False NotReady"))
}

// TestAHoldSaysWhatCouldNotBeReadAgain has a user that may read Nodes, and not their Leases.
func TestAHoldSaysWhatCouldNotBeReadAgain(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	allow(s, nodeRights)
	s.CreateMachine("m-1")
	s.SetReady("m-1", corev1.ConditionUnknown, time.Hour)
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	said := func(check *remedyv1.MachineHealthCheck) string {
		for _, target := range check.Status.UnhealthyTargets {
			if target.HoldReason == "NotConfirmed" {
				return target.Message
			}
		}
		return ""
	}
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(said, ContainSubstring("the Lease of its kubelet could not be read: "+
			"the user of the cluster's kubeconfig may not read that")))
	s.Expect(said(check)).To(ContainSubstring("Leases"))
}
