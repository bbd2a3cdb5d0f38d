// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CheckStatus is the status of checks of all kinds.
type CheckStatus struct {
	// conditions are Ready (the summary), RemediationAllowed, Paused, ClusterReachable, TemplatesResolved and SelectorsDisjoint.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is based on.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// unhealthy is the number of targets that are unhealthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unhealthy *int32 `json:"unhealthy,omitempty"`

	// suspect is the number of targets that will be unhealthy if nothing changes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Suspect *int32 `json:"suspect,omitempty"`

	// undetermined is the number of targets whose health is unknown, because something cannot be read.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Undetermined *int32 `json:"undetermined,omitempty"`

	// remediating is the number of targets that are being remediated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Remediating *int32 `json:"remediating,omitempty"`

	// blocked is the number of targets whose remediation is blocked, or cannot end; unhealthyTargets has the reasons.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Blocked *int32 `json:"blocked,omitempty"`

	// remediationsAllowed is how many more targets can be unhealthy before remediation stops.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RemediationsAllowed *int32 `json:"remediationsAllowed,omitempty"`

	// limit is how many targets can be unhealthy before remediation stops, and the field that it follows from.
	// +optional
	Limit *EffectiveLimit `json:"limit,omitempty"`

	// unhealthyTargets are the targets that are unhealthy or about to be, in alphabetical order, up to a hundred.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	UnhealthyTargets []UnhealthyTarget `json:"unhealthyTargets,omitempty"`

	// unhealthyTargetsTotal is the number of these targets, listed or not.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnhealthyTargetsTotal *int32 `json:"unhealthyTargetsTotal,omitempty"`

	// recentRemediations are the last ten remediations that have ended, the latest first. They may be lost when the check is moved to another
	// cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	RecentRemediations []RecentRemediation `json:"recentRemediations,omitempty"`
}

// EffectiveLimit is how many targets can be unhealthy before remediation stops.
type EffectiveLimit struct {
	// source is the field that the limit follows from, with its value, such as maxUnhealthy=40%.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Source string `json:"source"`

	// minUnhealthy is how many targets must be unhealthy for remediation; only unhealthyRange sets it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinUnhealthy *int32 `json:"minUnhealthy,omitempty"`

	// maxUnhealthy is how many of the present targets can be unhealthy. It is compared with the targets that spec.maxUnhealthy counts.
	// +required
	// +kubebuilder:validation:Minimum=0
	MaxUnhealthy int32 `json:"maxUnhealthy"`
}

// Decision is what was decided about a target.
type Decision string

// The decisions.
const (
	// Remediating is a target that is being remediated.
	Remediating Decision = "Remediating"
	// Blocked is a target whose remediation is blocked for the blocked reason.
	Blocked Decision = "Blocked"
	// Pending is a target that is not unhealthy yet.
	Pending Decision = "Pending"
	// Observed is a target whose check only observes.
	Observed Decision = "Observed"
)

// TargetHealth is the health of a target in the list of unhealthy targets.
type TargetHealth string

// The health of listed targets.
const (
	// UnhealthyTargetHealth is a target that is unhealthy.
	UnhealthyTargetHealth TargetHealth = "Unhealthy"
	// SuspectTargetHealth is a target that becomes unhealthy if nothing changes.
	SuspectTargetHealth TargetHealth = "Suspect"
	// RecoveringTargetHealth is a target that is healthy again, but whose remediation has not ended or is blocked.
	RecoveringTargetHealth TargetHealth = "Recovering"
)

// UnhealthyTarget is why a target is unhealthy, whether it is remediated, and when that changes.
type UnhealthyTarget struct {
	// name is the name of the Machine, or of the Node if the check monitors Nodes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// node is the name of the Node.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// health is Unhealthy, Suspect or Recovering; empty if it cannot be evaluated.
	// +optional
	// +kubebuilder:validation:Enum=Unhealthy;Suspect;Recovering
	Health TargetHealth `json:"health,omitempty"`

	// sinceTime is when the first cause began.
	// +optional
	SinceTime *metav1.Time `json:"sinceTime,omitempty"`

	// reason is the first cause, in one word.
	// +required
	Reason TargetReason `json:"reason"`

	// message names every cause.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// decision is Remediating, Blocked, Pending or Observed.
	// +required
	// +kubebuilder:validation:Enum=Remediating;Blocked;Pending;Observed
	Decision Decision `json:"decision"`

	// blockedReason is why remediation is blocked, in one word.
	// +optional
	BlockedReason BlockedReason `json:"blockedReason,omitempty"`

	// nextCheckTime is when the decision changes if nothing else happens: a suspect becomes unhealthy, a block ends, or a step times out.
	// +optional
	NextCheckTime *metav1.Time `json:"nextCheckTime,omitempty"`

	// step is the order of the escalation step that is under way.
	// +optional
	Step *int32 `json:"step,omitempty"`

	// request is the remediation request that is under way.
	// +optional
	Request *RequestReference `json:"request,omitempty"`
}

// RequestReference names a remediation request.
type RequestReference struct {
	// apiVersion is the group and version of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// namespace is the namespace of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the name of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RemediationOutcome is how a remediation ended.
type RemediationOutcome string

// The outcomes of a remediation.
const (
	// RecoveredOutcome is a target that is healthy again.
	RecoveredOutcome RemediationOutcome = "Recovered"
	// ReplacedOutcome is a target that was deleted and replaced.
	ReplacedOutcome RemediationOutcome = "Replaced"
	// FailedOutcome is a remediator that has reported a failure.
	FailedOutcome RemediationOutcome = "Failed"
	// TimedOutOutcome is a remediation that took too long.
	TimedOutOutcome RemediationOutcome = "TimedOut"
	// WithdrawnOutcome is a remediation that was no longer wanted.
	WithdrawnOutcome RemediationOutcome = "Withdrawn"
)

// RecentRemediation is a remediation that has ended.
type RecentRemediation struct {
	// target is the name of the Machine or Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Target string `json:"target"`

	// step is the order of the escalation step, where there are steps.
	// +optional
	Step *int32 `json:"step,omitempty"`

	// startTime is when it began.
	// +required
	StartTime metav1.Time `json:"startTime"`

	// completionTime is when it ended.
	// +required
	CompletionTime metav1.Time `json:"completionTime"`

	// outcome is how it ended.
	// +required
	// +kubebuilder:validation:Enum=Recovered;Replaced;Failed;TimedOut;Withdrawn
	Outcome RemediationOutcome `json:"outcome"`
}
