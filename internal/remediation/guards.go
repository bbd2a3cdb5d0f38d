// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// guard is one reason to block a new remediation. It does not depend on other guards. A Block that it returns has no reason.
type guard struct {
	reason Reason
	scope  scope
	blocks func(p *planner, t *Target, c *candidate) (bool, Block)
}

// scope is the set of actions that a guard blocks.
type scope uint8

const (
	allActions scope = iota
	// requestSteps are steps of a remediator.
	requestSteps
	// ownerSteps are steps of the owner.
	ownerSteps
	// allSteps are both.
	allSteps
)

func (s scope) includes(a Action) bool {
	switch s {
	case requestSteps:
		return a == StartRequest
	case ownerSteps:
		return a == RequestOwnerRemediation
	case allSteps:
		return a == StartRequest || a == RequestOwnerRemediation
	case allActions:
	}
	return true
}

// guards run in this order. The first that blocks determines the reason. Each one can only block.
var guards = [...]guard{
	// The check and its Cluster.
	{Paused, allActions, guardPaused},
	{CheckDeleting, allActions, guardCheckDeleting},
	{ClusterNotFound, allActions, guardClusterNotFound},
	{ClusterDeleting, allActions, guardClusterDeleting},
	{ManagedByOtherCheck, allActions, guardManagedByOtherCheck},
	// The target and its owner.
	{StuckDeleting, allActions, guardStuckDeleting},
	{Terminating, allActions, guardTerminating},
	{NoStepForCondition, allActions, guardNoStepForCondition},
	{Excluded, allActions, guardExcluded},
	{NoRemediatingOwner, ownerSteps, guardNoRemediatingOwner},
	{OwnerRefuses, ownerSteps, guardOwnerRefuses},
	// Temporary, for all targets.
	{PauseRequested, allActions, guardPauseRequested},
	{ClockSkew, allActions, guardClockSkew},
	{ReconnectGracePeriod, allActions, guardReconnectGracePeriod},
	{ClusterUnreachable, allActions, guardClusterUnreachable},
	{TooManyUnhealthy, allActions, guardTooManyUnhealthy},
	{TooFewUnhealthy, allActions, guardTooFewUnhealthy},
	{InStorm, allActions, guardInStorm},
	// Temporary, for this target.
	{AnnotationNotRemoved, requestSteps, guardAnnotationNotRemoved},
	{EscalationExhausted, requestSteps, guardEscalationExhausted},
	{InBackoff, requestSteps, guardInBackoff},
	{TemplateNotResolved, requestSteps, guardTemplateNotResolved},
	{NoMachine, requestSteps, guardNoMachine},
	{RequestNameConflict, requestSteps, guardRequestNameConflict},
	{NodeLeaseHeld, requestSteps, guardNodeLeaseHeld},
	// The control plane.
	{ControlPlaneBusy, requestSteps, guardControlPlaneBusy},
	{QuorumUnknown, requestSteps, guardQuorumUnknown},
	{SingleControlPlane, requestSteps, guardSingleControlPlane},
	{QuorumAtRisk, requestSteps, guardQuorumAtRisk},
	{MaxInFlight, allActions, guardMaxInFlight},
	// The last one, so that an observing check reports what else would block.
	{ObserveMode, allActions, guardObserveMode},
}

// Guards are the reasons of the guards, in order.
func Guards() []Reason { return reasons(guards[:]) }

// PreflightGuards are the reasons of the guards of the preflight check, in order.
func PreflightGuards() []Reason { return reasons(preflightGuards[:]) }

func reasons(all []guard) []Reason {
	names := make([]Reason, len(all))
	for i := range all {
		names[i] = all[i].reason
	}
	return names
}

// runGuards runs the guards for an action until one blocks, and appends their answers. The Block has no reason if none blocks.
func (p *planner) runGuards(all []guard, a Action, t *Target, c *candidate, answers []Answer) ([]Answer, Block) {
	for i := range all {
		if !all[i].scope.includes(a) {
			continue
		}
		blocked, block := all[i].blocks(p, t, c)
		if !blocked {
			block.Until = time.Time{}
		}
		answers = append(answers, Answer{Guard: all[i].reason, Blocks: blocked, Preflight: p.preflight != nil, Until: block.Until, Details: block.Details})
		if blocked {
			block.Reason = all[i].reason
			return answers, block
		}
	}
	return answers, Block{}
}
