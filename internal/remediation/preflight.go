// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// PreflightCheck is the result of a preflight check: the facts that an action is based on, read live just before it.
type PreflightCheck struct {
	// Failed: something could not be read. Unwritten: or a write that has to come first failed.
	Failed, Unwritten bool
	// Late: it was not run yet. The reconcile has run out of time, or reports first.
	Late bool
	// Cause is why something could not be read or written, if that is known. It contains no address and no secret.
	Cause string
	// LeaseUnread: the Lease of the kubelet could not be read. RequestsUnread: there may be a request that was not read. Both only block
	// what would be started.
	LeaseUnread    bool
	RequestsUnread bool
	// Paused: the check, its Cluster or the target is paused.
	Paused bool
	// Changed: the spec, the deletion or the storm of the check has changed since the plan, or its Cluster is being deleted.
	Changed bool
	// Verdict and Target are the present ones.
	Verdict health.Verdict
	Target  Target
	// Others is how many other targets are in flight.
	Others int
	// LimitState is that of the present limit.
	LimitState LimitState
	// ControlPlane is the present one; its busy Nodes include those of this check. It is only read for Nodes of the control plane.
	ControlPlane ControlPlane
	// LeaseRenewed is when the kubelet renewed its Lease, by the clock of the workload cluster; zero if there is no Lease.
	LeaseRenewed time.Time
	Observation
}

// preflightGuards run again before a write, with the facts of the preflight check. A pause blocks every write.
var preflightGuards = [...]guard{
	{Paused, allActions, guardPaused},
	{PreflightPending, allActions, guardPreflightPending},
	{PreflightFailed, allActions, guardPreflightFailed},
	{Terminating, requestSteps, guardTerminating},
	{Excluded, allSteps, guardExcluded},
	{OwnerRefuses, ownerSteps, guardOwnerRefuses},
	{ClockSkew, allSteps, guardClockSkew},
	{ReconnectGracePeriod, allSteps, guardReconnectGracePeriod},
	{TooManyUnhealthy, allSteps, guardTooManyUnhealthy},
	{TooFewUnhealthy, allSteps, guardTooFewUnhealthy},
	{AnnotationNotRemoved, requestSteps, guardAnnotationNotRemoved},
	{RequestNameConflict, requestSteps, guardRequestNameConflict},
	{NodeLeaseHeld, requestSteps, guardNodeLeaseHeld},
	{ControlPlaneBusy, requestSteps, guardControlPlaneBusy},
	{QuorumUnknown, requestSteps, guardQuorumUnknown},
	{SingleControlPlane, requestSteps, guardSingleControlPlane},
	{QuorumAtRisk, requestSteps, guardQuorumAtRisk},
	{LeaseRenewed, allActions, guardLeaseRenewed},
}

// preflight is the preflight check of one decision: the plan, and what was read since.
type preflight struct {
	plan   *Planned
	t      *Target
	d      *Decision
	v      *health.Verdict
	result *PreflightCheck
}

// Confirm returns a decision as it is after a preflight check, which has to precede every write: blocked, if the facts do not confirm it.
// v is the verdict that the decision is based on.
func Confirm(plan *Planned, t *Target, d *Decision, v *health.Verdict, result *PreflightCheck, now time.Time) Decision {
	if d.Action == None || d.Action == Wait {
		// Only annotations are written. Where nothing could be read, the target may be paused.
		if result.Paused || result.Failed || result.Changed || result.Late {
			return d.unrecorded(t)
		}
		return *d
	}
	check := &preflight{plan: plan, t: t, d: d, v: v, result: result}
	p := &planner{
		s: &Situation{Check: Check{Paused: result.Paused, Observation: result.Observation}, ControlPlane: result.ControlPlane}, now: now, preflight: check,
		a: &health.Assessment{Verdicts: []health.Verdict{result.Verdict}}, plan: Planned{Decisions: []Decision{*d}, LimitState: result.LimitState},
	}
	c := &candidate{step: Step{Owner: d.Action == RequestOwnerRemediation}, underWay: t.History.Tried != StepID{}}
	// A Machine that lost the label of the control plane since the plan is still treated as one of its members.
	live := result.Target
	live.ControlPlane = live.ControlPlane || t.ControlPlane
	answers, block := p.runGuards(preflightGuards[:], d.Action, &live, c, slices.Clone(d.Answers))
	if block.Reason == "" {
		confirmed := *d
		confirmed.Answers = answers
		return confirmed
	}
	h := d.blocked(t, block)
	h.Answers = answers
	// A confirmed verdict is reported even if the action is blocked.
	if h.Unconfirmed = !check.confirmed(); !h.Unconfirmed && !result.Paused {
		h.MarkedBy = h.MarkedBy || d.MarkedBy
	}
	if t.Request == nil && !result.Paused && !result.Failed {
		h.DropConfirmation = d.DropConfirmation
		// Without a request, the Lease of the Node is released, unless the next step only waits for its preflight check.
		if !result.Late {
			h.LeaseUntil = time.Time{}
		}
	}
	return h
}

// confirmed reports whether the live facts give the verdict that the decision is based on.
func (c *preflight) confirmed() bool {
	now := &c.result.Verdict
	return !c.result.Failed && now.Kind == c.v.Kind && now.Reason == c.v.Reason && now.Since.Equal(c.v.Since)
}

