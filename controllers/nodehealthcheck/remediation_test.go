// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// createNodes creates two healthy Nodes, and returns the unhealthy Node n-3.
func createNodes(s *stage.Stage) *corev1.Node {
	s.T.Helper()
	s.CreateNode("n-1")
	s.CreateNode("n-2")
	return s.CreateUnhealthyNode("n-3")
}

// decided waits for the decision of a check about a Node.
func decided(s *stage.Stage, check *remedyv1.NodeHealthCheck, node string, decision types.GomegaMatcher) {
	s.T.Helper()
	s.Eventually(stage.Get(s, check)).WithTimeout(stage.OutcomeTimeout).Should(WithTransform(s.NodeDecision(node), decision))
}

// reportsMessage matches a check whose status has a message with this text for its only unhealthy Node. An API server that does not answer
// for some seconds gives the same decision another message.
func reportsMessage(text string) types.GomegaMatcher {
	return HaveField("Status.UnhealthyTargets", HaveExactElements(HaveField("Message", ContainSubstring(text))))
}

// status is the counts of a check: observed, healthy and unhealthy Nodes.
func status(c *remedyv1.NodeHealthCheck) []int32 {
	counts := []int32{-1, -1, -1}
	for i, n := range []*int32{c.Status.ObservedNodes, c.Status.HealthyNodes, c.Status.Unhealthy} {
		if n != nil {
			counts[i] = *n
		}
	}
	return counts
}

// A check of the own cluster creates a request for an unhealthy Node, in which remediators find what they read, and deletes it when the
// Node is healthy again.
func TestRequest_UnhealthyNode_HasWhatRemediatorsRead(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers")
	s.Start()
	request := s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	s.Expect(request.Object["spec"]).To(Equal(map[string]any{"agent": "fence_ipmilan"}))
	owners := make([]string, 0, 2)
	for _, owner := range request.GetOwnerReferences() {
		owners = append(owners, owner.APIVersion+" "+owner.Kind+" "+owner.Name+" "+string(owner.UID))
		s.Expect(owner.Controller).To(BeNil())
	}
	s.Expect(owners).To(ConsistOf(
		remedyv1.GroupVersion.String()+" NodeHealthCheck "+check.Name+" "+string(check.UID), "v1 Node "+unhealthy.Name+" "+string(unhealthy.UID)))
	s.Expect(request.GetAnnotations()).To(And(
		HaveKeyWithValue(remedyv1.CheckAnnotation, "NodeHealthCheck//"+check.Name),
		HaveKeyWithValue(remedyv1.NodeNameAnnotation, unhealthy.Name),
		HaveKeyWithValue(remedyv1.NodeUIDAnnotation, string(unhealthy.UID)),
		HaveKeyWithValue(remedyv1.TemplateNameAnnotation, "workers"),
	))
	s.Expect(request.GetLabels()).To(BeEmpty())
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(status(check)).To(Equal([]int32{3, 2, 1}))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.InFlightRemediations", HaveKey(unhealthy.Name)))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.Status.UnhealthyTargets[0].Request).To(HaveValue(HaveField("Namespace", s.Namespace)))

	s.Remediate(remediator.FenceAgents, remediator.Succeeds)
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(func() *metav1.Time { return s.NodeRequest(remediator.FenceAgents, "n-3")().GetDeletionTimestamp() }).ShouldNot(BeNil())
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")().GetAnnotations()).ToNot(HaveKey(remedyv1.TimedOutAnnotation))
	s.Expect(status(stage.Get(s, check)())[1]).To(BeEquivalentTo(2), "the Node is healthy when its request no longer exists")
	s.Remediate(remediator.FenceAgents, remediator.Succeeds)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 3, 0})))
	s.Eventually(stage.Get(s, check)).Should(And(HaveField("Finalizers", BeEmpty()), HaveField("Status.InFlightRemediations", BeEmpty())))
	s.Expect(check.Status.RecentRemediations).To(ConsistOf(HaveField("Outcome", remedyv1.RecoveredOutcome)))
}

// With a Cluster, the Nodes are those of the workload cluster, and the requests are in the management cluster. clusterctl moves the check.
func TestRequest_NodeOfWorkloadCluster_HasCheckAsOwner(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.Example, "reboot")
	})
	s.Start()
	request := s.WaitRequest(remediator.Example, unhealthy.Name)
	s.Expect(request.GetOwnerReferences()).To(ConsistOf(And(HaveField("Kind", "NodeHealthCheck"), HaveField("UID", check.UID))))
	s.Expect(request.GetLabels()).To(And(
		HaveKeyWithValue("cluster.x-k8s.io/cluster-name", "prod"), HaveKey("clusterctl.cluster.x-k8s.io/move")))
	decided(s, check, "n-3", Equal("Remediating "))
	s.Expect(check.Labels).To(HaveKey("clusterctl.cluster.x-k8s.io/move"))
	s.Expect(stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition))(check)).To(Equal("True ClusterReachable"))
}

