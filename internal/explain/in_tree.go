// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// InTreeConditions returns the conditions of a check of Cluster API. Those that Cluster API defines are as its controller sets them. One
// that its controller would not set now is left out, and stays as it is. What else blocks remediation is in Remedy's condition Ready. The
// limits are those in the spec.
func InTreeConditions(own []metav1.Condition, p *Evaluation, maxUnhealthy, unhealthyRange string) []metav1.Condition {
	all := slices.Clone(own)
	allowed := meta.FindStatusCondition(all, remedyv1.RemediationAllowedCondition)
	ready := meta.FindStatusCondition(all, remedyv1.ReadyCondition)
	inTree := allowedInTree(p, maxUnhealthy, unhealthyRange)
	if allowed != nil && ready != nil && ready.Status != metav1.ConditionTrue && ready.Reason == allowed.Reason &&
		(inTree == nil || inTree.Reason != allowed.Reason) {
		ready.Message = allowed.Message
	}
	if paused := meta.FindStatusCondition(all, remedyv1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		paused.Message = pausedInTree(p)
	}
	if allowed == nil {
		return all
	} else if inTree == nil {
		meta.RemoveStatusCondition(&all, allowed.Type)
		return all
	}
	// The time of the last transition is that of Remedy's own condition, which may have had another status.
	inTree.ObservedGeneration = allowed.ObservedGeneration
	*allowed = *inTree
	return all
}

// allowedInTree returns the condition RemediationAllowed of Cluster API, which depends only on the limit; nil if its controller would not
// set it, because the check is paused, its Cluster cannot be read, or its range is invalid.
func allowedInTree(p *Evaluation, maxUnhealthy, unhealthyRange string) *metav1.Condition {
	check, gate := &p.Situation.Check, &p.Planned.LimitState
	if check.Paused || check.Unreachable || check.Reconnecting || check.Cluster == remediation.ClusterIsMissing ||
		gate.Limit.Field == "unhealthyRange" && gate.Limit.Max < gate.Limit.Min {
		return nil
	}
	if gate.Allowed {
		allowed := condition(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, remedyv1.RemediationAllowedReason, "")
		return &allowed
	}
	const blocked = "Remediation is not allowed, the number of not started or unhealthy machines "
	limit := "exceeds maxUnhealthy (total: %d, unhealthy: %d, maxUnhealthy: %s)"
	value := maxUnhealthy
	if unhealthyRange != "" {
		limit, value = "does not fall within the range (total: %d, unhealthy: %d, unhealthyRange: %s)", unhealthyRange
	}
	return &metav1.Condition{
		Type: remedyv1.RemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: remedyv1.TooManyUnhealthyReason,
		Message: fmt.Sprintf(blocked+limit, p.Assessment.Counts.Expected, p.Assessment.Counts.Unhealthy, value),
	}
}

// pausedInTree returns the message of the condition Paused of Cluster API.
func pausedInTree(p *Evaluation) string {
	var causes []string
	if p.Context.ClusterPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if p.Context.CheckPaused {
		causes = append(causes, "MachineHealthCheck has the cluster.x-k8s.io/paused annotation")
	}
	return strings.Join(causes, ", ")
}
