// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// requestAnnotation reads an annotation of the request for the Node n-3; empty without one, and without a request.
func requestAnnotation(s *stage.Stage, key string) func() string {
	return func() string {
		if request := s.NodeRequest(remediator.FenceAgents, "n-3")(); request != nil {
			return request.GetAnnotations()[key]
		}
		return ""
	}
}

// leaseTime reads when the Lease of the Node n-3 was renewed.
func leaseTime(s *stage.Stage) func() time.Time {
	return func() time.Time {
		lease := &coordinationv1.Lease{}
		s.Expect(s.Admin.Get(s.Ctx, workload.NodeLeaseKey(s.NodeName("n-3")), lease)).To(Succeed())
		return lease.Spec.RenewTime.Time
	}
}

// An annotation of a healthy Node ends its remediation, with recovery: Confirmed and before the end of healthyDelay. The manager then
// removes the annotation, because the next recovery needs a confirmation of its own.
func TestConfirmedRecovery_AnnotationOfNode_EndsIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*remedyv1.NodeHealthCheckSpec){
		"recovery":      func(spec *remedyv1.NodeHealthCheckSpec) { spec.Recovery = remedyv1.ConfirmedRecovery },
		"healthy delay": func(spec *remedyv1.NodeHealthCheckSpec) { spec.HealthyDelay = ptr.To(stage.Duration(1000 * time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
			unhealthy := createNodes(s)
			s.CreateNodeCheck("workers", change)
			c := s.Start()
			s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
			s.SetReady("n-3", corev1.ConditionTrue, 0)
			s.Eventually(requestAnnotation(s, remedyv1.HealthySinceAnnotation)).ShouldNot(BeEmpty())
			s.Advance(24 * time.Hour)
			c.WaitIdle()
			s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(HaveField("GetDeletionTimestamp()", BeNil()))
			s.ChangeNode("n-3", func(node *corev1.Node) { node.Annotations = map[string]string{remedyv1.ConfirmedHealthyAnnotation: ""} })
			s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
			s.Eventually(func() map[string]string { return s.Node("n-3").Annotations }).ShouldNot(HaveKey(remedyv1.ConfirmedHealthyAnnotation))
		})
	}
}

// While the status of an unhealthy condition changes, the Node is neither healthy nor unhealthy, and its request stays.
func TestRequest_ConditionChangesStatus_Stays(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers")
	c := s.Start()
	s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	decided(s, check, "n-3", Equal("Remediating "))
	s.SetReady("n-3", corev1.ConditionFalse, 0)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{3, 2, 0})))
	c.WaitIdle()
	s.Expect(s.NodeRequest(remediator.FenceAgents, "n-3")()).To(HaveField("GetDeletionTimestamp()", BeNil()))
	s.Expect(requestAnnotation(s, remedyv1.TimedOutAnnotation)()).To(BeEmpty())
}

// A storm ends with its cool-down, also if all Nodes have recovered. The next unhealthy Node is remediated at once.
func TestStorm_AllNodesRecover_Ends(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	s.CreateNode("n-1")
	s.CreateUnhealthyNode("n-2")
	s.CreateUnhealthyNode("n-3")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.StormCooldownDuration, spec.MaxUnhealthy = ptr.To(stage.Duration(5*time.Minute)), ptr.To(intstr.FromInt32(1))
	})
	s.Start()
	allowed := stage.OfNodes(stage.CheckCondition(remedyv1.RemediationAllowedCondition))
	decided(s, check, "n-3", Equal("Blocked TooManyUnhealthy"))
	s.SetReady("n-2", corev1.ConditionTrue, 0)
	decided(s, check, "n-3", Equal("Blocked Storm"))
	s.Expect(check.Annotations).To(HaveKey(remedyv1.StormSinceAnnotation))
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, check)).Should(And(WithTransform(status, Equal([]int32{3, 3, 0})), WithTransform(allowed, Equal("False Storm"))))
	s.Advance(5 * time.Minute)
	s.Eventually(stage.Get(s, check)).Should(And(
		WithTransform(allowed, HavePrefix("True ")), HaveField("Annotations", Not(HaveKey(remedyv1.StormSinceAnnotation)))))
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.FailNode("n-3")
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-3"))
}