// self-node-remediation removes its finalizer for a Node that no longer exists only if it was stopped before.
func TestRequest_NodeIsDeleted_IsStoppedAndDeleted(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = s.CreateNodeTemplate(remediator.SelfNode, "workers")
	})
	s.Start()
	s.WaitRequest(remediator.SelfNode, unhealthy.Name)
	s.Remediate(remediator.SelfNode, remediator.Hangs)
	s.Expect(s.Admin.Delete(s.Ctx, unhealthy)).To(Succeed())
	s.Eventually(func() map[string]string { return s.NodeRequest(remediator.SelfNode, "n-3")().GetAnnotations() }).
		Should(HaveKey(remedyv1.TimedOutAnnotation))
	s.Eventually(func() *metav1.Time { return s.NodeRequest(remediator.SelfNode, "n-3")().GetDeletionTimestamp() }).ShouldNot(BeNil())
	s.Remediate(remediator.SelfNode, remediator.Hangs)
	s.Eventually(s.NodeRequest(remediator.SelfNode, "n-3")).Should(BeNil())
	s.Eventually(stage.Get(s, check)).Should(And(WithTransform(status, Equal([]int32{2, 2, 0})), HaveField("Finalizers", BeEmpty())))
}

// Each step has ten minutes. The history of failed steps is on the Node, so that another manager goes on with the next one.
func TestEscalation_StepTimesOut_NextStepFollows(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers", stage.NodeSteps(
		s.CreateNodeTemplate(remediator.FenceAgents, "reboot"), s.CreateNodeTemplate(remediator.FenceAgents, "off")))
	s.Start()
	s.Expect(s.WaitRequest(remediator.FenceAgents, unhealthy.Name).GetAnnotations()).
		To(HaveKeyWithValue(remedyv1.TemplateNameAnnotation, "reboot"))
	decided(s, check, "n-3", Equal("Remediating "))
	s.Advance(10 * time.Minute)
	s.Eventually(func() map[string]string {
		request := s.NodeRequest(remediator.FenceAgents, "n-3")()
		if request == nil {
			return nil
		}
		return request.GetAnnotations()
	}).Should(HaveKeyWithValue(remedyv1.TemplateNameAnnotation, "off"))
	s.Expect(s.Node("n-3").Annotations).To(HaveKeyWithValue(remedyv1.TriedAnnotation, ContainSubstring("reboot")))
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
	s.Eventually(func() map[string]string { return s.Node("n-3").Annotations }).ShouldNot(HaveKey(remedyv1.TriedAnnotation))
}

// 49 % of the Nodes may be unhealthy unless the check has a limit.
func TestLimit_MostNodesUnhealthy_BlocksAll(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	s.CreateNode("n-1")
	s.CreateUnhealthyNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	decided(s, check, "n-2", Equal("Blocked TooManyUnhealthy"))
	decided(s, check, "n-3", Equal("Blocked TooManyUnhealthy"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.SetReady("n-2", corev1.ConditionTrue, 0)
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-2")()).To(BeNil())
}

// Without a selector, a check monitors the Nodes that do not belong to the control plane.
func TestAnnotations_OfNode_AreRespected(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	annotated := func(key string) func(*corev1.Node) {
		return func(node *corev1.Node) { node.Annotations = map[string]string{key: ""} }
	}
	s.CreateUnhealthyNode("skipped", annotated(remedyv1.SkipRemediationAnnotation))
	s.CreateUnhealthyNode("paused", annotated("cluster.x-k8s.io/paused"))
	s.CreateUnhealthyNode("excluded", func(node *corev1.Node) { node.Labels[remedyv1.ExcludeLabel] = "true" })
	s.CreateNode("asked", annotated(remedyv1.RemediateNodeAnnotation))
	for _, name := range []string{"n-1", "n-2", "n-3", "n-4"} {
		s.CreateNode(name)
	}
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.WaitRequest(remediator.FenceAgents, s.NodeName("asked"))
	decided(s, check, "asked", Equal("Remediating "))
	decided(s, check, "excluded", Equal("Blocked Excluded"))
	c.WaitIdle()
	s.Expect(s.Requests(remediator.FenceAgents)).To(HaveLen(1))
	s.Expect(status(stage.Get(s, check)())).To(Equal([]int32{6, 4, 2}))
}

// docs/stop.md describes what these switches do to a remediation in progress.
func TestSwitches_DuringRemediation_StopOrKeepIt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		stays  bool
	}{
		"skip":    {func(n *corev1.Node) { n.Annotations = map[string]string{remedyv1.SkipRemediationAnnotation: ""} }, false},
		"exclude": {func(n *corev1.Node) { n.Labels[remedyv1.ExcludeLabel] = "true" }, true},
		"pause":   {func(n *corev1.Node) { n.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAllNamespaces)
			createNodes(s)
			check := s.CreateNodeCheck("workers")
			c := s.Start()
			s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
			decided(s, check, "n-3", Equal("Remediating "))
			node := s.Node("n-3")
			before := client.MergeFrom(node.DeepCopy())
			test.change(node)
			s.Expect(s.Admin.Patch(s.Ctx, node, before)).To(Succeed())
			if !test.stays {
				s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
				return
			}
			c.WaitIdle()
			s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(HaveField("GetDeletionTimestamp()", BeNil()))
		})
	}
}
