// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// machine makes a Machine with a healthy Node.
func (s *stage) machine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod", "pool": "workers"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)}},
	}}
	m.Spec.ClusterName, m.Spec.ProviderID = "prod", "test:///"+s.namespace+"/"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachine", Name: name}
	for _, change := range changes {
		change(m)
	}
	// Whoever looks meanwhile must not see a Machine whose Node is gone.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node(name)}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	s.Expect(s.kubelet.Create(s.ctx, node)).To(Succeed())
	s.ready(name, corev1.ConditionTrue, time.Hour)
	s.create(m)
	before := m.DeepCopy()
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: s.node(name)}
	s.Expect(s.admin.Status().Patch(s.ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// node is the name of the Node of a Machine: the workload cluster is shared by all tests.
func (s *stage) node(machine string) string { return s.namespace + "-" + machine }

// ready sets the Ready condition of a Machine's Node, for so long already.
func (s *stage) ready(machine string, status corev1.ConditionStatus, lasting time.Duration) {
	s.t.Helper()
	node := &corev1.Node{}
	s.Expect(s.kubelet.Get(s.ctx, client.ObjectKey{Name: s.node(machine)}, node)).To(Succeed())
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, Reason: "Test", LastTransitionTime: metav1.NewTime(time.Now().Add(-lasting)), LastHeartbeatTime: metav1.Now(),
	}}
	// Who asks meanwhile whether it is ready is told that it is: before it is, and as long as it was.
	if status == corev1.ConditionTrue {
		s.readiness.Store(machine, status)
	} else if s.book != nil && s.isReady(machine) {
		s.Eventually(s.book.missing).Should(BeEmpty(), "what was done while it was ready is written down")
	}
	s.Expect(s.kubelet.Status().Patch(s.ctx, node, client.MergeFrom(before))).To(Succeed())
	s.readiness.Store(machine, status)
}

// isReady says whether the Node of a Machine is ready now.
func (s *stage) isReady(machine string) bool {
	status, found := s.readiness.Load(machine)
	return found && status == corev1.ConditionTrue
}

// check makes a check of all workers.
func (s *stage) check(name string, changes ...func(*remedyv1.MachineHealthCheckSpec)) *remedyv1.MachineHealthCheck {
	s.t.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	c.Spec.ClusterName = "prod"
	c.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
	c.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{
		{Type: "Ready", Status: "Unknown", Timeout: lasting(5 * time.Minute)}, {Type: "Ready", Status: "False", Timeout: lasting(5 * time.Minute)},
	}
	for _, change := range changes {
		change(&c.Spec)
	}
	s.create(c)
	return c
}

func lasting(d time.Duration) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

// checks and machines are those of the namespace.
func (s *stage) checks() []remedyv1.MachineHealthCheck {
	s.t.Helper()
	all := &remedyv1.MachineHealthCheckList{}
	s.Expect(s.admin.List(s.ctx, all, client.InNamespace(s.namespace))).To(Succeed())
	return all.Items
}

func (s *stage) machines() []clusterv1.Machine {
	s.t.Helper()
	all := &clusterv1.MachineList{}
	s.Expect(s.admin.List(s.ctx, all, client.InNamespace(s.namespace))).To(Succeed())
	return all.Items
}

// says is what a condition of a Machine says.
func says(kind string) func(*clusterv1.Machine) string {
	return func(m *clusterv1.Machine) string {
		c := conditions.Get(m, kind)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

// tells is what a condition of a check says.
func tells(kind string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, c := range check.Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
}

// holds is why a check does nothing for a Machine.
func holds(machine string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, t := range check.Status.UnhealthyTargets {
			if t.Name == machine {
				return string(t.Decision) + " " + string(t.HoldReason)
			}
		}
		return ""
	}
}

// nodeOf is the Node of a Machine.
func (s *stage) nodeOf(machine string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.Expect(s.kubelet.Get(s.ctx, client.ObjectKey{Name: s.node(machine)}, node)).To(Succeed())
	return node
}

// changeNode changes the Node of a Machine.
func (s *stage) changeNode(machine string, change func(*corev1.Node)) {
	s.t.Helper()
	node := s.nodeOf(machine)
	before := node.DeepCopy()
	change(node)
	s.Expect(s.kubelet.Patch(s.ctx, node, client.MergeFrom(before))).To(Succeed())
}

// keepMachine sets the finalizers of a Machine: with none it can go.
func (s *stage) keepMachine(m *clusterv1.Machine, finalizers ...string) {
	s.t.Helper()
	s.change(m, func() { m.Finalizers = finalizers })
}

// machineSet makes the owner of Machines.
func (s *stage) machineSet(name string, replicas int32) *clusterv1.MachineSet {
	s.t.Helper()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	set.Spec.ClusterName, set.Spec.Replicas = "prod", &replicas
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "workers"}
	set.Spec.Template.Labels = map[string]string{"pool": "workers"}
	set.Spec.Template.Spec.ClusterName = "prod"
	set.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	set.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AnyMachineTemplate", Name: name}
	s.create(set)
	return set
}

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
