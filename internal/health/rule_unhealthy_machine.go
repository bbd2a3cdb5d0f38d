// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnhealthyMachine means: a condition of the Machine has had an unhealthy status for its timeout.
const UnhealthyMachine Reason = "UnhealthyMachine"

func ruleUnhealthyMachine(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.Machine == nil {
		return all
	}
	for i := range p.MachineConditions {
		check := &p.MachineConditions[i]
		condition := machineCondition(t.Machine.Conditions, check.Type)
		if condition == nil || string(condition.Status) != check.Status || unverified(condition, t.nodeState()) {
			continue
		}
		f := Finding{Rule: UnhealthyMachine, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		all = append(all, deadline(f, began(condition.LastTransitionTime.Time, t.Machine.CreatedAt), check.Lasting, now))
	}
	return all
}

// aboutNode reports whether a condition of a Machine only repeats the status of its Node.
func aboutNode(kind string) bool {
	return kind == "NodeReady" || kind == "NodeHealthy"
}

// unverified reports whether a condition about the Node was set while the Node could not be read. Cluster API sets such a condition on
// every Machine of a cluster that it cannot connect to, also if all Nodes are healthy.
func unverified(condition *metav1.Condition, node NodeState) bool {
	if !aboutNode(condition.Type) {
		return false
	}
	switch condition.Reason {
	case "ConnectionDown", "InspectionFailed", "InternalError":
		return condition.Status == metav1.ConditionUnknown
	}
	return node == Unreadable
}

func machineCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}
