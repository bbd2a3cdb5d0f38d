// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// In both generations the words are Cluster API's own, to the letter: owners and clusterctl look for them.
func TestAnUnhealthyMachineSpeaksLikeClusterAPI(t *testing.T) {
	infrastructure := health.Finding{Rule: health.UnhealthyMachine, Met: true, Condition: "InfrastructureReady", Status: "False", Cause: "NotReady", Lasting: time.Minute}
	ready := health.Finding{Rule: health.UnhealthyNode, Met: true, Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown", Lasting: 5 * time.Minute}
	manual := met(health.HasRemediateAnnotation, health.Finding{})
	manual.Findings = append(manual.Findings, ready)
	both := &health.Verdict{Kind: health.Unhealthy, Reason: health.UnhealthyMachine, Findings: []health.Finding{infrastructure, ready}}
	tests := []struct {
		why                        string
		verdict                    *health.Verdict
		reason, deprecated         string
		message, deprecatedMessage string
	}{
		{
			"a person asked for it", met(health.HasRemediateAnnotation, health.Finding{}),
			clusterv1.MachineHealthCheckHasRemediateAnnotationReason, clusterv1.HasRemediateMachineAnnotationV1Beta1Reason,
			"Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation",
			"Marked for remediation via remediate-machine annotation",
		},
		{
			"a person asked for it, and there is another cause", manual,
			clusterv1.MachineHealthCheckHasRemediateAnnotationReason, clusterv1.HasRemediateMachineAnnotationV1Beta1Reason,
			"Health check failed:\n  * marked for remediation via cluster.x-k8s.io/remediate-machine annotation\n  * Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Marked for remediation via cluster.x-k8s.io/remediate-machine annotation; Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
		},
		{
			"a condition of the Node", met(health.UnhealthyNode, ready),
			clusterv1.MachineHealthCheckUnhealthyNodeReason, clusterv1.UnhealthyNodeConditionV1Beta1Reason,
			"Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
		},
		{
			"conditions of both", both, clusterv1.MachineHealthCheckUnhealthyMachineReason, clusterv1.UnhealthyMachineConditionV1Beta1Reason,
			"Health check failed:\n  * Condition InfrastructureReady on Machine is reporting status False with reason NotReady for more than 1m0s\n" +
				"  * Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Condition InfrastructureReady on Machine is reporting status False with reason NotReady for more than 1m0s; " +
				"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
		},
		{
			"a Node that is gone: the older generation says nothing more", met(health.NodeDeleted, health.Finding{}),
			clusterv1.MachineHealthCheckNodeDeletedReason, clusterv1.NodeNotFoundV1Beta1Reason, "Health check failed:\n  * Node n has been deleted", "",
		},
		{
			"a Node that did not come", met(health.NodeStartupTimeout, health.Finding{Lasting: 10 * time.Minute}),
			clusterv1.MachineHealthCheckNodeStartupTimeoutReason, clusterv1.NodeStartupTimeoutV1Beta1Reason,
			"Health check failed:\n  * Node failed to report startup in 10m0s", "Node failed to report startup in 10m0s",
		},
		{
			"a Machine that has failed is ours: Cluster API does not look", met(health.MachineFailed, health.Finding{Cause: "CreateError"}),
			"MachineFailed", clusterv1.MachineHasFailureV1Beta1Reason,
			"Health check failed:\n  * Machine has failed: CreateError", "Machine has failed: CreateError",
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			c := ForMachine(&Facts{Node: "n", Verdict: test.verdict, Decision: &remediation.Decision{Author: true}}, &remediation.Check{})
			g.Expect(c.OwnerRemediated).To(BeNil())
			g.Expect(c.ExternallyRemediated).To(BeNil())
			got := c.HealthCheckSucceeded
			g.Expect(got.Condition).To(Equal(metav1.Condition{
				Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: test.reason, Message: test.message,
			}))
			g.Expect(*got.Deprecated).To(Equal(DeprecatedCondition{
				Type: string(clusterv1.MachineHealthCheckSucceededV1Beta1Condition), Status: corev1.ConditionFalse,
				Severity: string(clusterv1.ConditionSeverityWarning), Reason: test.deprecated, Message: test.deprecatedMessage,
			}))
			g.Expect(got.Writes(metav1.ConditionFalse)).To(BeTrue(), "the truth about its health replaces everything")
		})
	}
}

