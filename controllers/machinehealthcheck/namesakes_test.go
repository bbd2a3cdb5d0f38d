// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestEqualNodeNamesInTwoClustersLoseNothing: two Clusters of one namespace, and in each a Node of the same name. What happens to one of them is
// told of its own Machine, at once, and the other one is left in peace.
func TestEqualNodeNamesInTwoClustersLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	one := s.machine("m-1")
	// The management cluster plays the second workload cluster.
	s.makeCluster("other")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other-kubeconfig"}}
	s.change(secret, func() { secret.Data = map[string][]byte{"value": s.kubeconfig(management.Admin)} })
	two := s.expected("m-2", map[string]string{clusterv1.ClusterNameLabel: "other"}, func(m *clusterv1.Machine) { m.Spec.ClusterName = "other" })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("m-1")}, Spec: corev1.NodeSpec{ProviderID: two.Spec.ProviderID}}
	s.create(node)
	t.Cleanup(func() { s.Expect(client.IgnoreNotFound(s.admin.Delete(s.ctx, node))).To(Succeed()) })
	turn := func(status corev1.ConditionStatus) {
		s.changeStatus(node, func() {
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-10 * time.Minute))}}
		})
	}
	turn(corev1.ConditionTrue)
	s.changeStatus(two, func() { two.Status.NodeRef.Name = node.Name })

	first, second := s.check("prod"), s.check("other", func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = "other" })
	c := s.start()
	c.restless = true // A nudge wakes the checks of one Cluster only.
	health := func(m *clusterv1.Machine) string { return says(clusterv1.MachineHealthCheckSucceededCondition)(m) }
	for _, m := range []*clusterv1.Machine{one, two} {
		s.Eventually(get(s, m)).Should(WithTransform(health, Equal(isWell)))
	}
	s.Eventually(get(s, first)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	s.Eventually(get(s, second)).Should(WithTransform(healthy, BeEquivalentTo(1)))

	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(get(s, one)).Should(WithTransform(health, Equal(isSick)))
	turn(corev1.ConditionUnknown)
	s.Eventually(get(s, two)).Should(WithTransform(health, Equal(isSick)))
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(get(s, one)).Should(WithTransform(health, Equal(isWell)))
	s.Expect(health(get(s, two)())).To(Equal(isSick), "that was the other one's recovery")

	// The other one is gone, and its namesake is no comfort.
	turn(corev1.ConditionTrue)
	s.Eventually(get(s, two)).Should(WithTransform(health, Equal(isWell)))
	s.Expect(s.admin.Delete(s.ctx, node)).To(Succeed())
	s.Eventually(get(s, two)).Should(WithTransform(health, Equal("False "+clusterv1.MachineHealthCheckNodeDeletedReason)))
	s.Expect(health(get(s, one)())).To(Equal(isWell), "its own Node is there")
}