// After a pause that was longer than the Lease of the Node, the step has its whole timeout again, and its Lease is renewed.
func TestPause_LongerThanLease_StepContinues(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers", stage.NodeSteps(
		s.CreateNodeTemplate(remediator.FenceAgents, "reboot"), s.CreateNodeTemplate(remediator.FenceAgents, "off")))
	c := s.Start()
	s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	decided(s, check, "n-3", Equal("Remediating "))
	acquired := leaseTime(s)()
	s.Annotate(check, "cluster.x-k8s.io/paused", "yes")
	paused := stage.OfNodes(stage.CheckCondition(remedyv1.PausedCondition))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(paused, Equal("True Paused")))
	counts := status(check)
	s.Advance(2 * time.Hour)
	c.ReconcileAll()
	s.Expect(leaseTime(s)()).To(BeTemporally("==", acquired), "nothing is written during a pause")
	s.Expect(status(stage.Get(s, check)())).To(Equal(counts))

	s.Annotate(check, "cluster.x-k8s.io/paused", "")
	s.Eventually(leaseTime(s)).Should(BeTemporally(">", acquired))
	s.Advance(9 * time.Minute)
	c.WaitIdle()
	s.Expect(requestAnnotation(s, remedyv1.TemplateNameAnnotation)()).To(Equal("reboot"))
	s.Expect(requestAnnotation(s, remedyv1.TimedOutAnnotation)()).To(BeEmpty())
	s.Advance(2 * time.Minute)
	s.Eventually(requestAnnotation(s, remedyv1.TemplateNameAnnotation)).Should(Equal("off"))
}

// pauseRequests, such as during an upgrade, block new remediations. One that has begun goes on to its end: its Lease is renewed, and its
// request is deleted when the Node is healthy.
func TestPauseRequests_RequestExists_OnlyNewAreBlocked(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	unhealthy := createNodes(s)
	s.CreateNode("n-4")
	s.CreateNode("n-5")
	check := s.CreateNodeCheck("workers")
	s.Start()
	s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	decided(s, check, "n-3", Equal("Remediating "))
	acquired := leaseTime(s)()
	s.Change(check, func() { check.Spec.PauseRequests = []string{"upgrade to v1.35"} })
	s.FailNode("n-4")
	decided(s, check, "n-4", Equal("Blocked PauseRequested"))
	s.Expect(status(check)).To(Equal([]int32{5, 3, 2}), "the Nodes are still counted")
	s.Advance(6 * time.Minute)
	s.Eventually(leaseTime(s)).Should(BeTemporally(">", acquired))
	s.SetReady("n-3", corev1.ConditionTrue, 0)
	s.Eventually(s.NodeRequest(remediator.FenceAgents, "n-3")).Should(BeNil())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(status, Equal([]int32{5, 4, 1})))
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.Change(check, func() { check.Spec.PauseRequests = nil })
	s.WaitRequest(remediator.FenceAgents, s.NodeName("n-4"))
}

// Two steps may have templates of one kind. Each has its own timeout, and after the last one the first follows again.
func TestEscalation_StepsOfOneKind_EachTimesOut(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAllNamespaces, stage.WithClock)
	unhealthy := createNodes(s)
	check := s.CreateNodeCheck("workers", stage.NodeSteps(
		s.CreateNodeTemplate(remediator.FenceAgents, "reboot"), s.CreateNodeTemplate(remediator.FenceAgents, "off")))
	s.Start()
	s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	decided(s, check, "n-3", Equal("Remediating "))
	s.Advance(10 * time.Minute)
	s.Eventually(requestAnnotation(s, remedyv1.TemplateNameAnnotation)).Should(Equal("off"))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.UnhealthyTargets", ConsistOf(HaveField("Step", HaveValue(BeEquivalentTo(2))))))
	s.Advance(10 * time.Minute)
	decided(s, check, "n-3", Equal("Blocked EscalationExhausted"))
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty())
	s.Advance(time.Minute + time.Second)
	request := s.WaitRequest(remediator.FenceAgents, unhealthy.Name)
	s.Expect(request.GetAnnotations()).To(And(
		HaveKeyWithValue(remedyv1.TemplateNameAnnotation, "reboot"), HaveKeyWithValue(remedyv1.AttemptAnnotation, "2")))
}
