//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
)

// TestEqualNodeNames_ManyClusters_AreNotMixedUp: every cluster has a Node of the same name, and one Machine, one check and one answer for it.
func TestEqualNodeNames_ManyClusters_AreNotMixedUp(t *testing.T) {
	s := newStage(t)
	clusters := depth.Of(60, 300)
	f, people := newFleet(s), s.newCrowd()
	cluster := func(i int) string { return fmt.Sprintf("c-%03d", i) }
	machine := func(i int) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "of-" + cluster(i)}}
	}
	sick := func(i int) bool { return i%7 == 0 }
	people.name, people.cluster, people.pool = func(i int) string { return machine(i).Name }, cluster, cluster
	people.node = func(int) string { return "node-1" }
	people.registered = func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: f.prefix(cluster(i)) + "node-1", Labels: map[string]string{fleetLabel: f.prefix(cluster(i)) + "x"}}
	}
	people.ready = func(i int) corev1.ConditionStatus {
		if sick(i) {
			return corev1.ConditionUnknown
		}
		return corev1.ConditionTrue
	}
	s.Expect(eachOf(clusters, func(i int) error { return f.makeCluster(cluster(i)) })).To(Succeed())
	people.come(clusters)
	for i := range clusters {
		s.check(cluster(i), ofPool(cluster(i)), func(spec *remedyv1.MachineHealthCheckSpec) { spec.ClusterName = cluster(i) })
	}
	c := s.start()
	c.restless = true

	marks := func() map[string]string { return s.told(clusterv1.MachineOwnerRemediatedCondition) }
	expected := map[string]string{}
	for i := range clusters {
		expected[machine(i).Name] = ""
		if sick(i) {
			expected[machine(i).Name] = marked
		}
	}
	s.Eventually(marks).Should(Equal(expected))
	s.Eventually(func() int { return countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell) }).Should(Equal(clusters - countOf(expected, marked)))
	for _, check := range s.checks() {
		s.Expect(check.Status.ExpectedMachines).To(HaveValue(BeEquivalentTo(1)), check.Name)
	}

	// One of them falls ill, the next one loses its Node, and one only beats its heart.
	before := c.calm()
	ill, lost, beats := 15, 16, 17
	change := func(i int, change func(*corev1.Node)) {
		node := &corev1.Node{ObjectMeta: people.registered(i)}
		s.Expect(s.kubelet.Get(s.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		change(node)
		s.Expect(s.kubelet.Status().Update(s.ctx, node)).To(Succeed())
	}
	change(ill, func(node *corev1.Node) {
		node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(time.Now().Add(-10*time.Minute))
	})
	change(beats, func(node *corev1.Node) {
		node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Second))
	})
	s.Expect(s.kubelet.Delete(s.ctx, &corev1.Node{ObjectMeta: people.registered(lost)})).To(Succeed())
	expected[machine(ill).Name], expected[machine(lost).Name] = marked, marked
	s.Eventually(marks).Should(Equal(expected))
	s.Expect(changesOf(before, c.calm())).To(ConsistOf(cluster(ill), cluster(lost)), "nobody else has anything to look at")
}
