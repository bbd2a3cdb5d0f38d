// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Two Clusters of one namespace have a Node of the same name each. A change of one Node is reported at once for its own Machine, and only
// for that one.
func TestEqualNodeNames_TwoClusters_AreNotMixedUp(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	one := s.CreateMachine("m-1")
	// The management cluster plays the second workload cluster.
	s.CreateCluster("other")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "other-kubeconfig"}}
	s.Change(secret, func() { secret.Data = map[string][]byte{"value": s.Kubeconfig(stage.Management.Admin)} })
	two := s.CreateMachineWithoutNode(
		"m-2",
		map[string]string{clusterv1.ClusterNameLabel: "other"},
		func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" },
	)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName("m-1")}, Spec: corev1.NodeSpec{ProviderID: two.Spec.ProviderID}}
	s.Create(node)
	t.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.Admin.Delete(s.Ctx, node))).To(Succeed()) })
	setReady := func(status corev1.ConditionStatus) {
		s.ChangeStatus(node, func() {
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-10 * time.Minute))},
			}
		})
	}
	setReady(corev1.ConditionTrue)
	s.ChangeStatus(two, func() { two.Status.NodeRef.Name = node.Name })

	first, second := s.CreateCheck("prod"), s.CreateCheck("other", func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = "other" })
	c := s.Start()
	c.NeverIdle = true // Wake triggers only the checks of one Cluster.
	health := func(m *clusterv1.Machine) string {
		return stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m)
	}
	for _, m := range []*clusterv1.Machine{one, two} {
		s.Eventually(stage.Get(s, m)).Should(WithTransform(health, Equal(stage.IsHealthy)))
	}
	s.Eventually(stage.Get(s, first)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.Eventually(stage.Get(s, second)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))

	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(stage.Get(s, one)).Should(WithTransform(health, Equal(stage.IsUnhealthy)))
	setReady(corev1.ConditionUnknown)
	s.Eventually(stage.Get(s, two)).Should(WithTransform(health, Equal(stage.IsUnhealthy)))
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, one)).Should(WithTransform(health, Equal(stage.IsHealthy)))
	s.Expect(health(stage.Get(s, two)())).To(Equal(stage.IsUnhealthy), "only the other Machine has recovered")

	// The second Node is deleted. The first one, with the same name, does not count for its Machine.
	setReady(corev1.ConditionTrue)
	s.Eventually(stage.Get(s, two)).Should(WithTransform(health, Equal(stage.IsHealthy)))
	s.Expect(s.Admin.Delete(s.Ctx, node)).To(Succeed())
	s.Eventually(stage.Get(s, two)).Should(WithTransform(health, Equal("False "+clusterv1.MachineHealthCheckNodeDeletedReason)))
	s.Expect(health(stage.Get(s, one)())).To(Equal(stage.IsHealthy), "its own Node exists")
}
