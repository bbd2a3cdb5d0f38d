// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// guard is one reason to block a new remediation. It does not depend on other guards. A Hold that it returns has no reason.
type guard struct {
	reason Reason
	scope  scope
	blocks func(p *pass, t *Target, c *candidate) (bool, Hold)
}

// scope is the set of actions that a guard blocks.
type scope uint8

const (
	anything scope = iota
	// requests are steps of a remediator.
	requests
	// marks are steps of the owner.
	marks
	// starts are both.
	starts
)

func (s scope) includes(a Action) bool {
	switch s {
	case requests:
		return a == StartRequest
	case marks:
		return a == RequestOwnerRemediation
	case starts:
		return a == StartRequest || a == RequestOwnerRemediation
	case anything:
	}
	return true
}

// guards run in this order. The first that blocks determines the reason. Each one can only block.
var guards = [...]guard{
	// The check and its Cluster.
	{Paused, anything, guardPaused},
	{CheckDeleting, anything, guardCheckDeleting},
	{ClusterNotFound, anything, guardClusterNotFound},
	{ClusterDeleting, anything, guardClusterDeleting},
	{ManagedByOtherCheck, anything, guardManagedByOtherCheck},
	// The target and its owner.
	{StuckDeleting, anything, guardStuckDeleting},
	{Terminating, anything, guardTerminating},
	{Excluded, anything, guardExcluded},
	{NoRemediatingOwner, marks, guardNoRemediatingOwner},
	{OwnerRefuses, marks, guardOwnerRefuses},
	// Temporary, for all targets.
	{PauseRequested, anything, guardPauseRequested},
	{ClusterUnreachable, anything, guardClusterUnreachable},
	{TooManyUnhealthy, anything, guardTooManyUnhealthy},
	{TooFewUnhealthy, anything, guardTooFewUnhealthy},
	{InStorm, anything, guardInStorm},
	// Temporary, for this target.
	{AnnotationNotRemoved, requests, guardAnnotationNotRemoved},
	{EscalationExhausted, requests, guardEscalationExhausted},
	{InBackoff, requests, guardInBackoff},
	{TemplateNotResolved, requests, guardTemplateNotResolved},
	{RequestNameConflict, requests, guardRequestNameConflict},
	{NodeLeaseHeld, requests, guardNodeLeaseHeld},
	// The control plane.
	{ControlPlaneBusy, requests, guardControlPlaneBusy},
	{QuorumUnknown, requests, guardQuorumUnknown},
	{SingleControlPlane, requests, guardSingleControlPlane},
	{QuorumAtRisk, requests, guardQuorumAtRisk},
	{MaxInFlight, anything, guardMaxInFlight},
	// The last one, so that an observing check reports what else would block.
	{ObserveMode, anything, guardObserveMode},
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

// runGuards runs the guards for an action until one blocks, and appends their answers. The Hold has no reason if none blocks.
func (p *pass) runGuards(all []guard, a Action, t *Target, c *candidate, answers []Answer) ([]Answer, Hold) {
	for i := range all {
		if !all[i].scope.includes(a) {
			continue
		}
		held, hold := all[i].blocks(p, t, c)
		if !held {
			hold.Until = time.Time{}
		}
		answers = append(answers, Answer{Guard: all[i].reason, Blocks: held, Preflight: p.preflight != nil, Until: hold.Until, Seen: hold.Seen})
		if held {
			hold.Reason = all[i].reason
			return answers, hold
		}
	}
	return answers, Hold{}
}
