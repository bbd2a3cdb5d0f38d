// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FailNode sets Ready=Unknown on the Node of a Machine, for ten minutes.
func (s *Stage) FailNode(name string) { s.SetReady(name, corev1.ConditionUnknown, 10*time.Minute) }

// NodeName is the name of the Node of a Machine: all tests of a package share the workload cluster.
func (s *Stage) NodeName(machine string) string { return s.Namespace + "-" + machine }

// SetReady sets the Ready condition of the Node of a Machine, as it has been for some time.
func (s *Stage) SetReady(machine string, status corev1.ConditionStatus, lasting time.Duration) {
	s.T.Helper()
	node := &corev1.Node{}
	s.Expect(s.Nodes().Get(s.Ctx, client.ObjectKey{Name: s.NodeName(machine)}, node)).To(Succeed())
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{readyCondition(status, lasting)}
	// The recorder counts the Node as ready from before it is until after it was.
	if status == corev1.ConditionTrue {
		s.readiness.Store(machine, status)
	} else if s.recorder != nil && s.isReady(machine) {
		s.Eventually(s.recorder.missing).Should(BeEmpty(), "changes while the Node was ready are not recorded")
	}
	s.Expect(s.Nodes().Status().Patch(s.Ctx, node, client.MergeFrom(before))).To(Succeed())
	s.readiness.Store(machine, status)
}

// heartbeat lets the kubelets report what their Nodes have reported before. Real ones do so every five minutes.
func (s *Stage) heartbeat() {
	s.T.Helper()
	nodes := &corev1.NodeList{}
	s.Expect(s.Nodes().List(s.Ctx, nodes)).To(Succeed())
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !strings.HasPrefix(node.Name, s.NodeName("")) {
			continue
		}
		before := node.DeepCopy()
		for c := range node.Status.Conditions {
			node.Status.Conditions[c].LastHeartbeatTime = metav1.Now()
		}
		s.Expect(client.IgnoreNotFound(s.Nodes().Status().Patch(s.Ctx, node, client.MergeFrom(before)))).To(Succeed())
	}
}

// readyCondition is a Ready condition that has had its status for some time.
func readyCondition(status corev1.ConditionStatus, lasting time.Duration) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: "Test",
		LastTransitionTime: metav1.NewTime(time.Now().Add(-lasting)), LastHeartbeatTime: metav1.Now(),
	}
}

// isReady reports whether the Node of a Machine is ready.
func (s *Stage) isReady(machine string) bool {
	status, found := s.readiness.Load(machine)
	return found && status == corev1.ConditionTrue
}

// Node reads the Node of a Machine.
func (s *Stage) Node(machine string) *corev1.Node { return s.NodeOfName(s.NodeName(machine)) }

// NodeOfName reads a Node.
func (s *Stage) NodeOfName(name string) *corev1.Node {
	s.T.Helper()
	node := &corev1.Node{}
	s.Expect(s.Nodes().Get(s.Ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
	return node
}

// ChangeNode changes the Node of a Machine.
func (s *Stage) ChangeNode(machine string, change func(*corev1.Node)) {
	s.T.Helper()
	node := s.Node(machine)
	before := node.DeepCopy()
	change(node)
	s.Expect(s.Nodes().Patch(s.Ctx, node, client.MergeFrom(before))).To(Succeed())
}
