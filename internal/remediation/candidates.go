// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// candidate is an unhealthy target for which a remediation would be started.
type candidate struct {
	index int
	step  Step
	// stepless: the check has no step for it.
	stepless bool
	// underWay: a step of this attempt was tried already. manual: an annotation requests the remediation.
	underWay, manual bool
	since            time.Time
}

func (p *pass) candidateOf(i int) candidate {
	t, v, d := &p.s.Targets[i], &p.a.Verdicts[i], &p.plan.Decisions[i]
	c := candidate{index: i, underWay: t.History.Tried != StepID{}, manual: v.Reason == health.HasRemediateAnnotation, since: v.Since}
	step, found := NextStep(p.policy.Steps, t.History.Tried)
	if _, unwanted := p.unwanted(t, v); !found && c.underWay && !unwanted && !p.s.Check.Paused {
		// The check no longer has the steps that remained, so the attempt is over.
		d.History = exhausted(t.History.Failures+1, p.policy, p.now)
		step, found = NextStep(p.policy.Steps, StepID{})
	}
	c.step, c.stepless = step, !found
	if t.Request == nil {
		d.Step = step.ID
	}
	return c
}

// start runs the guards for the candidates, in the order in which they get free places: first those that were not blocked last time, so
// rejected requests do not keep others from their turn; then attempts under way, remediations that an annotation requests, the longest
// unhealthy ones, then by name.
func (p *pass) start(all []guard) {
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
		if d.Hold = t.BlockedBack; d.Hold.Reason != "" {
			continue
		}
		action := StartRequest
		if c.step.Owner {
			action = RequestOwnerRemediation
		}
		d.Answers, d.Hold = p.runGuards(all, action, t, c, make([]Answer, 0, len(all)))
		switch {
		case d.Hold.Reason == "":
			p.begin(c, d)
		case d.Hold.Reason == NoRemediatingOwner && p.setsConditions(all, t, c):
			d.Action, d.MarkedBy = RequestOwnerRemediation, true
		}
		if d.Hold.Reason == ObserveMode {
			// An observing check queues the others as if this one was started.
			would := *d
			if p.begin(c, &would); would.Budgeted {
				p.would++
			}
		}
	}
}

// setsConditions reports whether a Machine without an owner gets the conditions that request owner remediation, as in-tree: another
// controller may act on them. It needs no place of maxInFlight.
func (p *pass) setsConditions(all []guard, t *Target, c *candidate) bool {
	blocking := slices.DeleteFunc(slices.Clone(all), func(g guard) bool { return g.reason == NoRemediatingOwner || g.reason == MaxInFlight })
	_, hold := p.runGuards(blocking, RequestOwnerRemediation, t, c, nil)
	return p.policy.ReportsHealth && hold.Reason == ""
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
func (p *pass) begin(c *candidate, d *Decision) {
	t := &p.s.Targets[c.index]
	d.InFlight, d.Budgeted = true, !c.step.Owner || !t.ControlPlane
	if d.Budgeted {
		p.takePlace(t.Name, "")
	}
	if t.ControlPlane {
		p.nowBusy(t.Name)
	}
	if c.step.Owner {
		d.Action, d.MarkedBy = RequestOwnerRemediation, true
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
