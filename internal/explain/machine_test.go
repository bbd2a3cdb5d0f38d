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

// Reasons and messages equal those of Cluster API, in both API versions: owners and clusterctl search for them.
func TestForMachine_Unhealthy_MatchesClusterAPI(t *testing.T) {
	infrastructure := health.Finding{
		Rule: health.UnhealthyMachine, Met: true, Condition: "InfrastructureReady", Status: "False",
		Cause: "NotReady", Lasting: time.Minute,
	}
	ready := health.Finding{
		Rule: health.UnhealthyNode, Met: true, Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown",
		Lasting: 5 * time.Minute,
	}
	manual := met(health.HasRemediateAnnotation, health.Finding{})
	manual.Findings = append(manual.Findings, ready)
	both := &health.Verdict{Kind: health.Unhealthy, Reason: health.UnhealthyMachine, Findings: []health.Finding{infrastructure, ready}}
	type row struct {
		why                        string
		verdict                    *health.Verdict
		reason, deprecated         string
		message, deprecatedMessage string
	}
	fails := func(why string, verdict *health.Verdict, reason, deprecated, message, deprecatedMessage string) row {
		return row{why, verdict, reason, deprecated, message, deprecatedMessage}
	}
	tests := []row{
		fails("annotation", met(health.HasRemediateAnnotation, health.Finding{}), clusterv1.MachineHealthCheckHasRemediateAnnotationReason,
			clusterv1.HasRemediateMachineAnnotationV1Beta1Reason,
			"Health check failed: marked for remediation via cluster.x-k8s.io/remediate-machine annotation",
			"Marked for remediation via remediate-machine annotation"),
		fails("annotation and another cause", manual, clusterv1.MachineHealthCheckHasRemediateAnnotationReason,
			clusterv1.HasRemediateMachineAnnotationV1Beta1Reason,
			"Health check failed:\n  * marked for remediation via cluster.x-k8s.io/remediate-machine annotation\n  * Condition Ready on Node is "+
				"reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Marked for remediation via cluster.x-k8s.io/remediate-machine annotation; Condition Ready on Node is reporting status Unknown with "+
				"reason NodeStatusUnknown for more than 5m0s"),
		fails("condition of the Node", met(health.UnhealthyNode, ready), clusterv1.MachineHealthCheckUnhealthyNodeReason,
			clusterv1.UnhealthyNodeConditionV1Beta1Reason,
			"Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"),
		fails("conditions of both", both, clusterv1.MachineHealthCheckUnhealthyMachineReason, clusterv1.UnhealthyMachineConditionV1Beta1Reason,
			"Health check failed:\n  * Condition InfrastructureReady on Machine is reporting status False with reason NotReady for more than "+
				"1m0s\n  * Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s",
			"Condition InfrastructureReady on Machine is reporting status False with reason NotReady for more than 1m0s; Condition Ready on Node "+
				"is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"),
		fails("deleted Node: no message in v1beta1", met(health.NodeDeleted, health.Finding{}), clusterv1.MachineHealthCheckNodeDeletedReason,
			clusterv1.NodeNotFoundV1Beta1Reason, "Health check failed:\n  * Node n has been deleted", ""),
		fails("startup timeout", met(health.NodeStartupTimeout, health.Finding{Lasting: 10 * time.Minute}),
			clusterv1.MachineHealthCheckNodeStartupTimeoutReason, clusterv1.NodeStartupTimeoutV1Beta1Reason,
			"Health check failed:\n  * Node failed to report startup in 10m0s", "Node failed to report startup in 10m0s"),
		fails("failed Machine: not in Cluster API", met(health.MachineFailed, health.Finding{Cause: "CreateError"}), "MachineFailed",
			clusterv1.MachineHasFailureV1Beta1Reason, "Health check failed:\n  * Machine has failed: CreateError",
			"Machine has failed: CreateError"),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			c := ForMachine(&Facts{Node: "n", Verdict: test.verdict, Decision: &remediation.Decision{MarkedBy: true}}, &remediation.Check{})
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
			g.Expect(got.Writes(metav1.ConditionFalse)).To(BeTrue(), "health replaces any status")
		})
	}
}

