// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// guard is one thing that can hold back something new. It may not rely on any other guard.
type guard struct {
	reason Reason
	about  scope
	asks   func(p *pass, t *Target, c *candidate) (held bool, until time.Time, seen Seen)
}

// scope is what a guard has a say in.
type scope uint8

const (
	anything scope = iota
	// requests are the steps that ask a remediator.
	requests
	// marks are the steps that hand a Machine to its owner.
	marks
	// starts are both.
	starts
)

func (s scope) includes(a Action) bool {
	switch s {
	case requests:
		return a == MakeRequest
	case marks:
		return a == GiveMark
	case starts:
		return a == MakeRequest || a == GiveMark
	case anything:
	}
	return true
}

// guards are asked in this order, and the first that holds gives the reason. They only ever subtract.
var guards = [...]guard{
	// Nothing at all, or nothing here.
	{Paused, anything, guardPaused},
	{CheckDeleting, anything, guardCheckDeleting},
	{ClusterNotFound, anything, guardClusterNotFound},
	{ClusterDeleting, anything, guardClusterDeleting},
	{CoveredByOther, anything, guardCoveredByOther},
	// What the target and its owner say.
	{StuckDeleting, anything, guardStuckDeleting},
	{Leaving, anything, guardLeaving},
	{Excluded, anything, guardExcluded},
	{NoRemediatingOwner, marks, guardNoRemediatingOwner},
	{OwnerRefuses, marks, guardOwnerRefuses},
	// Nothing new for now, for anybody.
	{PauseRequested, anything, guardPauseRequested},
	{ClusterUnreachable, anything, guardClusterUnreachable},
	{TooManyUnhealthy, anything, guardTooManyUnhealthy},
	{TooFewUnhealthy, anything, guardTooFewUnhealthy},
	{InStorm, anything, guardInStorm},
	// Nothing new for now, for this one.
	{AnnotationNotRemoved, requests, guardAnnotationNotRemoved},
	{EscalationExhausted, requests, guardEscalationExhausted},
	{InBackoff, requests, guardInBackoff},
	{TemplateNotResolved, requests, guardTemplateNotResolved},
	{NameTaken, requests, guardNameTaken},
	{LeaseTaken, requests, guardLeaseTaken},
	// The control plane.
	{ControlPlaneBusy, requests, guardControlPlaneBusy},
	{QuorumUnknown, requests, guardQuorumUnknown},
	{SingleControlPlane, requests, guardSingleControlPlane},
	{QuorumAtRisk, requests, guardQuorumAtRisk},
	// Its turn.
	{MaxInFlight, anything, guardMaxInFlight},
	// Who only observes has seen by now what it would do.
	{Observing, anything, guardObserving},
}

// askGuards asks one guard after the other about a candidate, until one holds it.
func (p *pass) askGuards(guards []guard, c *candidate, d *Decision) {
	t := &p.s.Targets[c.index]
	d.Asked = make([]Answer, 0, len(guards))
	for i := range guards {
		if guards[i].about == requests && c.step.Owner || guards[i].about == marks && !c.step.Owner {
			continue
		}
		held, until, seen := guards[i].asks(p, t, c)
		if !held {
			until = time.Time{}
		}
		d.Asked = append(d.Asked, Answer{Guard: guards[i].reason, Held: held, Until: until, Seen: seen})
		if held {
			d.Hold = Hold{Reason: guards[i].reason, Until: until, Seen: seen}
			return
		}
	}
}
