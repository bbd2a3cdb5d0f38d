// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnhealthyMachine means: a condition of the Machine has had a bad status for too long.
const UnhealthyMachine Reason = "UnhealthyMachine"

func ruleUnhealthyMachine(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.Machine == nil {
		return all
	}
	for i := range p.MachineConditions {
		check := &p.MachineConditions[i]
		condition := machineCondition(t.Machine.Conditions, check.Type)
		if condition == nil || string(condition.Status) != check.Status || hearsay(condition, t.nodeState()) {
			continue
		}
		f := Finding{Rule: UnhealthyMachine, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		all = append(all, deadline(f, began(condition.LastTransitionTime.Time, t.Machine.CreatedAt), check.Lasting, now))
	}
	return all
}

// aboutNode says whether a condition of a Machine only repeats what was seen of its Node.
func aboutNode(kind string) bool {
	return kind == "NodeReady" || kind == "NodeHealthy"
}

// hearsay says whether a condition repeats what was seen of the Node while that could not be seen. Cluster API writes such a condition on every
// Machine of a cluster that is cut off: it is about the connection, and a fleet of healthy Nodes would pay for it.
func hearsay(condition *metav1.Condition, node NodeState) bool {
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
