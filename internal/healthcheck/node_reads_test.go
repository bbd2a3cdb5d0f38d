// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"net/http"
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// setKubeconfig replaces the kubeconfig of the Cluster.
func setKubeconfig(s *stage.Stage, config *rest.Config) {
	s.T.Helper()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = s.Namespace, "prod-kubeconfig"
	s.Change(secret, func() { secret.Data = map[string][]byte{"value": s.Kubeconfig(config)} })
}

// useRestrictedUser replaces the user of the kubeconfig by one with only these permissions, and the permission to be probed.
func useRestrictedUser(s *stage.Stage, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	s.T.Helper()
	user := controlplane.User{Name: s.Namespace}
	role := stage.Workload.Grant(s.T, user, "", append(rules, rbacv1.PolicyRule{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}})...)
	config := stage.Workload.ConfigOf(s.T, user)
	if s.Proxy != nil {
		var err error
		config, err = s.Proxy.Config(config)
		s.Expect(err).ToNot(HaveOccurred())
	}
	setKubeconfig(s, config)
	return role
}

// readNodes is the permission to read Nodes.
var readNodes = rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}

// Two Secrets were swapped: the Nodes of all Machines are healthy, but in another cluster. The Machines are not judged as Machines without
// a Node.
func TestKubeconfig_OfOtherCluster_JudgesNoMachine(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	for i := range 6 {
		s.CreateMachine(fmt.Sprintf("m-%d", i))
	}
	setKubeconfig(s, stage.Management.Admin)
	check := s.CreateCheck("workers")
	c := s.Start()
	// The instance checks regularly whether it is the right cluster by now.
	c.NeverIdle = true
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "False WrongCluster")
	s.Expect(stage.CheckMessage(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("this may be another cluster"))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False WrongCluster"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(6)))
	for _, m := range s.Machines() {
		s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m)).To(BeEmpty())
	}

	// One existing Node shows that it is the right cluster. Then the other Nodes were deleted.
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.NodeName("m-0")},
		Spec:       corev1.NodeSpec{ProviderID: s.Node("m-0").Spec.ProviderID},
	}
	s.Expect(stage.Management.API.Create(s.Ctx, node)).To(Succeed())
	defer func() { s.Expect(stage.Management.API.Delete(s.Ctx, node)).To(Succeed()) }()
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "True ClusterReachable")
}

// The permission to read Nodes is revoked, and the running watch is interrupted. A Machine that was healthy then is not reported as healthy
// any more.
func TestNodeWatch_Forbidden_DropsEarlierReads(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy)
	role := useRestrictedUser(
		s,
		readNodes,
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get"}},
	)
	m := s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	granted := role.DeepCopy()
	revoked := role.DeepCopy()
	revoked.Rules = revoked.Rules[1:]
	s.Expect(s.Workload.Patch(s.Ctx, revoked, client.MergeFrom(granted))).To(Succeed())
	restricted := stage.Workload.As(t, controlplane.User{Name: s.Namespace})
	s.Eventually(func() bool { return apierrors.IsForbidden(restricted.List(s.Ctx, &corev1.NodeList{})) }).Should(BeTrue())
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "False NodesUnreadable")
	s.Expect(stage.CheckMessage(remedyv1.ClusterReachableCondition)(check)).To(ContainSubstring("lacks a permission"))
	s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(1)))
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)))

	// The instance recovers when the permission is restored.
	restored := revoked.DeepCopy()
	restored.Rules = granted.Rules
	s.Expect(s.Workload.Patch(s.Ctx, restored, client.MergeFrom(revoked))).To(Succeed())
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "True ClusterReachable")
	s.Expect(check.Status.CurrentHealthy).To(HaveValue(BeEquivalentTo(0)), "Nodes that were read before the watch was forbidden are not used")
	s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, "False UnhealthyNode")
}

// The user of the kubeconfig has no permission but to be probed.
func TestNodes_Forbidden_CheckIsNotReady(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	useRestrictedUser(s)
	s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckMessage(remedyv1.ClusterReachableCondition), ContainSubstring("allow it to list nodes")))
	s.Expect(stage.CheckCondition(remedyv1.ClusterReachableCondition)(check)).To(Equal("False NodesUnreadable"))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False NodesUnreadable"))
}

// An API server that does not serve the group of medik8s answers with an error about its version. There are no checks of medik8s then.
func TestMedik8s_VersionOfMissingGroup_IsNotServed(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithWorkloadWrites)
	s.AnswerWorkload(func(r *http.Request) *http.Response {
		if r.URL.Path != "/apis/remediation.medik8s.io/v1alpha1" {
			return nil
		}
		return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{}, Body: http.NoBody, Request: r}
	})
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	s.CreateUnhealthyNode("n-3")
	s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "reboot")
	})
	s.Start()
	s.WaitRequest(remediator.Example, s.NodeName("n-3"))
}
