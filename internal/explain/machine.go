// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Types and reasons of conditions that Cluster API defines.
const (
	HealthCheckSucceeded  = "HealthCheckSucceeded"
	OwnerRemediated       = "OwnerRemediated"
	ExternallyRemediated  = "ExternallyRemediated"
	WaitingForRemediation = "WaitingForRemediation"

	severityWarning = "Warning"

	// The messages of Cluster API: owners, clusterctl and dashboards search for them.
	failed                = "Health check failed:"
	bullet                = "\n  * "
	waitingForRemediation = "Waiting for remediation"
)

// deprecatedReasons are the reasons that have another name in v1beta1.
var deprecatedReasons = map[health.Reason]string{
	health.HasRemediateAnnotation: "HasRemediateMachineAnnotation",
	health.MachineFailed:          "MachineHasFailure",
	health.NodeDeleted:            "NodeNotFound",
}

// MachineConditions are the conditions to set on a Machine. A nil one stays as it is.
type MachineConditions struct {
	HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated *MachineCondition
}

// MachineCondition is a condition in both API versions.
type MachineCondition struct {
	metav1.Condition
	// Deprecated is nil where v1beta1 has no such condition.
	Deprecated *DeprecatedCondition
	// Yields: it is set only if there is none, or if it is True. Any other status was set by an owner or a remediator.
	Yields bool
}

// DeprecatedCondition is a condition of v1beta1.
type DeprecatedCondition struct {
	Type   string
	Status corev1.ConditionStatus
	// Severity is set only if the status is False.
	Severity, Reason, Message string
}

// Writes reports whether the condition replaces one with this status; an empty status means that there is none.
func (c *MachineCondition) Writes(present metav1.ConditionStatus) bool {
	return !c.Yields || present == "" || present == metav1.ConditionTrue
}

// succeeded is shared by all healthy Machines, and must not be changed.
var succeeded = &MachineCondition{
	Condition:  metav1.Condition{Type: HealthCheckSucceeded, Status: metav1.ConditionTrue, Reason: HealthCheckSucceeded},
	Deprecated: &DeprecatedCondition{Type: HealthCheckSucceeded, Status: corev1.ConditionTrue},
}

// ForMachine returns the conditions to set on a Machine after a decision. Those of a suspect Machine stay as they are, as in-tree.
func ForMachine(f *Facts, check *remediation.Check) MachineConditions {
	var c MachineConditions
	if !sets(f, check) {
		return c
	}
	switch f.Verdict.Kind {
	case health.Healthy:
		c.HealthCheckSucceeded = succeeded
	case health.Unhealthy:
		// The annotation of the check is set before.
		if f.Decision.MarkedBy && !f.wouldRequest() {
			c.HealthCheckSucceeded = unhealthyMachine(f.Verdict, f.Node)
		}
	case health.Suspect, health.Undetermined, health.Skipped:
	}
	switch {
	case f.Decision.Action == remediation.RequestOwnerRemediation:
		c.OwnerRemediated = waitingCondition(OwnerRemediated, waitingForRemediation)
		c.OwnerRemediated.Deprecated = &DeprecatedCondition{
			Type: OwnerRemediated, Status: corev1.ConditionFalse, Severity: severityWarning, Reason: WaitingForRemediation,
		}
	case f.requested():
		// Cluster API leaves the message empty, and has no such condition in v1beta1.
		c.ExternallyRemediated = waitingCondition(ExternallyRemediated, "")
	}
	return c
}

// sets reports whether the check sets conditions on the Machine. It does not after a failed preflight check.
func sets(f *Facts, check *remediation.Check) bool {
	switch {
	case check.Paused || check.Deleting || check.Cluster == remediation.ClusterIsMissing:
		return false
	case f.Policy != nil && f.Policy.Observe:
		return false
	case f.Target != nil && f.Target.CoveredBy != "":
		return false
	}
	return !f.Decision.Unconfirmed && f.Verdict != nil && f.Decision.Block.Reason != remediation.Paused
}

// wouldRequest reports whether HealthCheckSucceeded=False would request owner remediation that is not decided: OwnerRemediated=False is
// left from an earlier one.
func (f *Facts) wouldRequest() bool {
	return f.Target != nil && !f.Target.OwnerRemediation.Since.IsZero() && !f.Target.OwnerRemediation.Unhealthy &&
		f.Decision.Action != remediation.RequestOwnerRemediation
}

// requested reports whether a request exists that is not being deleted. It does so as long as the request exists, because the manager may
// have stopped between creating the request and setting the condition.
func (f *Facts) requested() bool {
	if f.Decision.Action == remediation.StartRequest {
		return true
	}
	return f.Verdict.Kind == health.Unhealthy && f.Decision.Action == remediation.Wait &&
		f.Target != nil && f.Target.Request != nil && f.Target.Request.DeletingSince.IsZero()
}

func waitingCondition(kind, message string) *MachineCondition {
	return &MachineCondition{
		Condition: metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: WaitingForRemediation, Message: message},
		Yields:    true,
	}
}

// unhealthyMachine has the layout of Cluster API: a list of causes, and a single line if a person requested remediation and there is no
// other cause.
func unhealthyMachine(v *health.Verdict, node string) *MachineCondition {
	all := causes(v, node)
	message := failed + bullet + listed(all, bullet, MaxMessage-len(failed)-len(bullet))
	deprecated := capital(listed(all, "; ", MaxMessage))
	switch {
	case v.Reason == health.HasRemediateAnnotation && len(all) == 1:
		message, deprecated = failed+" "+all[0], "Marked for remediation via remediate-machine annotation"
	case v.Reason == health.NodeDeleted:
		// Cluster API leaves the message of v1beta1 empty.
		deprecated = ""
	}
	reason, renamed := deprecatedReasons[v.Reason]
	if !renamed {
		reason = string(v.Reason)
	}
	return &MachineCondition{
		Condition: metav1.Condition{Type: HealthCheckSucceeded, Status: metav1.ConditionFalse, Reason: string(v.Reason), Message: message},
		Deprecated: &DeprecatedCondition{
			Type: HealthCheckSucceeded, Status: corev1.ConditionFalse, Severity: severityWarning, Reason: reason, Message: deprecated,
		},
	}
}