func TestForMachine_Healthy_SetsOnlyHealthCheckSucceeded(t *testing.T) {
	g := NewWithT(t)
	c := ForMachine(&Facts{Verdict: &health.Verdict{Kind: health.Healthy}, Decision: &remediation.Decision{}}, &remediation.Check{})
	g.Expect(c.HealthCheckSucceeded.Condition).To(Equal(metav1.Condition{
		Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineHealthCheckSucceededReason,
	}))
	g.Expect(*c.HealthCheckSucceeded.Deprecated).To(Equal(DeprecatedCondition{Type: "HealthCheckSucceeded", Status: corev1.ConditionTrue}))
	g.Expect(c.OwnerRemediated).To(BeNil())
}

func TestForMachine_Remediation_SetsWaitingForRemediation(t *testing.T) {
	g := NewWithT(t)
	facts := &Facts{
		Verdict: met(health.NodeDeleted, health.Finding{}), Decision: &remediation.Decision{Action: remediation.RequestOwnerRemediation},
		Target: &remediation.Target{},
	}
	c := ForMachine(facts, &remediation.Check{})
	g.Expect(c.OwnerRemediated.Condition).To(Equal(metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: "Waiting for remediation",
	}))
	g.Expect(*c.OwnerRemediated.Deprecated).To(Equal(DeprecatedCondition{
		Type: string(clusterv1.MachineOwnerRemediatedV1Beta1Condition), Status: corev1.ConditionFalse, Severity: "Warning",
		Reason: clusterv1.WaitingForRemediationV1Beta1Reason,
	}))
	g.Expect(c.ExternallyRemediated).To(BeNil())
	for present, writes := range map[metav1.ConditionStatus]bool{
		"": true, metav1.ConditionTrue: true, metav1.ConditionFalse: false,
		metav1.ConditionUnknown: false,
	} {
		g.Expect(c.OwnerRemediated.Writes(present)).To(Equal(writes), "the condition of an owner is never overwritten: %q", present)
	}

	request := metav1.Condition{
		Type: clusterv1.MachineExternallyRemediatedCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineExternallyRemediatedWaitingForRemediationReason,
	}
	facts.Decision = &remediation.Decision{Action: remediation.StartRequest}
	c = ForMachine(facts, &remediation.Check{})
	g.Expect(c.ExternallyRemediated.Condition).To(Equal(request))
	g.Expect(c.ExternallyRemediated.Yields).To(BeTrue())
	g.Expect(c.ExternallyRemediated.Deprecated).To(BeNil())
	g.Expect(c.OwnerRemediated).To(BeNil())

	facts.Decision, facts.Target.Request = &remediation.Decision{Action: remediation.Wait}, &remediation.Request{}
	g.Expect(ForMachine(facts, &remediation.Check{}).ExternallyRemediated.Condition).To(Equal(request),
		"the manager may have stopped before it set the condition")
	facts.Target.Request.DeletingSince = noon
	g.Expect(ForMachine(facts, &remediation.Check{}).ExternallyRemediated).To(BeNil())
	facts.Decision, facts.Target.Request = &remediation.Decision{Action: remediation.Wait}, nil
	c = ForMachine(facts, &remediation.Check{})
	g.Expect(c.OwnerRemediated).To(BeNil(), "only when owner remediation is requested")
	g.Expect(c.ExternallyRemediated).To(BeNil())
}

func TestForMachine_NotResponsible_SetsNothing(t *testing.T) {
	sick := met(health.NodeDeleted, health.Finding{})
	tests := map[string]struct {
		facts Facts
		check remediation.Check
	}{
		"suspect":             {facts: Facts{Verdict: due(health.NodeDeleted, health.Finding{})}},
		"undetermined":        {facts: Facts{Verdict: unknown(health.NodeUnreadable)}},
		"skipped":             {facts: Facts{Verdict: &health.Verdict{Kind: health.Skipped}}},
		"paused check":        {facts: Facts{Verdict: sick}, check: remediation.Check{Paused: true}},
		"check being deleted": {facts: Facts{Verdict: sick}, check: remediation.Check{Deleting: true}},
		"missing Cluster":     {facts: Facts{Verdict: sick}, check: remediation.Check{Cluster: remediation.ClusterIsMissing}},
		"observe mode":        {facts: Facts{Verdict: sick, Policy: &remediation.Policy{Observe: true}}},
		"another check is responsible": {facts: Facts{
			Verdict: sick,
			Target:  &remediation.Target{CoveredBy: "MachineHealthCheck default/b"},
		}},
		"paused after the decision": {facts: Facts{
			Verdict:  sick,
			Decision: &remediation.Decision{Block: remediation.Block{Reason: remediation.Paused}},
		}},
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
