// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Plan decides what to do about every target. The verdicts of the assessment are in the order of the targets of the situation. Plan does
// not change its arguments.
//
// It first decides about requests and conditions that exist: to wait, to give up or to cancel. The other unhealthy targets are candidates
// for a new remediation. They are sorted, and the guards run for each.
func Plan(s *Situation, a *health.Assessment, policy *Policy, now time.Time) Planned {
	return planWith(guards[:], s, a, policy, now)
}

// planner is one run of Plan, or one preflight check.
type planner struct {
	s      *Situation
	a      *health.Assessment
	policy *Policy
	now    time.Time
	plan   Planned
	// candidates are the targets for which a remediation would be started.
	candidates []candidate
	// busy is a Node of the control plane that is being remediated. holder is a target that counts for maxInFlight.
	busy   string
	holder Replacement
	// leaseholders are the decisions for which the Lease of the control plane is held.
	leaseholders []*Decision
	// wouldStart is how many places an observing check would use.
	wouldStart int
	// preflight is nil for a plan.
	preflight *preflight
}

func planWith(all []guard, s *Situation, a *health.Assessment, policy *Policy, now time.Time) Planned {
	p := &planner{s: s, a: a, policy: policy, now: now}
	p.plan.Decisions = make([]Decision, len(s.Targets))
	p.plan.leased = s.ControlPlane.Lease.HeldByThis && s.ControlPlane.Lease.Used
	p.plan.LimitState, p.plan.Counts.Healthy = limitState(s, a, policy)
	p.plan.Storm = s.Check.Storm.next(p.plan.LimitState, policy, &s.Check, now)
	p.plan.Slots, p.plan.Limited = Slots(policy.MaxInFlight, a.Counts.Expected)
	for i := range s.Targets {
		p.decide(i)
		d := &p.plan.Decisions[i]
		if a.Verdicts[i].Kind == health.Unhealthy && d.Action == None && d.Block.Reason == "" {
			p.candidates = append(p.candidates, p.candidateOf(i))
		}
	}
	p.countInFlight()
	p.start(all)
	p.plan.Orphans = p.cleanUpOrphans()
	p.sumUp()
	return p.plan
}

// decide decides about what exists on a target.
func (p *planner) decide(i int) {
	t, v, d := &p.s.Targets[i], &p.a.Verdicts[i], &p.plan.Decisions[i]
	d.History, d.MarkedBy, d.NodeGoneSince = t.History, t.OwnerRemediation.MarkedByThis, t.NodeGoneSince
	if t.Request != nil {
		d.HealthySince, d.Step, d.Attempt = t.Request.HealthySince, t.Request.Step, t.Request.Attempt
	}
	if t.Lease.HeldByThis {
		d.LeaseUntil = t.Lease.Until
	}
	ownerNext := p.ownerNext(t, v)
	if d.InFlight, d.Budgeted = p.inFlight(t, v, ownerNext); ownerNext && d.InFlight {
		step, _ := p.ownerStep(t, v)
		d.Step = step.ID
	}
	if d.InFlight && t.ControlPlane {
		p.markBusy(t.Name)
	}
	if t.ControlPlane && t.Request != nil && p.plan.leased && (!ownerNext || !released(t.Request, p.now)) {
		d.ControlPlaneLeaseUntil = p.s.ControlPlane.Lease.Until
	}
	if p.s.Check.Paused || v.Reason == health.Paused {
		return
	}
	if t.CoveredBy == "" {
		d.History, d.NodeGoneSince = limitBackoff(t.History, p.policy, p.now), v.NodeGoneSince
		if ownerNext && v.Kind == health.Unhealthy && p.keptUntried(t) {
			d.History.Tried = t.Request.Step
		}
	}
	// Its conditions are, or will be, those of this check.
	announces := p.announces(t, v)
	d.MarkedBy = announces || p.policy.ReportsHealth && v.Kind == health.Unhealthy ||
		t.OwnerRemediation.MarkedByThis && (t.OwnerRemediation.Unhealthy || t.OwnerRemediation.RequestedByThis)
	if announces {
		d.OwnerRequestAt = v.Until
	}
	why, unwanted := p.unwanted(t, v)
	if last := t.DeletedRequests.Last; last != nil && t.Request == nil && v.Kind == health.Unhealthy && !unwanted {
		// The target was not remediated. Without a backoff, requests would be created and deleted all the time.
		d.History = afterGivingUp(d.History, last, v, p.policy, p.now)
	}
	d.DropConfirmation = t.Confirmed && t.Request == nil && !unwanted && p.policy.CreatesRequests()
	switch {
	case unwanted:
		p.cleanUp(t, why, d)
	case t.Request != nil && !ownerNext:
		p.continueRequest(t, v, d)
	case v.Recovered():
		d.History = History{}
	case d.InFlight, t.OwnerRemediation.Requested && (v.Kind == health.Unhealthy || t.Owner == ""):
		p.awaitOwner(t, v, d)
	}
	if t.Request == nil {
		d.LeaseUntil = time.Time{}
	}
}

