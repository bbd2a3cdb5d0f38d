// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Statuses and reasons of the conditions of a Machine.
const (
	OwnerRequested     = "False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	IsHealthy          = "True " + clusterv1.MachineHealthCheckSucceededReason
	IsUnhealthy        = "False " + clusterv1.MachineHealthCheckUnhealthyNodeReason
	CannotBeRemediated = clusterv1.MachineSetMachineCannotBeRemediatedReason
)

// CheckCondition returns the status and the reason of a condition of a check.
func CheckCondition(kind string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, c := range check.Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
}

// CheckMessage returns the message of a condition of a check.
func CheckMessage(kind string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, c := range check.Status.Conditions {
			if c.Type == kind {
				return c.Message
			}
		}
		return ""
	}
}

// Decision returns the decision for a Machine, and why it is blocked.
func Decision(machine string) func(*remedyv1.MachineHealthCheck) string {
	return func(check *remedyv1.MachineHealthCheck) string {
		for _, t := range check.Status.UnhealthyTargets {
			if t.Name == machine {
				return string(t.Decision) + " " + string(t.BlockedReason)
			}
		}
		return ""
	}
}

// Healthy returns how many Machines of a check are healthy, -1 if that is not known.
func Healthy(c *remedyv1.MachineHealthCheck) int32 {
	if c.Status.CurrentHealthy == nil {
		return -1
	}
	return *c.Status.CurrentHealthy
}

// MachineCondition returns the status and the reason of a condition of a Machine.
func MachineCondition(kind string) func(*clusterv1.Machine) string {
	return func(m *clusterv1.Machine) string {
		c := conditions.Get(m, kind)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

// WaitMachineCondition waits for the status and the reason of a condition of a Machine; empty is no condition.
func (s *Stage) WaitMachineCondition(m *clusterv1.Machine, kind, expected string) {
	s.T.Helper()
	s.Eventually(Get(s, m)).Should(WithTransform(MachineCondition(kind), Equal(expected)))
}

// WaitCheckCondition waits for the status and the reason of a condition of a check.
func (s *Stage) WaitCheckCondition(check *remedyv1.MachineHealthCheck, kind, expected string) {
	s.T.Helper()
	s.Eventually(Get(s, check)).Should(WithTransform(CheckCondition(kind), Equal(expected)))
}

// MachineConditions returns the status and the reason of a condition of every Machine.
func (s *Stage) MachineConditions(kind string) map[string]string {
	s.T.Helper()
	all := map[string]string{}
	machines := s.Machines()
	for i := range machines {
		all[machines[i].Name] = MachineCondition(kind)(&machines[i])
	}
	return all
}

// Count counts the Machines with a value.
func Count(values map[string]string, value string) int {
	n := 0
	for _, v := range values {
		if v == value {
			n++
		}
	}
	return n
}

// Annotations returns the annotations of a Machine.
func Annotations(m *clusterv1.Machine) map[string]string { return m.Annotations }

// Changed returns the checks with reconciles between two counts.
func Changed(before, after map[string]int64) []string {
	var changed []string
	for check, n := range after {
		if n != before[check] {
			changed = append(changed, check)
		}
	}
	return changed
}
