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

func TestAMissingClusterIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = "later" })
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("False ClusterNotFound")))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False ClusterNotFound"))
	events := func() []string {
		all := &corev1.EventList{}
		s.Expect(s.admin.List(s.ctx, all, client.InNamespace(s.namespace))).To(Succeed())
		var told []string
		for i := range all.Items {
			if e := &all.Items[i]; e.InvolvedObject.Kind == "MachineHealthCheck" {
				told = append(told, e.Type+" "+e.Reason)
			}
		}
		return told
	}
	s.Eventually(events).Should(ContainElement("Warning ClusterNotFound"))
	s.makeCluster("later")
	s.Eventually(events).Should(ContainElement("Normal ClusterReachable"))
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.ClusterReachableCondition), Equal("True ClusterReachable")))
}

func TestANodeThatIsGoneCountsAfterItsTime(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	m := s.machine("m-1")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		d := lasting(10 * time.Minute)
		spec.NodeGoneTimeout = &d
	})
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	s.Expect(s.kubelet.Delete(s.ctx, s.nodeOf("m-1"))).To(Succeed())
	s.Eventually(get(s, m)).Should(WithTransform(annotations, HaveKey(remedyv1.NodeGoneSinceAnnotation)))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Observed ")))
	s.wait(10 * time.Minute)
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(m)).To(Equal("False " + clusterv1.MachineHealthCheckNodeDeletedReason))
}

func TestANodeWithAnotherProviderIDIsNotTheMachinesNode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.machine("m-1")
	check := s.check("workers")
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	node := s.nodeOf("m-1")
	s.Expect(s.kubelet.Delete(s.ctx, node)).To(Succeed())
	node.ResourceVersion, node.UID, node.Spec.ProviderID = "", "", "test:///another"
	s.Expect(s.kubelet.Create(s.ctx, node)).To(Succeed())
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal("False "+clusterv1.MachineHealthCheckNodeDeletedReason)))
}

func TestAMachineWhoseNodeNeverJoinsIsRemediated(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	m := &clusterv1.Machine{}
	check := s.check("workers")
	s.machine("m-2").DeepCopyInto(m)
	m.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: "m-1", Labels: m.Labels, OwnerReferences: m.OwnerReferences}
	m.Spec.ProviderID = "test:///" + s.namespace + "/m-1"
	s.create(m)
	s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Observed ")))
	s.wait(time.Hour)
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal("False "+clusterv1.MachineHealthCheckNodeStartupTimeoutReason)))
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}

func TestOneOfTwoChecksTakesCareAndTheOtherNamesIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.sick("m-1")
	first, second := s.check("a"), s.check("b")
	s.start()
	s.Eventually(get(s, m)).Should(WithTransform(annotations, HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/a")))
	s.Eventually(get(s, second)).Should(WithTransform(holds("m-1"), Equal("Held CoveredByOther")))
	s.Eventually(get(s, second)).Should(WithTransform(tells(remedyv1.SelectorsDisjointCondition), Equal("False SelectorsOverlap")))
	s.Expect(message(remedyv1.SelectorsDisjointCondition)(second)).To(ContainSubstring("MachineHealthCheck " + s.namespace + "/a"))
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	// It goes, and the other one takes over.
	s.Expect(s.admin.Delete(s.ctx, first)).To(Succeed())
	s.Eventually(get(s, m)).Should(WithTransform(annotations, HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/b")))
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, second)).Should(WithTransform(tells(remedyv1.SelectorsDisjointCondition), Equal("True SelectorsDisjoint")))
}

func TestACheckOfClusterAPIThatIsNotOursKeepsItsMachines(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.sick("m-1")
	core := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "core"}}
	core.Spec.ClusterName = "prod"
	core.Spec.Selector.MatchLabels = map[string]string{"pool": "workers"}
	s.create(core)
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held CoveredByOther")))
	c.settle()
	s.Expect(get(s, m)().Status.Conditions).To(BeEmpty())
	s.Expect(s.admin.Delete(s.ctx, core)).To(Succeed())
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}
