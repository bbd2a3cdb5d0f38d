// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// The connection to a workload cluster fails, in each mode, when its Nodes are about to become unhealthy.
func TestOutage_StaleNodes_AreNotRemediated(t *testing.T) {
	t.Parallel()
	for _, mode := range []faults.Mode{faults.RefuseConnections, faults.BlackHole, faults.HalfOpen} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithProxy, stage.WithClock)
			stale, annotated := s.CreateMachine("m-1"), s.CreateMachine("m-2")
			s.SetReady("m-1", corev1.ConditionUnknown, time.Minute)
			check := s.CreateCheck("workers")
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Pending ")))
			c.WaitIdle()
			s.Expect(s.Proxy.Set(mode)).To(Succeed())
			s.Advance(time.Hour)
			s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "False ClusterUnreachable")
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(0)))
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, stale)())).To(BeEmpty())
			s.Expect(check.Status.Undetermined).To(HaveValue(BeEquivalentTo(2)))

			// The remediate annotation needs no Node.
			s.Annotate(annotated, clusterv1.RemediateMachineAnnotation, "yes")
			s.WaitMachineCondition(annotated, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, stale)())).To(BeEmpty())

			// The connection is restored, and the Node is healthy: no Machine is remediated.
			s.SetReady("m-1", corev1.ConditionTrue, 0)
			s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
			s.Eventually(stage.Get(s, check)).
				Should(WithTransform(stage.CheckCondition(remedyv1.ClusterReachableCondition),
					Or(Equal("Unknown Reconnecting"), Equal("True ClusterReachable"))))
			s.Advance(time.Hour)
			s.WaitCheckCondition(check, remedyv1.ClusterReachableCondition, "True ClusterReachable")
			s.WaitMachineCondition(stale, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
			for _, w := range c.Writes() {
				s.Expect(w.Name == "m-1" && w.Resource == "machines" && w.Subresource == "").To(BeFalse(), "m-1 was never annotated")
			}
		})
	}
}

// Two Machines are unhealthy when the connection fails. The status still lists them, as targets that cannot be evaluated, until the
// connection is restored.
func TestOutage_UnhealthyBefore_StaysInStatus(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy, stage.WithClock)
	s.CreateUnhealthyMachine("m-1")
	s.CreateUnhealthyMachine("m-2")
	s.CreateMachine("m-3")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	c := s.Start()
	expect := func(allowed, decision string) {
		s.WaitCheckCondition(check, remedyv1.RemediationAllowedCondition, allowed)
		for _, name := range []string{"m-1", "m-2"} {
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision(name), Equal(decision)))
		}
		s.Expect(check.Status.UnhealthyTargets).To(And(HaveLen(2), HaveEach(HaveField("Reason", remedyv1.UnhealthyNode))))
	}
	expect("False TooManyUnhealthy", "Blocked TooManyUnhealthy")
	c.WaitIdle()
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Advance(time.Hour)
	expect("False ClusterUnreachable", "Blocked ClusterUnreachable")
	s.Expect(check.Status.UnhealthyTargets).To(HaveEach(HaveField("Message", ContainSubstring("The target was unhealthy before"))))
	s.Expect(check.Status.Unhealthy).To(HaveValue(BeZero()))

	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
	s.Advance(time.Hour)
	expect("False TooManyUnhealthy", "Blocked TooManyUnhealthy")
}

// The connection to the cluster of a NodeHealthCheck fails. Two Nodes are unhealthy before, and a third one becomes unhealthy only by what
// was read before.
func TestOutage_Nodes_StatusIsTrue(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithProxy, stage.WithClock)
	for _, name := range []string{"n-1", "n-2", "n-3", "n-4"} {
		s.CreateNode(name)
	}
	s.FailNode("n-1")
	s.FailNode("n-2")
	s.CreateTemplate(remediator.Metal3, "soft")
	check := s.CreateNodeCheck("workers", func(spec *remedyv1.NodeHealthCheckSpec) {
		spec.RemediationTemplate = stage.NodeTemplateReference(s, remediator.Metal3, "soft")
		spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1))
	})
	c := s.Start()
	expect := func(allowed string, decisions ...string) {
		s.Eventually(stage.Get(s, check)).Should(
			WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.RemediationAllowedCondition)), Equal(allowed)))
		blocked := 0
		for i, expected := range decisions {
			s.Expect(s.NodeDecision(fmt.Sprintf("n-%d", i+1))(check)).To(Equal(expected))
			if strings.HasPrefix(expected, "Blocked ") {
				blocked++
			}
		}
		s.Expect(check.Status.UnhealthyTargets).To(HaveLen(len(decisions)))
		s.Expect(check.Status.Blocked).To(HaveValue(BeEquivalentTo(blocked)))
	}
	expect("False TooManyUnhealthy", "Blocked TooManyUnhealthy", "Blocked TooManyUnhealthy")
	// Connections have the real clock.
	s.Advance(time.Since(s.Clock.Now()))
	s.SetReady("n-3", corev1.ConditionUnknown, 5*time.Minute-10*time.Second)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Pending ")))
	c.WaitIdle()
	s.Expect(s.Proxy.Set(faults.RefuseConnections)).To(Succeed())
	s.Advance(time.Since(s.Clock.Now()) + 15*time.Second)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(s.NodeDecision("n-3"), Equal("Blocked TooManyUnhealthy")))
	expect("False ClusterUnreachable", "Blocked ClusterUnreachable", "Blocked ClusterUnreachable")

	// Reads fail before the connection counts as down. That takes two probes, so the outage is long enough for a grace period.
	s.Eventually(stage.Get(s, check)).Should(
		WithTransform(stage.OfNodes(stage.CheckCondition(remedyv1.ClusterReachableCondition)), Equal("False ClusterUnreachable")))
	prod := c.Clusters.Get(client.ObjectKey{Namespace: s.Namespace, Name: "prod"})
	s.Eventually(func() bool { return prod.Connection(s.Ctx).Up }).Should(BeFalse())
	s.Expect(s.Proxy.Set(faults.Pass)).To(Succeed())
	expect("Unknown Reconnecting", "Blocked ReconnectGracePeriod", "Blocked ReconnectGracePeriod")
	// The cache is used again when its watch has delivered a change.
	s.SetReady("n-4", corev1.ConditionTrue, 0)
	s.Advance(time.Hour)
	expect("False TooManyUnhealthy", "Blocked TooManyUnhealthy", "Blocked TooManyUnhealthy", "Blocked TooManyUnhealthy")
}
