// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// State is a label of metrics: every target is in exactly one. The set is closed.
type State string

// The states.
const (
	// Healthy is a target that is well.
	Healthy State = "healthy"
	// Suspect is a target that will be unhealthy if nothing changes.
	Suspect State = "suspect"
	// Unhealthy is a target that is unhealthy, and not under remediation.
	Unhealthy State = "unhealthy"
	// Undetermined is a target of which nothing can be said.
	Undetermined State = "undetermined"
	// Skipped is a target that people asked to leave alone, or that the check does not look after any more.
	Skipped State = "skipped"
	// Remediating is a target that is under remediation, whatever its health.
	Remediating State = "remediating"
)

// States are all of them, for metrics that have to start at zero.
func States() []State {
	return []State{Healthy, Suspect, Unhealthy, Undetermined, Skipped, Remediating}
}

// StateOf is the state of a target. It allocates nothing, as it is asked of every target in every pass.
func StateOf(v *health.Verdict, d *remediation.Decision) State {
	switch {
	case d.InFlight:
		return Remediating
	case v == nil:
		return Skipped
	}
	switch v.Kind {
	case health.Skipped:
		return Skipped
	case health.Healthy:
		return Healthy
	case health.Suspect:
		return Suspect
	case health.Unhealthy:
		return Unhealthy
	case health.Undetermined:
	}
	return Undetermined
}

// BlockedBy is the label of metrics for a target that is held; empty if it is not.
func BlockedBy(d *remediation.Decision) string {
	return string(d.Hold.Reason)
}
