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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func TestCheck_MissingCluster_ReportsClusterNotFound(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = "later" })
	s.Start()
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "False ClusterNotFound")
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False ClusterNotFound"))
	events := func() []string {
		all := &corev1.EventList{}
		s.Expect(s.Admin.List(s.Ctx, all, client.InNamespace(s.Namespace))).To(Succeed())
		var found []string
		for i := range all.Items {
			if e := &all.Items[i]; e.InvolvedObject.Kind == "MachineHealthCheck" {
				found = append(found, e.Type+" "+e.Reason)
			}
		}
		return found
	}
	s.Eventually(events).Should(ContainElement("Warning ClusterNotFound"))
	s.CreateCluster("later")
	s.Eventually(events).Should(ContainElement("Normal ClusterReachable"))
	s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "True ClusterReachable")
}

// The Machine of a deleted Node is only observed until nodeGoneTimeout has passed.
func TestDeletedNode_AfterNodeGoneTimeout_MachineIsRemediated(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := s.CreateMachine("m-1")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		d := stage.Duration(10 * time.Minute)
		spec.NodeGoneTimeout = &d
	})
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	s.Eventually(stage.Get(s, m)).Should(WithTransform(stage.Annotations, HaveKey(remedyv1.NodeGoneSinceAnnotation)))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Pending ")))
	s.Advance(10 * time.Minute)
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m)).
		To(Equal("False " + clusterv1.MachineHealthCheckNodeDeletedReason))
}

// A new Node with the same name and another provider ID belongs to another Machine.
func TestNode_OtherProviderID_IsNotTheNodeOfTheMachine(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateMachine("m-1")
	check := s.CreateCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	node := s.Node("m-1")
	s.Expect(s.Workload.Delete(s.Ctx, node)).To(Succeed())
	node.ResourceVersion, node.UID, node.Spec.ProviderID = "", "", "test:///another"
	s.Expect(s.Workload.Create(s.Ctx, node)).To(Succeed())
	s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, "False "+clusterv1.MachineHealthCheckNodeDeletedReason)
}

func TestNodeStartup_NodeNeverJoins_MachineIsRemediated(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := &clusterv1.Machine{}
	check := s.CreateCheck("workers")
	s.CreateMachine("m-2").DeepCopyInto(m)
	m.ObjectMeta = metav1.ObjectMeta{Namespace: s.Namespace, Name: "m-1", Labels: m.Labels, OwnerReferences: m.OwnerReferences}
	m.Spec.ProviderID = "test:///" + s.Namespace + "/m-1"
	s.Create(m)
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Pending ")))
	s.Advance(time.Hour)
	s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, "False "+clusterv1.MachineHealthCheckNodeStartupTimeoutReason)
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// The other check reports the overlap, and becomes responsible when the first check is deleted.
func TestOverlap_TwoChecks_OneIsResponsible(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateUnhealthyMachine("m-1")
	first, second := s.CreateCheck("a"), s.CreateCheck("b")
	s.Start()
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.Annotations, HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/a")))
	s.Eventually(stage.Get(s, second)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked ManagedByOtherCheck")))
	s.WaitCheckCondition(second, remedyv1.SelectorsDisjointCondition, "False SelectorsOverlap")
	s.Expect(stage.CheckMessage(remedyv1.SelectorsDisjointCondition)(second)).To(ContainSubstring("MachineHealthCheck " + s.Namespace + "/a"))
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	// The first check is deleted, and the second one becomes responsible.
	s.Expect(s.Admin.Delete(s.Ctx, first)).To(Succeed())
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.Annotations, HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/b")))
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.WaitCheckCondition(second, remedyv1.SelectorsDisjointCondition, "True SelectorsDisjoint")
}

// The in-tree controller reconciles a check that was not adopted. Remedy leaves its Machines alone until the check is deleted.
func TestOverlap_InTreeCheckNotAdopted_KeepsItsMachines(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateUnhealthyMachine("m-1")
	inTree := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "in-tree"}}
	inTree.Spec.ClusterName = "prod"
	inTree.Spec.Selector.MatchLabels = map[string]string{"pool": "workers"}
	s.Create(inTree)
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked ManagedByOtherCheck")))
	c.WaitIdle()
	s.Expect(stage.Get(s, m)().Status.Conditions).To(BeEmpty())
	s.Expect(s.Admin.Delete(s.Ctx, inTree)).To(Succeed())
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}
