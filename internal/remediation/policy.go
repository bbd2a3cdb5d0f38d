// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Policy is the remediation part of the spec of a check of any kind.
type Policy struct {
	Limits   Limits
	Counting Counting
	// MaxInFlight is nil for no limit.
	MaxInFlight   *intstr.IntOrString
	Backoff       Backoff
	StormCooldown time.Duration
	HealthyDelay  time.Duration
	// RecoveryConfirmed: a person has to confirm each recovery.
	RecoveryConfirmed bool
	// ReportsHealth: targets get conditions, as Machines do.
	ReportsHealth bool
	Observe       bool
	// Steps are tried by their order.
	Steps []Step
	// ReplacementTimeout is how long a deleted Machine that its owner has not replaced counts for maxInFlight.
	ReplacementTimeout time.Duration
}

// Counting is which targets are compared with the limit.
type Counting uint8

const (
	// CountNotHealthy counts every target that is not known to be healthy.
	CountNotHealthy Counting = iota
	// CountUnhealthy counts unhealthy targets and those with a request.
	CountUnhealthy
)

// Step is one way to remediate a target.
type Step struct {
	ID StepID
	// Owner: the owner of the target remediates it. Otherwise a request is created from the template.
	Owner bool
	// Timeout is 0 for no limit.
	Timeout time.Duration
	// Unresolved: no request can be created from the template.
	Unresolved bool
}

// StepID identifies a step. With another template it is another step.
type StepID struct {
	Order    int32
	Template string
}
