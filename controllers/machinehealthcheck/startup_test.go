// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

const isLate = "False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason

// expected makes a Machine that does not name a Node yet.
func (s *stage) expected(name string, labels map[string]string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod", "pool": "workers"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)}},
	}}
	for key, value := range labels {
		m.Labels[key] = value
	}
	m.Spec.ClusterName, m.Spec.ProviderID = "prod", "test:///"+s.namespace+"/"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: name}
	for _, change := range changes {
		change(m)
	}
	s.create(m)
	return m
}

// TestWithoutAControlPlaneOnlyItsOwnMachinesCanBeLate: no worker can join what is not there. Nothing has to be read for that, and nothing can be: there
// is no way to the cluster yet.
func TestWithoutAControlPlaneOnlyItsOwnMachinesCanBeLate(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.changeStatus(s.cluster, func() { s.cluster.Status.Conditions[0].Status = metav1.ConditionFalse })
	s.Expect(s.cluster.Status.Conditions[0].Type).To(Equal(clusterv1.ClusterControlPlaneInitializedCondition))
	s.Expect(s.admin.Delete(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod-kubeconfig"}})).To(Succeed())
	first, worker := s.expected("m-1", map[string]string{clusterv1.MachineControlPlaneLabel: ""}), s.expected("m-2", nil)
	check := s.check("workers")
	c := s.start()
	c.restless = true // There is no connection to come to rest with.
	s.Eventually(get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.wait(time.Hour)
	s.Eventually(get(s, first)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isLate)))
	s.Eventually(get(s, first)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.pass()
	s.Expect(get(s, worker)().Status.Conditions).To(BeEmpty())
}

// TestAMachineWhoseNodeHasJoinedIsNotLate: Cluster API has not written yet which Node it is, but a live list has one with the provider ID of the Machine.
// Only when nobody has one is the Machine late.
func TestAMachineWhoseNodeHasJoinedIsNotLate(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	m := s.expected("m-1", nil)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node("m-1")}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	s.Expect(s.kubelet.Create(s.ctx, node)).To(Succeed())
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	s.wait(time.Hour)
	c.settle()
	s.Expect(get(s, m)().Status.Conditions).To(BeEmpty())
	s.Expect(get(s, check)().Status).To(And(HaveField("Undetermined", HaveValue(BeEquivalentTo(1))), HaveField("Unhealthy", HaveValue(BeEquivalentTo(0)))))

	s.Expect(s.kubelet.Delete(s.ctx, node)).To(Succeed())
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isLate)))
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}

// TestNobodyIsLateInAClusterThatCannotBeSeen: what cannot be read is no proof that nobody has joined.
func TestNobodyIsLateInAClusterThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.Expect(s.admin.Delete(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prod-kubeconfig"}})).To(Succeed())
	m := s.expected("m-1", nil)
	check := s.check("workers")
	c := s.start()
	c.restless = true // There is no connection to come to rest with.
	s.wait(time.Hour)
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), HavePrefix("False")))
	s.Eventually(get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.pass()
	s.Expect(get(s, m)().Status.Conditions).To(BeEmpty())
}
