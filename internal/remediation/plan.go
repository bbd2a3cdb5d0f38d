// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Plan says what is to be done about every target, as of now. The verdicts of the assessment are those of the situation's targets, in the
// same order. It changes nothing of what it is given.
//
// First what is there already is looked at: requests and marks are waited for, given up or taken back. What is left of the unhealthy targets
// are candidates for something new. They are put in order, and each has to get past every guard.
func Plan(s *Situation, a *health.Assessment, policy *Policy, now time.Time) Planned {
	return planWith(guards[:], s, a, policy, now)
}

// pass is one planning.
type pass struct {
	s      *Situation
	a      *health.Assessment
	policy *Policy
	now    time.Time
	plan   Planned
	// candidates are the targets for which something new would be started.
	candidates []candidate
	// busy is a Node of the control plane that is being remediated. holder is a target that takes up a place.
	busy, holder string
	// would is how many places an observing check would have taken.
	would int
}

func planWith(guards []guard, s *Situation, a *health.Assessment, policy *Policy, now time.Time) Planned {
	p := &pass{s: s, a: a, policy: policy, now: now}
	p.plan.Decisions = make([]Decision, len(s.Targets))
	p.plan.turn = s.ControlPlane.Turn.Ours && s.ControlPlane.Turn.Used
	p.plan.Gate, p.plan.Counts.Healthy = gateFor(s, a, policy)
	p.plan.Storm = s.Check.Storm.next(p.plan.Gate, policy, &s.Check, now)
	p.plan.Slots, p.plan.Limited = Slots(policy.MaxInFlight, a.Counts.Expected)
	for i := range s.Targets {
		p.lookAt(i)
	}
	p.countInFlight()
	p.start(guards)
	p.plan.Strays = p.lookAtStrays()
	p.sumUp()
	return p.plan
}

// lookAt decides about what is there already, and makes a candidate of an unhealthy target that has nothing.
func (p *pass) lookAt(i int) {
	t, v, d := &p.s.Targets[i], &p.a.Verdicts[i], &p.plan.Decisions[i]
	d.Ledger, d.Author, d.NodeGoneSince = t.Ledger, t.Mark.Ours, t.NodeGoneSince
	if t.Request != nil {
		d.HealthySince, d.Step, d.Attempt = t.Request.HealthySince, t.Request.Step, t.Request.Attempt
	}
	if t.Lease.Ours {
		d.LeaseUntil = t.Lease.Until
	}
	d.InFlight, d.Budgeted = inFlight(t, v)
	if d.InFlight && t.ControlPlane {
		p.nowBusy(t.Name)
	}
	if t.ControlPlane && t.Request != nil && p.plan.turn {
		d.TurnUntil = p.s.ControlPlane.Turn.Until
	}
	if p.s.Check.Frozen || v.Reason == health.Paused {
		p.wantUnlessDone(i)
		return
	}
	if t.CoveredBy == "" {
		d.Ledger, d.NodeGoneSince = believable(t.Ledger, p.policy, p.now), v.NodeGoneSince
	}
	d.Author = p.signs(t, v)
	why, unwanted := p.unwanted(t, v)
	d.DropConfirmation = t.Confirmed && t.Request == nil && !unwanted
	switch {
	case unwanted:
		p.letGo(t, why, d)
	case t.Request != nil:
		p.lookAtRequest(t, v, d)
	case v.Recovered():
		// A target that is well has nothing to be remembered.
		d.Ledger = Ledger{}
	case t.Mark.Given && v.Kind == health.Unhealthy:
		d.Step = p.ownerStep(t)
		p.lookAtMark(t, d)
	case d.InFlight:
		d.Step = p.ownerStep(t)
		p.keepMark(t, d)
	}
	if t.Request == nil {
		d.LeaseUntil = time.Time{}
	}
	p.wantUnlessDone(i)
}

// takePlace notes that a target takes up one of the places that maxInFlight gives. Of several it is always the same one that is named.
func (p *pass) takePlace(name string) {
	p.plan.Counts.InFlight++
	if p.holder == "" || name < p.holder {
		p.holder = name
	}
}

// nowBusy notes that a Node of the control plane is being remediated. Of several it is always the same one that is named.
func (p *pass) nowBusy(name string) {
	if p.busy == "" || name < p.busy {
		p.busy = name
	}
}

// wantUnlessDone makes a candidate of an unhealthy target about which nothing has been decided.
func (p *pass) wantUnlessDone(i int) {
	d := &p.plan.Decisions[i]
	if p.a.Verdicts[i].Kind == health.Unhealthy && d.Action == None && d.Hold.Reason == "" {
		p.candidates = append(p.candidates, p.candidateOf(i))
	}
}