// PlanAgain plans again if preflight checks blocked, or the API server rejected, what was to be started: other targets can have those
// places. It updates the plan, and returns the targets with a new decision. Decisions that were carried out stay.
func PlanAgain(plan *Planned, s *Situation, a *health.Assessment, policy *Policy, now time.Time) []int {
	blocked := false
	for i := range plan.Decisions {
		d, t := &plan.Decisions[i], &s.Targets[i]
		if d.BlockedLate() && t.Blocked.Reason == "" {
			t.Blocked, blocked = d.Block, true
		}
	}
	if !blocked {
		return nil
	}
	var news []int
	next := Plan(s, a, policy, now)
	for i := range next.Decisions {
		d := &plan.Decisions[i]
		switch {
		case d.Block.Reason == "" || d.Action != None || s.Targets[i].Blocked.Reason != "":
		case next.Decisions[i].Starts():
			*d = next.Decisions[i]
			news = append(news, i)
		case next.Decisions[i].Block.Reason != "":
			// It may be blocked for another reason now.
			d.Block, d.Until, d.Answers = next.Decisions[i].Block, next.Decisions[i].Until, next.Decisions[i].Answers
		}
	}
	plan.Replacing = next.Replacing
	return news
}

// BlockedLate reports whether the preflight check has blocked what was to be started, or the API server has rejected it.
func (d *Decision) BlockedLate() bool {
	blocked := d.inPreflight() && d.Block.Reason != "" && d.Block.Reason != PreflightPending
	return d.Action == None && (d.Block.Reason == RequestFailed || blocked)
}

// inPreflight reports whether the preflight check has confirmed or blocked the decision.
func (d *Decision) inPreflight() bool {
	last := len(d.Answers) - 1
	return last >= 0 && d.Answers[last].Preflight
}

// blockedTime is how long a target whose action was blocked comes after the others.
const blockedTime = 10 * time.Minute

// BlockedAt returns when the action for a target was last blocked after it was planned, for Target.BlockedAt of the next plan; zero if that
// no longer matters. What was only postponed keeps its time, so that targets whose writes fail slowly take turns with the others.
func (d *Decision) BlockedAt(before time.Time, v *health.Verdict, now time.Time) time.Time {
	switch {
	case d.BlockedLate():
		return now
	case d.Block.Reason == PreflightPending:
		return before
	case d.InFlight, v.Kind != health.Unhealthy, now.Sub(before) >= blockedTime:
		return time.Time{}
	}
	return before
}

// Rejected is a decision whose request the API server rejected with this message.
func Rejected(d *Decision, t *Target, message string) Decision {
	return d.blocked(t, Block{Reason: RequestFailed, Details: Details{Cause: message}})
}

// RequestFailed means: the API server rejected the remediation request.
const RequestFailed Reason = "RequestFailed"

// blocked is a decision that is blocked: nothing is written for it, and what was to be started is not in flight.
func (d *Decision) blocked(t *Target, block Block) Decision {
	h := d.unrecorded(t)
	if d.Starts() {
		h.InFlight, h.Budgeted, h.Attempt, h.ControlPlaneLeaseUntil = false, false, 0, time.Time{}
	}
	h.Action, h.Why, h.Block, h.Until = None, "", block, block.Until
	return h
}

// unrecorded is a decision that leaves all annotations and Leases as they are.
func (d *Decision) unrecorded(t *Target) Decision {
	h := *d
	h.DropConfirmation, h.RenewsControlPlaneLease = false, false
	h.History, h.MarkedBy, h.NodeGoneSince, h.HealthySince, h.LeaseUntil = t.History, t.OwnerRemediation.MarkedByThis, t.NodeGoneSince, time.Time{}, time.Time{}
	if t.Request != nil {
		h.HealthySince = t.Request.HealthySince
	}
	if t.Lease.HeldByThis {
		h.LeaseUntil = t.Lease.Until
	}
	return h
}

// Announced returns a plan as it is before its other preflight checks, which what it starts or ends waits for. Owner remediation is
// requested by the conditions of a Machine, so until then these stay as they are.
func (plan *Planned) Announced(s *Situation, a *health.Assessment, now time.Time) Planned {
	announced := *plan
	announced.Decisions = slices.Clone(plan.Decisions)
	for i := range announced.Decisions {
		d, t := &announced.Decisions[i], &s.Targets[i]
		if !d.Starts() && !d.Ends() || d.inPreflight() {
			continue
		}
		owner, block := d.Action == RequestOwnerRemediation, d.Block
		*d = Confirm(plan, t, d, &a.Verdicts[i], &PreflightCheck{Late: true, Verdict: a.Verdicts[i], Target: *t}, now)
		if owner {
			d.MarkedBy = t.OwnerRemediation.MarkedByThis
		}
		if block.Reason != "" {
			d.Block = block
		}
	}
	return announced
}

// Starts reports whether an action starts a remediation.
func (d *Decision) Starts() bool {
	return d.Action == StartRequest || d.Action == RequestOwnerRemediation
}

// Ends reports whether an action ends a remediation, or removes what a check has set.
func (d *Decision) Ends() bool {
	return d.Action == GiveUp || d.Action == Withdraw || d.Action == CancelOwnerRemediation || d.Action == RemoveConditions
}
