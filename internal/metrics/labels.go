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

// The kinds of checks.
const (
	// MachineHealthCheck is ours.
	MachineHealthCheck Kind = "MachineHealthCheck"
	// CoreMachineHealthCheck is one of Cluster API that was taken over. It may have the name and the namespace of one of ours.
	CoreMachineHealthCheck Kind = "CoreMachineHealthCheck"
	// NodeHealthCheck is ours.
	NodeHealthCheck Kind = "NodeHealthCheck"
)

// Kinds are all of them.
func Kinds() []Kind { return []Kind{CoreMachineHealthCheck, MachineHealthCheck, NodeHealthCheck} }

// Check names a check. A cluster-scoped one has no namespace.
type Check struct {
	Kind            Kind
	Namespace, Name string
}

// Strategy is who is asked to remediate. The set is closed.
type Strategy string

// The strategies.
const (
	// Owner is the owner of a Machine.
	Owner Strategy = "owner"
	// Template is a remediator that gets a request made from a template.
	Template Strategy = "template"
)

// Strategies are all of them.
func Strategies() []Strategy { return []Strategy{Owner, Template} }

// StrategyOf is that of a step.
func StrategyOf(step *remediation.Step) Strategy {
	if step.Owner {
		return Owner
	}
	return Template
}

// Outcome is what became of a remediation. The set is closed.
type Outcome string

// The outcomes.
const (
	// Started is a remediation that has begun. Each one is counted once more when it has ended.
	Started Outcome = "started"
	// Recovered is a target that is healthy again.
	Recovered Outcome = "recovered"
	// Replaced is a target that is gone and has been replaced.
	Replaced Outcome = "replaced"
	// Failed is a remediator that said it has failed.
	Failed Outcome = "failed"
	// TimedOut is a remediation that took too long.
	TimedOut Outcome = "timed_out"
	// Withdrawn is a remediation that was not wanted any more.
	Withdrawn Outcome = "withdrawn"
)

// Outcomes are all of them.
func Outcomes() []Outcome {
	return []Outcome{Started, Recovered, Replaced, Failed, TimedOut, Withdrawn}
}

// OutcomeOf is that of a remediation that has ended, as status tells it.
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
	// ByEvent is a change of something that the check looks at.
	ByEvent Trigger = "event"
	// ByTimer is a time that was awaited.
	ByTimer Trigger = "timer"
	// ByResync is a look at everything without a cause, as after a start.
	ByResync Trigger = "resync"
	// BySpec is a change of the check itself.
	BySpec Trigger = "spec"
)

// Triggers are all of them.
func Triggers() []Trigger { return []Trigger{ByEvent, ByTimer, ByResync, BySpec} }

// other stands for a value that is not in the closed set it should be of. So a mistake somewhere else can be seen, and makes no series without end.
const other = "other"

// reasons are the closed set of why a target can be held.
func reasons() map[string]bool {
	known := map[string]bool{}
	for _, word := range explain.Vocabulary() {
		switch word.Kind {
		case explain.Guard, explain.LastLook, explain.Hold:
			known[word.Reason] = true
		case explain.Gate, explain.Rule, explain.Unknown, explain.Ending, explain.Condition, explain.Happening:
		}
	}
	return known
}

// conditions are the closed set of the conditions of a check, in the order in which they are shown.
func conditions() []string {
	return []string{
		remedyv1.ReadyCondition, remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition,
		remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition,
	}
}
