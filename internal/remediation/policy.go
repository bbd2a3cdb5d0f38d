// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Policy is what may be done, how fast, and in which order: the settings of either kind in one form.
type Policy struct {
	Limits   Limits
	Counting Counting
	// MaxInFlight is how many targets may be under remediation at the same time; nil is as many as there are.
	MaxInFlight   *intstr.IntOrString
	Backoff       Backoff
	StormCooldown time.Duration
	HealthyDelay  time.Duration
	// RecoveryConfirmed: a remediation is over only when a person says so.
	RecoveryConfirmed bool
	// TellsHealth: it is written on the target when that is not healthy, as Machines and their owners know it.
	TellsHealth bool
	// Observe: nothing is done.
	Observe bool
	// Steps are tried one after the other, the lowest order first.
	Steps []Step
	// ReplacementTimeout is how long an owner may take to replace a Machine until that stops counting as under way.
	ReplacementTimeout time.Duration
}

// Counting says which targets are sick when their number is compared with the limit.
type Counting uint8

const (
	// CountNotHealthy counts every target that is not known to be healthy.
	CountNotHealthy Counting = iota
	// CountUnhealthy counts the unhealthy ones, and those that still have a request.
	CountUnhealthy
)

// Step is one way to remediate a target.
type Step struct {
	ID StepID
	// Owner: the target is handed to its owner. Otherwise a request is made from the template.
	Owner bool
	// Timeout is how long it may take; 0 is as long as it likes.
	Timeout time.Duration
	// Unresolved: no request can be made from the template at present.
	Unresolved bool
}

// StepID tells steps apart: a step with another template is another step, even if its place is the same.
type StepID struct {
	Order    int32
	Template string
}
