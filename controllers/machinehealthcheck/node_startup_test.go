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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

const isLate = "False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason

// TestWithoutAControlPlaneOnlyItsOwnMachinesCanBeLate: no worker can join what is not there. Nothing has to be read for that, and nothing
// can be: there is no way to the cluster yet.
func TestWithoutAControlPlaneOnlyItsOwnMachinesCanBeLate(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.ChangeStatus(s.Cluster, func() { s.Cluster.Status.Conditions[0].Status = metav1.ConditionFalse })
	s.Expect(s.Cluster.Status.Conditions[0].Type).To(Equal(clusterv1.ClusterControlPlaneInitializedCondition))
	s.Expect(s.Admin.Delete(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}})).
		To(Succeed())
	first, worker := s.CreateMachineWithoutNode(
		"m-1",
		map[string]string{clusterv1.MachineControlPlaneLabel: ""},
	), s.CreateMachineWithoutNode(
		"m-2",
		nil,
	)
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true // There is no connection to come to rest with.
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.Advance(time.Hour)
	s.Eventually(stage.Get(s, first)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(isLate)))
	s.Eventually(stage.Get(s, first)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.ReconcileAll()
	s.Expect(stage.Get(s, worker)().Status.Conditions).To(BeEmpty())
}

// TestAMachineWhoseNodeHasJoinedIsNotLate: Cluster API has not written yet which Node it is, but a live list has one with the provider ID
// of the Machine. Only when nobody has one is the Machine late.
func TestAMachineWhoseNodeHasJoinedIsNotLate(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := s.CreateMachineWithoutNode("m-1", nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName("m-1")}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	s.Expect(s.Workload.Create(s.Ctx, node)).To(Succeed())
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	s.Advance(time.Hour)
	c.WaitIdle()
	s.Expect(stage.Get(s, m)().Status.Conditions).To(BeEmpty())
	s.Expect(stage.Get(s, check)().Status).
		To(And(HaveField("Undetermined", HaveValue(BeEquivalentTo(1))), HaveField("Unhealthy", HaveValue(BeEquivalentTo(0)))))

	s.Expect(s.Workload.Delete(s.Ctx, node)).To(Succeed())
	s.Eventually(stage.Get(s, m)).Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(isLate)))
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
}

// TestNobodyIsLateInAClusterThatCannotBeSeen: what cannot be read is no proof that nobody has joined.
func TestNobodyIsLateInAClusterThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.Expect(s.Admin.Delete(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}})).
		To(Succeed())
	m := s.CreateMachineWithoutNode("m-1", nil)
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true // There is no connection to come to rest with.
	s.Advance(time.Hour)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), HavePrefix("False")))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.ReconcileAll()
	s.Expect(stage.Get(s, m)().Status.Conditions).To(BeEmpty())
}
