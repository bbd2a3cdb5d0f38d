// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateMachine creates a Machine with a healthy Node.
func (s *Stage) CreateMachine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.T.Helper()
	m := s.newMachine(name, changes...)
	// The Node comes first, because a Machine whose Node does not exist is unhealthy.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.NodeName(name)}, Spec: corev1.NodeSpec{ProviderID: m.Spec.ProviderID}}
	s.Expect(s.Nodes().Create(s.Ctx, node)).To(Succeed())
	s.SetReady(name, corev1.ConditionTrue, time.Hour)
	s.Create(m)
	before := m.DeepCopy()
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: s.NodeName(name)}
	s.Expect(s.Admin.Status().Patch(s.Ctx, m, client.MergeFrom(before))).To(Succeed())
	return m
}

// newMachine returns a Machine that does not exist yet.
func (s *Stage) newMachine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod", "pool": "workers"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)},
		},
	}}
	m.Spec.ClusterName, m.Spec.ProviderID = "prod", "test:///"+s.Namespace+"/"+name
	m.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "AnyMachine",
		Name:     name,
	}
	for _, change := range changes {
		change(m)
	}
	return m
}

// CreateUnhealthyMachine creates a Machine whose Node has had Ready=Unknown for ten minutes.
func (s *Stage) CreateUnhealthyMachine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.T.Helper()
	m := s.CreateMachine(name, changes...)
	s.SetReady(name, corev1.ConditionUnknown, 10*time.Minute)
	return m
}

// CreateMachineWithoutNode creates a Machine without a nodeRef.
func (s *Stage) CreateMachineWithoutNode(name string, labels map[string]string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.T.Helper()
	label := func(m *clusterv1.Machine) { maps.Copy(m.Labels, labels) }
	m := s.newMachine(name, append([]func(*clusterv1.Machine){label}, changes...)...)
	s.Create(m)
	return m
}

// CreateMachineSet creates an owner of Machines.
func (s *Stage) CreateMachineSet(name string, replicas int32) *clusterv1.MachineSet {
	s.T.Helper()
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	set.Spec.ClusterName, set.Spec.Replicas = "prod", &replicas
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "workers"}
	set.Spec.Template.Labels = map[string]string{"pool": "workers"}
	set.Spec.Template.Spec.ClusterName = "prod"
	set.Spec.Template.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	set.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "infrastructure.cluster.x-k8s.io",
		Kind:     "AnyMachineTemplate",
		Name:     name,
	}
	s.Create(set)
	return set
}

// Machines are all Machines of the namespace.
func (s *Stage) Machines() []clusterv1.Machine {
	s.T.Helper()
	all := &clusterv1.MachineList{}
	s.Expect(s.Admin.List(s.Ctx, all, client.InNamespace(s.Namespace))).To(Succeed())
	return all.Items
}

// SetFinalizers sets the finalizers of a Machine. Without a finalizer, it can be deleted.
func (s *Stage) SetFinalizers(m *clusterv1.Machine, finalizers ...string) {
	s.T.Helper()
	s.Change(m, func() { m.Finalizers = finalizers })
}

// SetOwnerAnswer sets OwnerRemediated=False with a reason, as the owner of a Machine does, in both generations of conditions.
func (s *Stage) SetOwnerAnswer(m *clusterv1.Machine, reason string) {
	s.T.Helper()
	s.ChangeStatus(m, func() {
		conditions.Set(
			m,
			metav1.Condition{
				Type:    clusterv1.MachineOwnerRemediatedCondition,
				Status:  metav1.ConditionFalse,
				Reason:  reason,
				Message: "Message of the owner",
			},
		)
		older := reason
		if reason == clusterv1.MachineSetMachineRemediationDeferredReason {
			// v1beta1 has no such reason.
			older = clusterv1.WaitingForRemediationV1Beta1Reason
		}
		deprecated.MarkFalse(
			m,
			clusterv1.MachineOwnerRemediatedV1Beta1Condition,
			older,
			clusterv1.ConditionSeverityWarning,
			"Message of the owner",
		)
	})
}

// RemoveOwnerAnswer removes OwnerRemediated from a Machine, as its owner does when the Machine is healthy.
func (s *Stage) RemoveOwnerAnswer(m *clusterv1.Machine) {
	s.T.Helper()
	s.ChangeStatus(m, func() {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
		deprecated.Delete(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
	})
}

// controlPlaneLease is locked by a test of a control plane, because all stages share the cluster that has the control-plane Lease.
var controlPlaneLease sync.Mutex

// LockControlPlane keeps other tests from the control-plane Lease until the test ends.
func LockControlPlane(t *testing.T) {
	t.Helper()
	controlPlaneLease.Lock()
	t.Cleanup(func() {
		defer controlPlaneLease.Unlock()
		kubelet, err := client.New(Workload.Admin, client.Options{})
		NewWithT(t).Expect(err).ToNot(HaveOccurred())
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"}}
		// A test that fails does not delete it.
		NewWithT(t).Expect(client.IgnoreNotFound(kubelet.Delete(context.WithoutCancel(t.Context()), lease))).To(Succeed())
	})
}

const etcdMemberHealthy = "EtcdMemberHealthy"

// CreateControlPlaneMachine creates a Machine of the control plane with a healthy etcd member.
func (s *Stage) CreateControlPlaneMachine(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.T.Helper()
	m := s.CreateMachine(name, append([]func(*clusterv1.Machine){func(m *clusterv1.Machine) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod", clusterv1.MachineControlPlaneLabel: "", "pool": "control"}
		m.OwnerReferences[0].APIVersion, m.OwnerReferences[0].Kind = "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"
	}}, changes...)...)
	s.SetEtcdMember(m, metav1.ConditionTrue)
	return m
}

// SetEtcdMember sets the condition of an etcd member, as the owner of the control plane does.
func (s *Stage) SetEtcdMember(m *clusterv1.Machine, status metav1.ConditionStatus) {
	s.T.Helper()
	s.ChangeStatus(m, func() { conditions.Set(m, metav1.Condition{Type: etcdMemberHealthy, Status: status, Reason: "Test"}) })
}

// CreateControlPlane creates n Machines of the control plane.
func (s *Stage) CreateControlPlane(n int) []*clusterv1.Machine {
	s.T.Helper()
	all := make([]*clusterv1.Machine, n)
	for i := range all {
		all[i] = s.CreateControlPlaneMachine(fmt.Sprintf("cp-%d", i+1))
	}
	return all
}

// ControlPlaneLeaseHolder is the holder of the control-plane Lease; empty if there is none.
func (s *Stage) ControlPlaneLeaseHolder() string {
	s.T.Helper()
	lease := &coordinationv1.Lease{}
	if err := s.Workload.Get(s.Ctx, Key("kube-system", "remedy-control-plane"), lease); err != nil {
		s.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
