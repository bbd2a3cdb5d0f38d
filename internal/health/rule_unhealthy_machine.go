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
		if condition == nil || string(condition.Status) != check.Status {
			continue
		}
		f := Finding{Rule: UnhealthyMachine, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		all = append(all, deadline(f, began(condition.LastTransitionTime.Time, t.Machine.CreatedAt), check.Lasting, now))
	}
	return all
}

func machineCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}
