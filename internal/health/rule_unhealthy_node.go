// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// UnhealthyNode means: a condition of the Node has had an unhealthy status for its timeout.
const UnhealthyNode Reason = "UnhealthyNode"

func ruleUnhealthyNode(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.nodeState() != Present {
		return all
	}
	for i := range p.NodeConditions {
		check := &p.NodeConditions[i]
		condition := nodeCondition(t.Node.Conditions, check.Type)
		if condition == nil || string(condition.Status) != check.Status {
			continue
		}
		f := Finding{Rule: UnhealthyNode, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		all = append(all, deadline(f, began(condition.LastTransitionTime.Time, t.Node.CreatedAt), check.Lasting, now))
	}
	return all
}

func nodeCondition(conditions []corev1.NodeCondition, kind string) *corev1.NodeCondition {
	for i := range conditions {
		if string(conditions[i].Type) == kind {
			return &conditions[i]
		}
	}
	return nil
}
