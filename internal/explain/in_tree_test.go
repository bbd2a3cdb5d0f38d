// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
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
	type row struct {
		name  string
		gate  remediation.LimitState
		check remediation.Check
		// own is the reason of Remedy's RemediationAllowed; empty if it is True.
		own, unhealthyRange, wantReason, wantMessage string
	}
	allowed := remediation.LimitState{Allowed: true}
	ranged := func(least, most int) remediation.LimitState {
		return remediation.LimitState{Limit: remediation.Limit{Field: "unhealthyRange", Min: least, Max: most}}
	}
	missing := remediation.Check{Cluster: remediation.ClusterIsMissing}
	tests := []row{
		{"allowed", allowed, remediation.Check{}, "", "", remedyv1.RemediationAllowedReason, ""},
		{"maxUnhealthy", tooMany, remediation.Check{}, remedyv1.TooManyUnhealthyReason, "", remedyv1.TooManyUnhealthyReason, exceeds},
		{"below the range", ranged(4, 5), remediation.Check{}, remedyv1.TooFewUnhealthyReason, "[4-5]", remedyv1.TooManyUnhealthyReason, outside},
		{"invalid range", ranged(1, 0), remediation.Check{}, remedyv1.LimitIsZeroReason, "[5-4]", "", ""},
		{"unreachable", tooMany, remediation.Check{Unreachable: true}, remedyv1.ClusterUnreachableReason, "", "", ""},
		{"reconnecting", tooMany, remediation.Check{Reconnecting: true}, remedyv1.TooManyUnhealthyReason, "", "", ""},
		{"Cluster not found", tooMany, missing, remedyv1.ClusterNotFoundReason, "", "", ""},
		{"Cluster being deleted", allowed, remediation.Check{}, remedyv1.ClusterDeletingReason, "", remedyv1.RemediationAllowedReason, ""},
		{"paused", tooMany, remediation.Check{Paused: true}, remedyv1.PausedReason, "", "", ""},
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
			g.Expect(ready.Reason).To(Equal(cmp.Or(test.own, remedyv1.ReadyReason)))
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