func TestAHealthyMachineSaysOnlyThat(t *testing.T) {
	g := NewWithT(t)
	c := ForMachine(&Facts{Verdict: &health.Verdict{Kind: health.Healthy}, Decision: &remediation.Decision{}}, &remediation.Check{})
	g.Expect(c.HealthCheckSucceeded.Condition).To(Equal(metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineHealthCheckSucceededReason,
	}))
	g.Expect(*c.HealthCheckSucceeded.Deprecated).To(Equal(DeprecatedCondition{Type: "HealthCheckSucceeded", Status: corev1.ConditionTrue}))
	g.Expect(c.OwnerRemediated).To(BeNil())
}

func TestWhoIsAskedToRemediate(t *testing.T) {
	g := NewWithT(t)
	facts := &Facts{Verdict: met(health.NodeDeleted, health.Finding{}), Decision: &remediation.Decision{Action: remediation.GiveMark}, Target: &remediation.Target{}}
	c := ForMachine(facts, &remediation.Check{})
	g.Expect(c.OwnerRemediated.Condition).To(Equal(metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation",
	}))
	g.Expect(*c.OwnerRemediated.Deprecated).To(Equal(DeprecatedCondition{
		Type: string(clusterv1.MachineOwnerRemediatedV1Beta1Condition), Status: corev1.ConditionFalse, Severity: "Warning", Reason: clusterv1.WaitingForRemediationV1Beta1Reason,
	}))
	g.Expect(c.ExternallyRemediated).To(BeNil())
	for present, writes := range map[metav1.ConditionStatus]bool{"": true, metav1.ConditionTrue: true, metav1.ConditionFalse: false, metav1.ConditionUnknown: false} {
		g.Expect(c.OwnerRemediated.Writes(present)).To(Equal(writes), "what an owner says is never overwritten: %q", present)
	}

	request := metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	}
	facts.Decision = &remediation.Decision{Action: remediation.MakeRequest}
	c = ForMachine(facts, &remediation.Check{})
	g.Expect(c.ExternallyRemediated.Condition).To(Equal(request))
	g.Expect(c.ExternallyRemediated.Yields).To(BeTrue())
	g.Expect(c.ExternallyRemediated.Deprecated).To(BeNil())
	g.Expect(c.OwnerRemediated).To(BeNil())

	facts.Decision, facts.Target.Request = &remediation.Decision{Action: remediation.Wait}, &remediation.Request{}
	g.Expect(ForMachine(facts, &remediation.Check{}).ExternallyRemediated.Condition).To(Equal(request), "we may have been stopped before it was said")
	facts.Target.Request.DeletingSince = noon
	g.Expect(ForMachine(facts, &remediation.Check{}).ExternallyRemediated).To(BeNil())
	facts.Decision, facts.Target.Request = &remediation.Decision{Action: remediation.Wait}, nil
	c = ForMachine(facts, &remediation.Check{})
	g.Expect(c.OwnerRemediated).To(BeNil(), "only when the mark is given")
	g.Expect(c.ExternallyRemediated).To(BeNil())
}

func TestWhoHasNothingToSayWritesNothing(t *testing.T) {
	sick := met(health.NodeDeleted, health.Finding{})
	tests := map[string]struct {
		facts Facts
		check remediation.Check
	}{
		"a suspect keeps what it says":        {facts: Facts{Verdict: due(health.NodeDeleted, health.Finding{})}},
		"so does what nobody can judge":       {facts: Facts{Verdict: unknown(health.NodeUnreadable)}},
		"and what was asked to be left alone": {facts: Facts{Verdict: &health.Verdict{Kind: health.Skipped}}},
		"a paused check":                      {facts: Facts{Verdict: sick}, check: remediation.Check{Frozen: true}},
		"a check that goes":                   {facts: Facts{Verdict: sick}, check: remediation.Check{Deleting: true}},
		"a check without its Cluster":         {facts: Facts{Verdict: sick}, check: remediation.Check{Cluster: remediation.ClusterIsMissing}},
		"a check that observes":               {facts: Facts{Verdict: sick, Policy: &remediation.Policy{Observe: true}}},
		"another check takes care of it":      {facts: Facts{Verdict: sick, Target: &remediation.Target{CoveredBy: "MachineHealthCheck default/b"}}},
		"a pause came before the act":         {facts: Facts{Verdict: sick, Decision: &remediation.Decision{Hold: remediation.Hold{Reason: remediation.Paused}}}},
	}
	for why, test := range tests {
		t.Run(why, func(t *testing.T) {
			if test.facts.Decision == nil {
				test.facts.Decision = &remediation.Decision{}
			}
			NewWithT(t).Expect(ForMachine(&test.facts, &test.check)).To(Equal(MachineConditions{}))
		})
	}
}
