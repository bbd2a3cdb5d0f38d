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
	// Gate is the present limit.
	Gate Gate
	// ControlPlane is the present one; its busy Nodes include those of this check. It is only read for Nodes of the control plane.
	ControlPlane ControlPlane
	// LeaseRenewed is when the kubelet renewed its Lease, by the clock of the workload cluster; zero if there is no Lease.
	LeaseRenewed time.Time
}

// preflightGuards run again before a write, with the facts of the preflight check. A pause blocks every write.
var preflightGuards = [...]guard{
	{Paused, anything, guardPaused},
	{PreflightPending, anything, guardPreflightPending},
	{PreflightFailed, anything, guardPreflightFailed},
	{Terminating, requests, guardTerminating},
	{Excluded, starts, guardExcluded},
	{OwnerRefuses, marks, guardOwnerRefuses},
	{TooManyUnhealthy, starts, guardTooManyUnhealthy},
	{TooFewUnhealthy, starts, guardTooFewUnhealthy},
	{AnnotationNotRemoved, requests, guardAnnotationNotRemoved},
	{RequestNameConflict, requests, guardRequestNameConflict},
	{NodeLeaseHeld, requests, guardNodeLeaseHeld},
	{ControlPlaneBusy, requests, guardControlPlaneBusy},
	{QuorumUnknown, requests, guardQuorumUnknown},
	{SingleControlPlane, requests, guardSingleControlPlane},
	{QuorumAtRisk, requests, guardQuorumAtRisk},
	{LeaseRenewed, anything, guardLeaseRenewed},
}

// preflight is the preflight check of one decision: the plan, and what was read since.
type preflight struct {
	plan *Planned
	t    *Target
	d    *Decision
	v    *health.Verdict
	look *PreflightCheck
}

// Confirm returns a decision as it is after a preflight check, which has to precede every write: blocked, if the facts do not confirm it.
// v is the verdict that the decision is based on.
func Confirm(plan *Planned, t *Target, d *Decision, v *health.Verdict, look *PreflightCheck, now time.Time) Decision {
	if d.Action == None || d.Action == Wait {
		// Only annotations are written. Where nothing could be read, the target may be paused.
		if look.Paused || look.Failed || look.Changed || look.Late {
			return d.unnoted(t)
		}
		return *d
	}
	check := &preflight{plan: plan, t: t, d: d, v: v, look: look}
	p := &pass{
		s: &Situation{Check: Check{Paused: look.Paused}, ControlPlane: look.ControlPlane}, now: now, preflight: check,
		a: &health.Assessment{Verdicts: []health.Verdict{look.Verdict}}, plan: Planned{Decisions: []Decision{*d}, Gate: look.Gate},
	}
	c := &candidate{step: Step{Owner: d.Action == RequestOwnerRemediation}, underWay: t.History.Tried != StepID{}}
	// A Machine that lost the label of the control plane since the plan is still treated as one of its members.
	live := look.Target
	live.ControlPlane = live.ControlPlane || t.ControlPlane
	answers, hold := p.runGuards(preflightGuards[:], d.Action, &live, c, slices.Clone(d.Answers))
	if hold.Reason == "" {
		confirmed := *d
		confirmed.Answers = answers
		return confirmed
	}
	h := d.held(t, hold)
	h.Answers = answers
	// A confirmed verdict is reported even if the action is blocked.
	if h.Unconfirmed = !check.bornOut(); !h.Unconfirmed && !look.Paused {
		h.MarkedBy = h.MarkedBy || d.MarkedBy
	}
	// Without a request, the Lease of the Node is released.
	if t.Request == nil && !look.Paused && !look.Failed {
		h.LeaseUntil, h.DropConfirmation = time.Time{}, d.DropConfirmation
	}
	return h
}

// bornOut reports whether the live facts give the verdict that the decision is based on.
func (c *preflight) bornOut() bool {
	now := &c.look.Verdict
	return !c.look.Failed && now.Kind == c.v.Kind && now.Reason == c.v.Reason && now.Since.Equal(c.v.Since)
}

