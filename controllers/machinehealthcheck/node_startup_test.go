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

const startupTimedOut = "False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason

// A worker cannot join a cluster whose control plane is not initialized, so only control-plane Machines can exceed nodeStartupTimeout. The
// cluster has no kubeconfig yet, so nothing can be read from it.
func TestNodeStartup_NoControlPlaneYet_JudgesOnlyItsMachines(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.ChangeStatus(s.Cluster, func() { s.Cluster.Status.Conditions[0].Status = metav1.ConditionFalse })
	s.Expect(s.Cluster.Status.Conditions[0].Type).To(Equal(clusterv1.ClusterControlPlaneInitializedCondition))
	s.Expect(s.Admin.Delete(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}})).
		To(Succeed())
	controlPlane, worker := s.CreateMachineWithoutNode(
		"m-1",
		map[string]string{clusterv1.MachineControlPlaneLabel: ""},
	), s.CreateMachineWithoutNode(
		"m-2",
		nil,
	)
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true // There is no connection to the cluster, so the instance retries to connect.
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.Advance(time.Hour)
	s.WaitMachineCondition(controlPlane, clusterv1.MachineHealthCheckSucceededCondition, startupTimedOut)
	s.WaitMachineCondition(controlPlane, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.ReconcileAll()
	s.Expect(stage.Get(s, worker)().Status.Conditions).To(BeEmpty())
}

// Cluster API has not set the nodeRef yet, but a live list of the Nodes has one with the provider ID of the Machine. The Machine exceeds
// nodeStartupTimeout only if there is no such Node.
func TestNodeStartup_NodeJoinedWithoutNodeRef_DoesNotTimeOut(t *testing.T) {
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
	s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, startupTimedOut)
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// Remedy cannot list the Nodes of an unreachable cluster, so the Node of the Machine can have joined.
func TestNodeStartup_UnreachableCluster_DoesNotTimeOut(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.Expect(s.Admin.Delete(s.Ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "prod-kubeconfig"}})).
		To(Succeed())
	m := s.CreateMachineWithoutNode("m-1", nil)
	check := s.CreateCheck("workers")
	c := s.Start()
	c.NeverIdle = true // There is no connection to the cluster, so the instance retries to connect.
	s.Advance(time.Hour)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition), HavePrefix("False")))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Undetermined", HaveValue(BeEquivalentTo(1))))
	c.ReconcileAll()
	s.Expect(stage.Get(s, m)().Status.Conditions).To(BeEmpty())
}