// sumUp completes the plan: what the check shall carry, what is counted, and when to look again.
func (p *pass) sumUp() {
	plan := &p.plan
	p.fewEnough()
	slices.SortFunc(plan.Replacing, func(a, b Replacement) int { return cmp.Compare(a.Target, b.Target) })
	plan.Counts.InFlight -= p.would
	rest := p.later(plan.Storm.ends(p.policy))
	if p.policy.StormCooldown > 0 {
		// Until then it cannot be said whether a storm begins, or begins to be over.
		rest = earliest(rest, p.later(p.s.Check.FirstLookUntil))
	}
	// The end of a pause that was noted by a clock that was ahead gives time back from then on.
	rest = earliest(rest, p.later(p.s.Check.ThawedAt))
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		d.Until = p.later(earliest(d.Until, d.Hold.Until))
		rest = earliest(rest, p.later(d.RenewAt))
		rest = earliest(rest, p.later(p.s.Targets[i].ThawedAt))
		plan.Finalizer = plan.Finalizer || leavesSomething(&p.s.Targets[i], d)
	}
	for i := range plan.Strays {
		plan.Strays[i].Until = p.later(plan.Strays[i].Until)
		rest = earliest(earliest(rest, plan.Strays[i].Until), p.later(plan.Strays[i].RenewAt))
		plan.Finalizer = true
	}
	for _, replacement := range plan.Replacing {
		if !replacement.GoneSince.IsZero() {
			rest = earliest(rest, p.later(replacement.GoneSince.Add(p.policy.ReplacementTimeout)))
		}
	}
	plan.rest = rest
	plan.elsewhere = plan.Counts.InFlight - budgeted(plan.Decisions)
	plan.Conclude(p.a, p.now)
}

// RetryTime is when something is looked at again that could not be read, or was refused, just now. Nothing tells us when that is over.
const RetryTime = 15 * time.Second

// Conclude counts what was decided, and finds the next time at which to look again. It is called once more when decisions were confirmed, or not.
func (plan *Planned) Conclude(a *health.Assessment, now time.Time) {
	plan.Counts.Held, plan.Counts.Remediating, plan.Counts.InFlight = 0, 0, plan.elsewhere+budgeted(plan.Decisions)
	plan.WakeUp, plan.ReleaseTurn = plan.rest, plan.turn
	if a.WakeUp.After(now) {
		plan.WakeUp = earliest(plan.WakeUp, a.WakeUp)
	}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		unhealthy := a.Verdicts[i].Kind == health.Unhealthy
		switch {
		case d.Hold.Reason != "" && unhealthy:
			plan.Counts.Held++
		case d.InFlight:
			plan.Counts.Remediating++
		}
		plan.ReleaseTurn = plan.ReleaseTurn && d.TurnUntil.IsZero()
		if d.Until.After(now) {
			plan.WakeUp = earliest(plan.WakeUp, d.Until)
		}
		if d.Hold.Reason == NotConfirmed || d.Hold.Reason == RequestFailed || d.Hold.unheard() {
			plan.WakeUp = earliest(plan.WakeUp, now.Add(RetryTime))
		}
	}
	for i := range plan.Strays {
		plan.ReleaseTurn = plan.ReleaseTurn && plan.Strays[i].TurnUntil.IsZero()
	}
}

// unheard says whether it ends in a cluster of which nobody tells us: members that could not be read, and a turn of somebody else, who gives it back
// long before it runs out.
func (h *Hold) unheard() bool {
	return h.Reason == QuorumUnknown || h.Reason == ControlPlaneBusy && !h.Until.IsZero()
}

func budgeted(decisions []Decision) int {
	n := 0
	for i := range decisions {
		if decisions[i].Budgeted {
			n++
		}
	}
	return n
}

// later is a time that is ahead, or none.
func (p *pass) later(t time.Time) time.Time {
	if t.After(p.now) {
		return t
	}
	return time.Time{}
}

// earliest is the earlier of two times, of which either may be none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// leavesSomething says whether there is, or will be, something to clean up at this target when the check goes.
func leavesSomething(t *Target, d *Decision) bool {
	return t.Request != nil || t.Mark.Ours || t.Lease.Ours || d.Author || d.Action == MakeRequest ||
		t.ledgerIsOurs() && (d.Ledger != (Ledger{}) || !d.NodeGoneSince.IsZero())
}
