// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Conditions of Machines, and what they say. These are Cluster API's own words: owners, clusterctl and dashboards look for them.
const (
	HealthCheckSucceeded  = "HealthCheckSucceeded"
	OwnerRemediated       = "OwnerRemediated"
	ExternallyRemediated  = "ExternallyRemediated"
	WaitingForRemediation = "WaitingForRemediation"

	failed  = "Health check failed:"
	waiting = "Waiting for remediation"
	bullet  = "\n  * "
)

// deprecatedReasons are the reasons that the older generation of conditions has other words for.
var deprecatedReasons = map[health.Reason]string{
	health.HasRemediateAnnotation: "HasRemediateMachineAnnotation",
	health.MachineFailed:          "MachineHasFailure",
	health.NodeDeleted:            "NodeNotFound",
}

// MachineConditions are what a Machine shall say. What is nil is left as it is.
type MachineConditions struct {
	HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated *MachineCondition
}

// MachineCondition is one condition, in both generations.
type MachineCondition struct {
	metav1.Condition
	// Deprecated is nil where the older generation has no such condition.
	Deprecated *DeprecatedCondition
	// Yields: it is only set where there is none, or it is True. Whatever else it says is what an owner or a remediator has to say.
	Yields bool
}

// DeprecatedCondition is a condition of the older generation, v1beta1.
type DeprecatedCondition struct {
	Type   string
	Status corev1.ConditionStatus
	// Severity is only there if the status is False.
	Severity, Reason, Message string
}

// Writes says whether it is to be set where there is one with this status already; an empty status means that there is none.
func (c *MachineCondition) Writes(present metav1.ConditionStatus) bool {
	return !c.Yields || present == "" || present == metav1.ConditionTrue
}

// well is what nearly all Machines say, nearly always. All of them share it, and nobody may change it.
var well = &MachineCondition{
	Condition:  metav1.Condition{Type: HealthCheckSucceeded, Status: metav1.ConditionTrue, Reason: HealthCheckSucceeded},
	Deprecated: &DeprecatedCondition{Type: HealthCheckSucceeded, Status: corev1.ConditionTrue},
}

// ForMachine are the conditions that a Machine shall have after a decision. A suspect keeps what it says, as with Cluster API.
func ForMachine(f *Facts, check *remediation.Check) MachineConditions {
	var c MachineConditions
	if !speaks(f, check) {
		return c
	}
	switch f.Verdict.Kind {
	case health.Healthy:
		c.HealthCheckSucceeded = well
	case health.Unhealthy:
		// Who marks, signs before.
		if f.Decision.Author {
			c.HealthCheckSucceeded = unhealthyMachine(f.Verdict, f.Node)
		}
	case health.Suspect, health.Undetermined, health.Skipped:
		return c
	}
	switch {
	case f.Decision.Action == remediation.GiveMark:
		c.OwnerRemediated = waitsFor(OwnerRemediated, waiting)
		c.OwnerRemediated.Deprecated = &DeprecatedCondition{
			Type: OwnerRemediated, Status: corev1.ConditionFalse, Severity: severityWarning, Reason: WaitingForRemediation,
		}
	case f.asksRemediator():
		// Cluster API leaves the message empty here, and has no such condition in the older generation.
		c.ExternallyRemediated = waitsFor(ExternallyRemediated, "")
	}
	return c
}

const severityWarning = "Warning"

// speaks says whether this check has anything to say on the Machine: not if it only observes, is paused or going, or another one takes care of it.
func speaks(f *Facts, check *remediation.Check) bool {
	switch {
	case check.Frozen || check.Deleting || check.Cluster == remediation.ClusterIsMissing:
		return false
	case f.Policy != nil && f.Policy.Observe:
		return false
	case f.Target != nil && f.Target.CoveredBy != "":
		return false
	}
	// What was seen only just before the act: a pause, or facts that do not bear the verdict out.
	if f.Decision.Unconfirmed {
		return false
	}
	return f.Verdict != nil && f.Decision.Hold.Reason != remediation.Paused
}

// asksRemediator says whether a request is there that its remediator works on. It is said again while that lasts, as we may have been stopped
// between the request and this.
func (f *Facts) asksRemediator() bool {
	if f.Decision.Action == remediation.MakeRequest {
		return true
	}
	return f.Verdict.Kind == health.Unhealthy && f.Decision.Action == remediation.Wait &&
		f.Target != nil && f.Target.Request != nil && f.Target.Request.DeletingSince.IsZero()
}

func waitsFor(kind, message string) *MachineCondition {
	return &MachineCondition{
		Condition: metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: WaitingForRemediation, Message: message},
		Yields:    true,
	}
}

// unhealthyMachine has Cluster API's layout: a list where there are causes to list, and one line for what a person asked for alone.
func unhealthyMachine(v *health.Verdict, node string) *MachineCondition {
	all := causes(v, node)
	message := failed + bullet + listed(all, bullet, MaxMessage-len(failed)-len(bullet))
	deprecated := capital(listed(all, "; ", MaxMessage))
	switch {
	case v.Reason == health.HasRemediateAnnotation && len(all) == 1:
		message, deprecated = failed+" "+all[0], "Marked for remediation via remediate-machine annotation"
	case v.Reason == health.NodeDeleted:
		// The older generation has never said anything here.
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
