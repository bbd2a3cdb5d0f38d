// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Node that cannot be read may no longer have its annotation. The annotation of a Machine can be read.
func TestFinding_AnnotationOfNode_NeedsNode(t *testing.T) {
	g := NewWithT(t)
	for _, onNode := range []bool{true, false} {
		finding := Finding{Rule: HasRemediateAnnotation, Met: true, OnNode: onNode}
		g.Expect(finding.NeedsNode()).To(Equal(onNode))
	}
}

// Cluster API copies the time of the Node, which is a claim. That of the Node was corrected.
func TestEvaluate_CopiedCondition_CountsFromTheNode(t *testing.T) {
	g := NewWithT(t)
	verdictWith := func(kind, status string, node corev1.ConditionStatus, since, claimed time.Duration) Verdict {
		target := machine(state(Present), with(func(t *Target) {
			t.Machine.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), LastTransitionTime: metav1.NewTime(ago(time.Hour))}}
			t.Node.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: node, LastTransitionTime: metav1.NewTime(ago(since))}}
			if claimed > 0 {
				t.Node.Conditions[0].LastHeartbeatTime = metav1.NewTime(ago(claimed))
			}
		}))
		p := Policy{MachineConditions: []ConditionCheck{{kind, status, 5 * time.Minute}}}
		return Evaluate(&Snapshot{Cluster: up(), Targets: []Target{target}}, &p, noon).Verdicts[0]
	}
	const hour = time.Hour
	for _, kind := range []string{"NodeReady", "NodeHealthy"} {
		for _, status := range []string{"False", "Unknown"} {
			v := verdictWith(kind, status, corev1.ConditionStatus(status), time.Minute, hour)
			g.Expect([]any{v.Kind, v.Findings[0].Since}).To(Equal([]any{Suspect, ago(time.Minute)}), "%s=%s", kind, status)
			g.Expect(verdictWith(kind, status, corev1.ConditionStatus(status), 2*hour, 3*hour).Findings[0].Since).To(Equal(ago(hour)))
			g.Expect(verdictWith(kind, status, corev1.ConditionTrue, time.Minute, hour).Findings[0].Since).To(Equal(ago(hour)), "it is Ready")
			g.Expect(verdictWith(kind, status, corev1.ConditionStatus(status), time.Minute, 0).Findings[0].Since).To(Equal(ago(hour)), "it was not corrected")
		}
	}
	g.Expect(verdictWith("InfrastructureReady", "False", corev1.ConditionUnknown, time.Minute, hour).Findings[0].Since).To(Equal(ago(hour)))
}

// Cluster API sets this condition on every Machine of an unreachable cluster, also if all Nodes are healthy.
func TestEvaluate_ConnectionDown_IsNoCause(t *testing.T) {
	g := NewWithT(t)
	verdictWith := func(kind, status, reason string, node NodeState) Verdict {
		target := machine(state(node), with(func(t *Target) {
			t.Machine.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: metav1.NewTime(ago(time.Hour))}}
		}))
		p := Policy{MachineConditions: []ConditionCheck{{kind, status, 5 * time.Minute}}}
		return Evaluate(&Snapshot{Cluster: up(), Targets: []Target{target}}, &p, noon).Verdicts[0]
	}
	for _, kind := range []string{"NodeReady", "NodeHealthy"} {
		for _, reason := range []string{"ConnectionDown", "InspectionFailed", "InternalError"} {
			g.Expect(verdictWith(kind, "Unknown", reason, Present).Kind).To(Equal(Healthy), "%s, %s", kind, reason)
			g.Expect(verdictWith(kind, "Unknown", reason, Unreadable).Kind).To(Equal(Undetermined))
		}
		g.Expect(verdictWith(kind, "Unknown", "NodeConditionUnknown", Unreadable).Kind).To(Equal(Undetermined), "it is as old as the connection")
		v := verdictWith(kind, "Unknown", "NodeConditionUnknown", Present)
		g.Expect(v.Kind).To(Equal(Unhealthy))
		g.Expect(v.Findings[0].NeedsNode()).To(BeTrue())
		g.Expect(verdictWith(kind, "False", "InternalError", Present).Kind).To(Equal(Unhealthy), "that is something that was seen")
	}
	for _, kind := range []string{"EtcdMemberHealthy", "APIServerPodHealthy"} {
		g.Expect(verdictWith(kind, "Unknown", "ConnectionDown", Present).Kind).To(Equal(Healthy), kind)
		g.Expect(verdictWith(kind, "Unknown", "ConnectionDown", Unreadable).Kind).To(Equal(Undetermined), kind)
		g.Expect(verdictWith(kind, "Unknown", "InspectionFailed", Present).Kind).To(Equal(Unhealthy), "only this member could not be inspected")
		g.Expect(verdictWith(kind, "False", "ConnectionDown", Present).Kind).To(Equal(Unhealthy), "that is something that was seen")
	}
	v := verdictWith("InfrastructureReady", "False", "InternalError", Unreadable)
	g.Expect(v.Kind).To(Equal(Unhealthy), "a condition of the Machine itself counts")
	g.Expect(v.Findings[0].NeedsNode()).To(BeFalse())
}
