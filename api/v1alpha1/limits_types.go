// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Limits say how many targets may be sick before remediation stops and a person is called.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.minHealthy) && has(self.maxUnhealthy))",message="minHealthy and maxUnhealthy are two ways to say the same: keep one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.minHealthy) && has(self.unhealthyRange))",message="minHealthy and unhealthyRange exclude each other: keep one of them"
type Limits struct {
	// maxUnhealthy is how many targets may be unhealthy at the most: a number such as 2, or a percentage of all targets such as 40%, rounded down.
	// With more than that nothing is remediated.
	// Where no limit is given it is 100% for Machines and 49% for Nodes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000000) : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000000, such as 2, or a percentage from 0% to 100%, such as 40%"
	MaxUnhealthy *intstr.IntOrString `json:"maxUnhealthy,omitempty"`

	// minHealthy is how many targets must be healthy at the least: a number such as 2, or a percentage of all targets such as 51%, rounded up.
	// With fewer than that nothing is remediated. It is not used together with maxUnhealthy or unhealthyRange.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 0 && self <= 1000000) : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 1000000, such as 2, or a percentage from 0% to 100%, such as 51%"
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`

	// unhealthyRange is the range within which the number of unhealthy targets must lie for anything to be remediated, such as [3-5].
	// It wins over maxUnhealthy.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\[[0-9]{1,7}-[0-9]{1,7}\\\\]$') && int(self.substring(1, self.indexOf('-'))) <= int(self.substring(self.indexOf('-') + 1, self.size() - 1))",message="must be two numbers in brackets, the lower one first, such as [3-5]"
	UnhealthyRange string `json:"unhealthyRange,omitempty"`
}

// Pace says how fast remediation goes, when it waits, and who said stop.
type Pace struct {
	// maxInFlight is how many targets may be under remediation at the same time: a number such as 1, or a percentage of all targets such as 10%, rounded up.
	// Where it is not given there is no such limit; where it is given, it is never more than 400.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? (self >= 1 && self <= 1000000) : self.matches('^(100|[1-9][0-9]?)%$')",message="must be a number of at least 1, or a percentage from 1% to 100%; to stop remediation, use pauseRequests or mode: Observe"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`

	// backoff is how long to wait before a target whose remediation has failed is remediated again. The default is 1m, doubled with each failure up to 10m.
	// +optional
	// +kubebuilder:default={type: Exponential, initial: "1m", limit: "10m"}
	Backoff Backoff `json:"backoff,omitempty,omitzero"`

	// stormCooldownDuration is how long the limit must have been kept again, after it was exceeded, before anything new is remediated.
	// Where it is not given, remediation goes on as soon as the limit is kept again.
	// +optional
	StormCooldownDuration *Duration `json:"stormCooldownDuration,omitempty"`

	// healthyDelay is how long a target must have been healthy again before its remediation request is withdrawn. The default is 0s.
	// +optional
	// +kubebuilder:default="0s"
	HealthyDelay *Duration `json:"healthyDelay,omitempty"`

	// recovery says when a remediation is over.
	// Automatic, the default, is as soon as the target is healthy and healthyDelay has passed.
	// Confirmed is when a person has confirmed it by the annotation remediation.medik8s.io/manually-confirmed-healthy.
	// +optional
	// +kubebuilder:validation:Enum=Automatic;Confirmed
	// +kubebuilder:default=Automatic
	Recovery Recovery `json:"recovery,omitempty"`

	// pauseRequests hold up new remediations as long as there is one. Each is a reason, in the words of whoever asked.
	// What is under way goes on to its end.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	PauseRequests []string `json:"pauseRequests,omitempty"`

	// mode is Enforce, the default, or Observe: everything is computed and reported, and nothing is done.
	// +optional
	// +kubebuilder:validation:Enum=Enforce;Observe
	// +kubebuilder:default=Enforce
	Mode Mode `json:"mode,omitempty"`
}

// Backoff is how the waiting time grows with each failure.
//
// +kubebuilder:validation:XValidation:rule="duration(self.initial) >= duration('1s')",message="initial must be at least 1s",fieldPath=".initial"
// +kubebuilder:validation:XValidation:rule="duration(self.initial) <= duration(self.limit)",message="limit must not be shorter than initial",fieldPath=".limit"
type Backoff struct {
	// type is how the waiting time grows: it doubles with each failure in a row.
	// +optional
	// +kubebuilder:validation:Enum=Exponential
	// +kubebuilder:default=Exponential
	Type BackoffType `json:"type,omitempty"`

	// initial is how long to wait after the first failure. The default is 1m.
	// +optional
	// +kubebuilder:default="1m"
	Initial *Duration `json:"initial,omitempty"`

	// limit is the longest wait. The default is 10m.
	// +optional
	// +kubebuilder:default="10m"
	Limit *Duration `json:"limit,omitempty"`
}

// BackoffType is how waiting times grow.
type BackoffType string

// The ways in which waiting times grow.
const (
	// ExponentialBackoff doubles the waiting time with each failure in a row.
	ExponentialBackoff BackoffType = "Exponential"
)

// Recovery says when a remediation is over.
type Recovery string

// The ways in which a remediation can end.
const (
	// AutomaticRecovery ends it when the target is healthy again.
	AutomaticRecovery Recovery = "Automatic"
	// ConfirmedRecovery ends it when a person has confirmed that the target is healthy again.
	ConfirmedRecovery Recovery = "Confirmed"
)

// Mode says how far a check may go.
type Mode string

// The modes of a check.
const (
	// EnforceMode remediates.
	EnforceMode Mode = "Enforce"
	// ObserveMode computes and reports everything, and does nothing.
	ObserveMode Mode = "Observe"
)