// sumUp completes the plan with what the check records, the counts, and the next reconcile.
func (p *planner) sumUp() {
	plan := &p.plan
	p.fewEnough()
	slices.SortFunc(plan.Replacing, func(a, b Replacement) int { return cmp.Compare(a.Target, b.Target) })
	plan.Counts.InFlight -= p.wouldStart
	p.wakeAt(plan.Storm.ends(p.policy))
	// Until then, no storm can begin or end, and the status reports the grace period.
	p.wakeAt(p.s.Check.ReconnectingUntil)
	// The end of a pause by a clock that was ahead moves the timeouts.
	p.wakeAt(p.s.Check.UnpausedAt)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		if p.a.Verdicts[i].Reason != health.Paused {
			p.keepsControlPlaneLease(d)
			p.reportRequest(p.s.Targets[i].Name, p.s.Targets[i].Request, p.s.Targets[i].UnpausedAt)
		}
		d.Until = p.later(health.Earliest(d.Until, d.Block.Until))
		p.wakeAt(d.RenewAt)
		p.wakeAt(p.s.Targets[i].UnpausedAt)
		p.wakeAt(p.s.Targets[i].CoveredUntil)
		plan.Finalizer = plan.Finalizer || leavesSomething(&p.s.Targets[i], d)
	}
	for i := range plan.Orphans {
		d := &plan.Orphans[i]
		if !p.s.Orphans[i].Paused {
			p.keepsControlPlaneLease(d)
			p.reportRequest(p.s.Orphans[i].Name, p.s.Orphans[i].Request)
		}
		d.Until = p.later(d.Until)
		p.wakeAt(d.Until)
		p.wakeAt(d.RenewAt)
		plan.leased = plan.leased && d.ControlPlaneLeaseUntil.IsZero()
		// Leases are released, too, before the finalizer is removed.
		plan.Finalizer = plan.Finalizer || p.s.Orphans[i].Request != nil || p.s.Orphans[i].Recorded()
	}
	slices.Sort(plan.Kept)
	slices.Sort(plan.NotActing)
	p.renewControlPlaneLease()
	for _, replacement := range plan.Replacing {
		if !replacement.GoneSince.IsZero() {
			p.wakeAt(replacement.GoneSince.Add(p.policy.ReplacementTimeout))
		}
	}
	plan.inFlightElsewhere = plan.Counts.InFlight - budgeted(plan.Decisions)
	plan.Conclude(p.a, p.now)
}

// wakeAt requests a reconcile at a time, if that is in the future.
func (p *planner) wakeAt(at time.Time) {
	p.plan.otherWakeUp = health.Earliest(p.plan.otherWakeUp, p.later(at))
}

// later is a time in the future, or zero.
func (p *planner) later(t time.Time) time.Time {
	if t.After(p.now) {
		return t
	}
	return time.Time{}
}

// RetryTime is when a failed read or a rejected request is tried again. No watch delivers its end.
const RetryTime = 15 * time.Second

// Conclude counts the decisions and determines the next reconcile. It is called again after preflight checks have changed decisions.
func (plan *Planned) Conclude(a *health.Assessment, now time.Time) {
	plan.Counts.Blocked, plan.Counts.Remediating, plan.Counts.InFlight = 0, 0, plan.inFlightElsewhere+budgeted(plan.Decisions)
	plan.WakeUp, plan.ReleaseControlPlaneLease = plan.otherWakeUp, plan.leased
	if a.WakeUp.After(now) {
		plan.WakeUp = health.Earliest(plan.WakeUp, a.WakeUp)
	}
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		switch {
		case d.blockedWith(&a.Verdicts[i]):
			plan.Counts.Blocked++
		case d.InFlight:
			plan.Counts.Remediating++
		}
		plan.ReleaseControlPlaneLease = plan.ReleaseControlPlaneLease && d.ControlPlaneLeaseUntil.IsZero()
		if d.Until.After(now) {
			plan.WakeUp = health.Earliest(plan.WakeUp, d.Until)
		}
		if d.Block.Reason == PreflightFailed || d.Block.Reason == RequestFailed || d.Block.needsPolling() {
			plan.WakeUp = health.Earliest(plan.WakeUp, now.Add(RetryTime))
		}
	}
}

