// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Limits are how many targets can be unhealthy before remediation stops.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minHealthy) && has(self.maxUnhealthy))",message="minHealthy and maxUnhealthy exclude each other: keep one of them, such as maxUnhealthy: 40%"
// +kubebuilder:validation:XValidation:rule="!(has(self.minHealthy) && has(self.unhealthyRange))",message="minHealthy and unhealthyRange exclude each other: keep one of them"
type Limits struct {
	// maxUnhealthy stops remediation when more targets than this are unhealthy: a number such as 2, or a percentage of all targets such as
	// 40%, rounded down. Without any limit the default is 100% for Machines and 49% for Nodes. With 0, nothing is remediated. Machines count
	// unless they are known to be healthy: also those that are starting, suspect or being deleted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000000) : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000000, such as 2, or a percentage from 0% to 100%, such as 40%"
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`

	// minHealthy stops remediation when fewer targets than this are healthy: a number such as 2, or a percentage of all targets such as 51%,
	// rounded up. By default it is not set, and maxUnhealthy applies. With 0, there is no limit. It excludes maxUnhealthy and unhealthyRange.
	// Targets count if they are known to be healthy.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000000) : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000000, such as 2, or a percentage from 0% to 100%, such as 51%"
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`

	// unhealthyRange allows remediation only while the number of unhealthy targets is in this range, such as "[3-5]", which needs the quotes.
	// By default it is not set. It overrides maxUnhealthy, and counts like it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\[[0-9]{1,7}-[0-9]{1,7}\\\\]$') && int(self.substring(1, self.indexOf('-'))) <= int(self.substring(self.indexOf('-') + 1, self.size() - 1))",message="must be two numbers in brackets, the lower one first, such as '[3-5]' with the quotes"
	UnhealthyRange string `json:"unhealthyRange,omitempty"`
}

// Pace is how fast remediation proceeds, and when it waits.
type Pace struct {
	// maxInFlight limits how many targets are remediated at the same time: a number such as 1, or a percentage of all targets such as 10%,
	// rounded up. By default there is no limit. A higher number than 400 counts as 400. It does not limit owner remediation of control-plane
	// Machines: their owner replaces one after the other.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1 && self <= 1000000) : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1, such as 2, or a percentage from 1% to 100%, such as 10%; to stop remediation, use pauseRequests or mode: Observe"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`

	// backoff delays the next remediation of a target after a failed one. The default is 1m, doubled with each failure up to 10m.
	// +optional
	// +kubebuilder:default={type: Exponential, initial: "1m", limit: "10m"}
	Backoff Backoff `json:"backoff,omitempty,omitzero"`

	// stormCooldownDuration delays new remediations after the limit was exceeded, until it has been kept for this long. By default, and with
	// 0s, remediation continues as soon as the limit is kept.
	// +optional
	StormCooldownDuration *Duration `json:"stormCooldownDuration,omitempty"`

	// healthyDelay delays the withdrawal of a remediation request until its target has been healthy for this long. The default is 0s, at once.
	// +optional
	// +kubebuilder:default="0s"
	HealthyDelay *Duration `json:"healthyDelay,omitempty"`

	// recovery sets when a remediation ends.
	// Automatic, the default, is when the target has been healthy for healthyDelay.
	// Confirmed is when a person has set the annotation remediation.medik8s.io/manually-confirmed-healthy.
	// +optional
	// +kubebuilder:validation:Enum=Automatic;Confirmed
	// +kubebuilder:default=Automatic
	Recovery Recovery `json:"recovery,omitempty"`

	// pauseRequests block new remediations while there is at least one. Each is a reason, such as "upgrade to v1.35". By default there are
	// none. Remediations that have begun continue.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	PauseRequests []string `json:"pauseRequests,omitempty"`

	// mode sets whether targets are remediated: Enforce, the default, or Observe, which only reports what would be done.
	// +optional
	// +kubebuilder:validation:Enum=Enforce;Observe
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`
}

// Backoff is the delay after failed remediations.
//
// +kubebuilder:validation:XValidation:rule="type(self.initial) != string || duration(self.initial) >= duration('1s')",message="initial must be at least 1s, such as 1m",fieldPath=".initial"
// +kubebuilder:validation:XValidation:rule="type(self.initial) != string || type(self.limit) != string || duration(self.initial) <= duration(self.limit)",message="limit must not be shorter than initial, such as 10m",fieldPath=".limit"
type Backoff struct {
	// type sets how the delay grows. The default is Exponential: it doubles with each failure in a row.
	// +optional
	// +kubebuilder:validation:Enum=Exponential
	// +kubebuilder:default=Exponential
	Type BackoffType `json:"type,omitempty"`

	// initial is the delay after the first failure. The default is 1m. It must be at least 1s.
	// +optional
	// +kubebuilder:default="1m"
	Initial *Duration `json:"initial,omitempty"`

	// limit is the longest delay. The default is 10m.
	// +optional
	// +kubebuilder:default="10m"
	Limit *Duration `json:"limit,omitempty"`
}

// BackoffType is how delays grow.
type BackoffType string

// The types of backoff.
const (
	// ExponentialBackoff doubles the delay with each failure in a row.
	ExponentialBackoff BackoffType = "Exponential"
)

// Recovery is when a remediation ends.
type Recovery string

// The ways in which a remediation can end.
const (
	// AutomaticRecovery ends it when the target is healthy again.
	AutomaticRecovery Recovery = "Automatic"
	// ConfirmedRecovery ends it when a person has confirmed that the target is healthy again.
	ConfirmedRecovery Recovery = "Confirmed"
)

// Mode is whether a check remediates.
type Mode string

// The modes of a check.
const (
	// EnforceMode remediates.
	EnforceMode Mode = "Enforce"
	// ObserveMode only reports.
	ObserveMode Mode = "Observe"
)