// PlanAgain plans again if preflight checks blocked, or the API server rejected, what was to be started: other targets can have those
// places. It updates the plan, and returns the targets with a new decision. Decisions that were carried out stay.
func PlanAgain(plan *Planned, s *Situation, a *health.Assessment, policy *Policy, now time.Time) []int {
	held := false
	for i := range plan.Decisions {
		d, t := &plan.Decisions[i], &s.Targets[i]
		if d.BlockedLate() && t.BlockedBack.Reason == "" {
			t.BlockedBack, held = d.Hold, true
		}
	}
	if !held {
		return nil
	}
	var news []int
	next := Plan(s, a, policy, now)
	for i := range next.Decisions {
		d := &plan.Decisions[i]
		switch {
		case d.Hold.Reason == "" || d.Action != None || s.Targets[i].BlockedBack.Reason != "":
		case next.Decisions[i].Starts():
			*d = next.Decisions[i]
			news = append(news, i)
		case next.Decisions[i].Hold.Reason != "":
			// It may be blocked for another reason now.
			d.Hold, d.Until, d.Answers = next.Decisions[i].Hold, next.Decisions[i].Until, next.Decisions[i].Answers
		}
	}
	plan.Replacing = next.Replacing
	return news
}

// BlockedLate reports whether the preflight check has blocked what was to be started, or the API server has rejected it.
func (d *Decision) BlockedLate() bool {
	last := len(d.Answers) - 1
	inPreflight := last >= 0 && d.Answers[last].Preflight && d.Hold.Reason != "" && d.Hold.Reason != PreflightPending
	return d.Action == None && (d.Hold.Reason == RequestFailed || inPreflight)
}

// blockedTime is how long a target whose action was blocked comes after the others.
const blockedTime = 10 * time.Minute

// BlockedAt returns when the action for a target was last blocked after it was planned, for Target.BlockedAt of the next plan; zero if that
// no longer matters. What was only postponed keeps its time, so that targets whose writes fail slowly take turns with the others.
func (d *Decision) BlockedAt(before time.Time, v *health.Verdict, now time.Time) time.Time {
	switch {
	case d.BlockedLate():
		return now
	case d.Hold.Reason == PreflightPending:
		return before
	case d.InFlight, v.Kind != health.Unhealthy, now.Sub(before) >= blockedTime:
		return time.Time{}
	}
	return before
}

// Rejected is a decision whose request the API server rejected with this message.
func Rejected(d *Decision, t *Target, message string) Decision {
	return d.held(t, Hold{Reason: RequestFailed, Seen: Seen{Who: message}})
}

// RequestFailed means: the API server rejected the remediation request.
const RequestFailed Reason = "RequestFailed"

// held blocks a decision: nothing is written for it, and what was to be started is not in flight.
func (d *Decision) held(t *Target, hold Hold) Decision {
	h := d.unnoted(t)
	if d.Starts() {
		h.InFlight, h.Budgeted, h.Attempt, h.ControlPlaneLeaseUntil = false, false, 0, time.Time{}
	}
	h.Action, h.Why, h.Hold, h.Until = None, "", hold, hold.Until
	return h
}

// unnoted is a decision that leaves all annotations and Leases as they are.
func (d *Decision) unnoted(t *Target) Decision {
	h := *d
	h.DropConfirmation = false
	h.History, h.MarkedBy, h.NodeGoneSince, h.HealthySince, h.LeaseUntil = t.History, t.OwnerRemediation.MarkedByThis, t.NodeGoneSince, time.Time{}, time.Time{}
	if t.Request != nil {
		h.HealthySince = t.Request.HealthySince
	}
	if t.Lease.BlockedByThis {
		h.LeaseUntil = t.Lease.Until
	}
	return h
}

// Announced returns a plan as it is before its preflight checks, which what it starts or ends waits for. Owner remediation is requested by the
// conditions of a Machine, so until then these stay as they are.
func (plan *Planned) Announced(s *Situation, a *health.Assessment, now time.Time) Planned {
	announced := *plan
	announced.Decisions = slices.Clone(plan.Decisions)
	for i := range announced.Decisions {
		d, t := &announced.Decisions[i], &s.Targets[i]
		if !d.Starts() && !d.Ends() {
			continue
		}
		owner, hold := d.Action == RequestOwnerRemediation, d.Hold
		*d = Confirm(plan, t, d, &a.Verdicts[i], &PreflightCheck{Late: true, Verdict: a.Verdicts[i], Target: *t}, now)
		if owner {
			d.MarkedBy = t.OwnerRemediation.MarkedByThis
		}
		if hold.Reason != "" {
			d.Hold = hold
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