// needsPolling reports whether the block ends by a change that no watch delivers: members of etcd become readable or healthy, another check
// ends its remediation, another holder releases a Lease, or clocks agree again.
func (h *Block) needsPolling() bool {
	switch h.Reason { //nolint:exhaustive // the others end by an event, or at a time
	case QuorumUnknown, QuorumAtRisk, SingleControlPlane, ControlPlaneBusy, NodeLeaseHeld, ClockSkew:
		return true
	}
	return false
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

// leavesSomething reports whether the target has, or will have, something to clean up when the check is deleted.
func leavesSomething(t *Target, d *Decision) bool {
	return t.Request != nil || t.OwnerRemediation.MarkedByThis || t.Lease.HeldByThis || d.MarkedBy || d.Action == StartRequest ||
		t.ownsHistory() && (d.History != (History{}) || !d.NodeGoneSince.IsZero())
}

// candidate is an unhealthy target for which a remediation would be started.
type candidate struct {
	index int
	step  Step
	// stepless: the check has no step for its causes.
	stepless bool
	// underWay: a step of this attempt was tried already. manual: an annotation requests the remediation.
	underWay, manual bool
	// handsOver: a remediator requests owner remediation.
	handsOver bool
	since     time.Time
}

func (p *planner) candidateOf(i int) candidate {
	t, v, d := &p.s.Targets[i], &p.a.Verdicts[i], &p.plan.Decisions[i]
	c := candidate{index: i, underWay: d.History.Tried != StepID{}, manual: v.Reason == health.HasRemediateAnnotation, since: v.Since}
	steps := StepsFor(p.policy.Steps, v)
	step, found := NextStep(steps, d.History.Tried)
	if _, unwanted := p.unwanted(t, v); !found && c.underWay && !unwanted && !p.s.Check.Paused {
		// The check no longer has the steps that remained, or they are for another cause, so the attempt is over.
		d.History = exhausted(d.History.Failures+1, p.policy, p.now)
		step, found = NextStep(steps, StepID{})
	}
	if c.handsOver = t.handedOver(v); c.handsOver && !step.Owner {
		step, found = Step{Owner: true}, true
	}
	c.step, c.stepless = step, !found
	if t.Request == nil || p.ownerNext(t, v) {
		d.Step = step.ID
	}
	return c
}

// start runs the guards for the candidates, in the order in which they get free places: first those that were not blocked last time, so
// rejected requests do not keep others from their turn; then attempts under way, remediations that an annotation requests, the longest
// unhealthy ones, then by name.
func (p *planner) start(all []guard) {
	slices.SortStableFunc(p.candidates, func(a, b candidate) int {
		return cmp.Or(
			p.s.Targets[a.index].BlockedAt.Compare(p.s.Targets[b.index].BlockedAt),
			first(a.underWay, b.underWay),
			first(a.manual, b.manual),
			// An unknown time comes last.
			first(!a.since.IsZero(), !b.since.IsZero()),
			a.since.Compare(b.since),
			cmp.Compare(p.s.Targets[a.index].Name, p.s.Targets[b.index].Name),
		)
	})
	for i := range p.candidates {
		c := &p.candidates[i]
		t, d := &p.s.Targets[c.index], &p.plan.Decisions[c.index]
		// A target that a preflight check has blocked leaves its place to others.
		if d.Block = t.Blocked; d.Block.Reason != "" {
			continue
		}
		action := StartRequest
		if c.step.Owner {
			action = RequestOwnerRemediation
		}
		d.Answers, d.Block = p.runGuards(all, action, t, c, make([]Answer, 0, len(all)))
		switch {
		case d.Block.Reason == "":
			p.begin(c, d)
		case d.Block.Reason == NoRemediatingOwner && p.setsConditions(all, t, c):
			d.Action, d.MarkedBy = RequestOwnerRemediation, true
		}
		if d.Block.Reason == ObserveMode {
			// An observing check queues the others as if this one was started.
			would := *d
			if p.begin(c, &would); would.Budgeted {
				p.wouldStart++
			}
		}
	}
}

// setsConditions reports whether a Machine without an owner gets the conditions that request owner remediation, as in-tree: another
// controller may act on them. It needs no place of maxInFlight.
func (p *planner) setsConditions(all []guard, t *Target, c *candidate) bool {
	blocking := slices.DeleteFunc(slices.Clone(all), func(g guard) bool { return g.reason == NoRemediatingOwner || g.reason == MaxInFlight })
	_, block := p.runGuards(blocking, RequestOwnerRemediation, t, c, nil)
	return p.policy.ReportsHealth && block.Reason == ""
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// begin starts the step of a candidate.
func (p *planner) begin(c *candidate, d *Decision) {
	t := &p.s.Targets[c.index]
	d.For, d.InFlight, d.Budgeted = c.step.Conditions, true, !c.step.Owner || !t.ControlPlane
	if d.Budgeted {
		p.takeSlot(t.Name, "")
	}
	if t.ControlPlane {
		p.markBusy(t.Name)
	}
	if c.step.Owner {
		d.Action, d.MarkedBy, d.HandsOver = RequestOwnerRemediation, true, c.handsOver
		if d.Budgeted && p.remembers() {
			p.remember(t)
		}
		return
	}
	d.Action, d.Attempt = StartRequest, d.History.Failures+1
	if t.Lease.Used {
		d.LeaseUntil = p.now.Add(p.leaseTime(c.step.ID))
	}
	if t.ControlPlane && p.s.ControlPlane.Lease.Used {
		d.ControlPlaneLeaseUntil = p.now.Add(p.leaseTime(c.step.ID))
	}
}
