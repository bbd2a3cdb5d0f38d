// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Kind is the kind of a check. The set is closed.
type Kind string

// The kinds of checks. An InTreeMachineHealthCheck is an adopted MachineHealthCheck of Cluster API.
const (
	MachineHealthCheck       Kind = "MachineHealthCheck"
	InTreeMachineHealthCheck Kind = "InTreeMachineHealthCheck"
	NodeHealthCheck          Kind = "NodeHealthCheck"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{InTreeMachineHealthCheck, MachineHealthCheck, NodeHealthCheck} }

// Check names a check. A cluster-scoped one has no namespace.
type Check struct {
	Kind            Kind
	Namespace, Name string
}

// Strategy is how a target is remediated. The set is closed.
type Strategy string

// The strategies.
const (
	Owner    Strategy = "owner"    // The owner of a Machine remediates it.
	Template Strategy = "template" // A remediator gets a request created from a template.
)

// Strategies returns all strategies.
func Strategies() []Strategy { return []Strategy{Owner, Template} }

// StrategyOf returns the strategy of a step.
func StrategyOf(step *remediation.Step) Strategy {
	if step.Owner {
		return Owner
	}
	return Template
}

// Outcome is the start or the result of a remediation. The set is closed.
type Outcome string

// The outcomes.
const (
	Started   Outcome = "started"
	Recovered Outcome = "recovered" // The target is healthy again.
	Replaced  Outcome = "replaced"  // The target was replaced.
	Failed    Outcome = "failed"    // The remediator reported a failure.
	TimedOut  Outcome = "timed_out" // The remediation took too long.
	Withdrawn Outcome = "withdrawn" // The remediation was canceled.
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Started, Recovered, Replaced, Failed, TimedOut, Withdrawn}
}

// OutcomeOf returns the outcome of a remediation in the status.
func OutcomeOf(ended remedyv1.RemediationOutcome) Outcome {
	switch ended {
	case remedyv1.RecoveredOutcome:
		return Recovered
	case remedyv1.ReplacedOutcome:
		return Replaced
	case remedyv1.FailedOutcome:
		return Failed
	case remedyv1.TimedOutOutcome:
		return TimedOut
	case remedyv1.WithdrawnOutcome:
	}
	return Withdrawn
}

// Trigger is why a check was evaluated. The set is closed.
type Trigger string

// The triggers.
const (
	ByEvent  Trigger = "event"  // A watched object changed.
	ByTimer  Trigger = "timer"  // A deadline passed.
	ByResync Trigger = "resync" // The manager started, or lists everything again.
	BySpec   Trigger = "spec"   // The check itself changed.
)

// Triggers returns all triggers.
func Triggers() []Trigger { return []Trigger{ByEvent, ByTimer, ByResync, BySpec} }

// other replaces a value that is not in its closed set. It makes a bug visible and bounds the number of series.
const other = "other"

// reasons returns the closed set of reasons that block a target.
func reasons() map[string]bool {
	known := map[string]bool{}
	for _, word := range explain.Reasons() {
		if word.Kind == explain.Guard || word.Kind == explain.Preflight || word.Kind == explain.Unfinished {
			known[word.Name] = true
		}
	}
	return known
}

// conditions returns the closed set of the conditions of a check, in their order.
func conditions() []string {
	return []string{
		remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
		remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition,
	}
}
