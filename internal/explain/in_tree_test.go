// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

const (
	exceeds = "Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy " +
		"(total: 5, unhealthy: 2, maxUnhealthy: 40%)"
	outside = "Remediation is not allowed, the number of not started or unhealthy machines does not fall within the range " +
		"(total: 5, unhealthy: 2, unhealthyRange: [4-5])"
)

func TestInTreeConditions_Block_IsReportedInReady(t *testing.T) {
	tooMany := remediation.LimitState{Limit: remediation.Limit{Field: "maxUnhealthy", Max: 2}, Unhealthy: 3}
	tests := []struct {
		name           string
		gate           remediation.LimitState
		check          remediation.Check
		unhealthyRange string
		// own is the reason of Remedy's RemediationAllowed; empty if it is True.
		own, wantReason, wantMessage, wantReady string
	}{
		{
			name: "allowed", gate: remediation.LimitState{Allowed: true},
			wantReason: remedyv1.RemediationAllowedReason, wantReady: remedyv1.ReadyReason,
		},
		{
			name: "maxUnhealthy", gate: tooMany, own: remedyv1.TooManyUnhealthyReason, wantReason: remedyv1.TooManyUnhealthyReason,
			wantMessage: exceeds, wantReady: remedyv1.TooManyUnhealthyReason,
		},
		{
			name: "below the range", gate: remediation.LimitState{Limit: remediation.Limit{Field: "unhealthyRange", Min: 4, Max: 5}},
			unhealthyRange: "[4-5]", own: remedyv1.TooFewUnhealthyReason, wantReason: remedyv1.TooManyUnhealthyReason, wantMessage: outside,
			wantReady: remedyv1.TooFewUnhealthyReason,
		},
		{
			name: "invalid range", gate: remediation.LimitState{Limit: remediation.Limit{Field: "unhealthyRange", Min: 1}}, unhealthyRange: "[5-4]",
			own: remedyv1.LimitIsZeroReason, wantReady: remedyv1.LimitIsZeroReason,
		},
		{
			name: "unreachable", gate: tooMany, check: remediation.Check{Unreachable: true}, own: remedyv1.ClusterUnreachableReason,
			wantReady: remedyv1.ClusterUnreachableReason,
		},
		{
			name: "reconnecting", gate: tooMany, check: remediation.Check{Reconnecting: true}, own: remedyv1.TooManyUnhealthyReason,
			wantReady: remedyv1.TooManyUnhealthyReason,
		},
		{
			name: "Cluster not found", gate: tooMany, check: remediation.Check{Cluster: remediation.ClusterIsMissing},
			own: remedyv1.ClusterNotFoundReason, wantReady: remedyv1.ClusterNotFoundReason,
		},
		{
			name: "Cluster being deleted", gate: remediation.LimitState{Allowed: true}, own: remedyv1.ClusterDeletingReason,
			wantReason: remedyv1.RemediationAllowedReason, wantReady: remedyv1.ClusterDeletingReason,
		},
		{name: "paused", gate: tooMany, check: remediation.Check{Paused: true}, own: remedyv1.PausedReason, wantReady: remedyv1.PausedReason},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			own := []metav1.Condition{
				condition(remedyv1.ReadyCondition, metav1.ConditionTrue, remedyv1.ReadyReason, ""),
				condition(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, remedyv1.RemediationAllowedReason, "Remediation is allowed"),
			}
			if test.own != "" {
				own = []metav1.Condition{
					condition(remedyv1.ReadyCondition, metav1.ConditionFalse, test.own, "RemediationAllowed is False"),
					condition(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, test.own, "Blocked"),
				}
			}
			p := &Evaluation{
				Situation: &remediation.Situation{Check: test.check}, Planned: &remediation.Planned{LimitState: test.gate},
				Assessment: &health.Assessment{Counts: health.Counts{Expected: 5, Unhealthy: 2}},
			}
			got := InTreeConditions(own, p, "40%", test.unhealthyRange)
			ready := meta.FindStatusCondition(got, remedyv1.ReadyCondition)
			g.Expect(ready.Reason).To(Equal(test.wantReady))
			if test.own != "" && test.own != test.wantReason {
				g.Expect(ready.Message).To(Equal("Blocked"), "RemediationAllowed does not report it")
			}
			allowed := meta.FindStatusCondition(got, remedyv1.RemediationAllowedCondition)
			if test.wantReason == "" {
				g.Expect(allowed).To(BeNil(), "the one that is there stays")
				return
			}
			g.Expect([]string{allowed.Reason, allowed.Message}).To(Equal([]string{test.wantReason, test.wantMessage}))
			g.Expect(allowed.LastTransitionTime).To(BeZero())
		})
	}
}

func TestInTreeConditions_Paused_HasInTreeMessage(t *testing.T) {
	for want, facts := range map[string]ConditionFacts{
		"Cluster spec.paused is set to true":                            {ClusterPaused: true},
		"MachineHealthCheck has the cluster.x-k8s.io/paused annotation": {CheckPaused: true},
		"Cluster spec.paused is set to true, MachineHealthCheck has the cluster.x-k8s.io/paused annotation": {
			ClusterPaused: true, CheckPaused: true,
		},
	} {
		t.Run(want, func(t *testing.T) {
			p := &Evaluation{
				Situation: &remediation.Situation{Check: remediation.Check{Paused: true}}, Planned: &remediation.Planned{}, Context: facts,
			}
			got := InTreeConditions([]metav1.Condition{pausedCondition(p)}, p, "100%", "")
			NewWithT(t).Expect(got).To(ConsistOf(HaveField("Message", want)))
		})
	}
}
