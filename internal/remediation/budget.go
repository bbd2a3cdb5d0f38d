// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// candidate is an unhealthy target for which something new would be started.
type candidate struct {
	index int
	step  Step
	// stepless: the check names no step that it could take.
	stepless bool
	// underWay: a step has been tried already. manual: a person asked for it. since is when the trouble began.
	underWay, manual bool
	since            time.Time
}

func (p *pass) candidateOf(i int) candidate {
	t, v, d := &p.s.Targets[i], &p.a.Verdicts[i], &p.plan.Decisions[i]
	c := candidate{index: i, underWay: t.Ledger.Tried != StepID{}, manual: v.Reason == health.HasRemediateAnnotation, since: v.Since}
	step, found := NextStep(p.policy.Steps, t.Ledger.Tried)
	if _, unwanted := p.unwanted(t, v); !found && c.underWay && !unwanted && !p.s.Check.Frozen {
		// The steps that were to come are not named any more: with what was tried the attempt is over.
		d.Ledger = exhausted(t.Ledger.Failures+1, p.policy, p.now)
		step, found = NextStep(p.policy.Steps, StepID{})
	}
	c.step, c.stepless = step, !found
	if t.Request == nil {
		d.Step = step.ID
	}
	return c
}

// start lets the candidates past the guards, in the order in which they get free places: what is under way, what a person asked for, what has
// been unhealthy for longest, and then by name.
func (p *pass) start(guards []guard) {
	slices.SortStableFunc(p.candidates, func(a, b candidate) int {
		return cmp.Or(
			first(a.underWay, b.underWay),
			first(a.manual, b.manual),
			// Of whom nobody knows since when, it cannot be said that it was the longest.
			first(!a.since.IsZero(), !b.since.IsZero()),
			a.since.Compare(b.since),
			cmp.Compare(p.s.Targets[a.index].Name, p.s.Targets[b.index].Name),
		)
	})
	for i := range p.candidates {
		c := &p.candidates[i]
		d := &p.plan.Decisions[c.index]
		// What was held back at the last look leaves its place to others.
		if d.Hold = p.s.Targets[c.index].HeldBack; d.Hold.Reason != "" {
			continue
		}
		if p.askGuards(guards, c, d); d.Hold.Reason == "" {
			p.begin(c, d)
		} else if d.Hold.Reason == Observing {
			p.wouldBegin(c, *d)
		}
	}
}

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

// begin starts the step of a candidate that every guard has let pass.
func (p *pass) begin(c *candidate, d *Decision) {
	t := &p.s.Targets[c.index]
	d.InFlight, d.Budgeted = true, !c.step.Owner || !t.ControlPlane
	if d.Budgeted {
		p.takePlace(t.Name)
	}
	if t.ControlPlane {
		p.nowBusy(t.Name)
	}
	if c.step.Owner {
		d.Action, d.Author = GiveMark, true
		if d.Budgeted && p.remembers() {
			p.remember(t)
		}
		return
	}
	d.Action, d.Attempt = MakeRequest, d.Ledger.Failures+1
	if t.Lease.Used {
		d.LeaseUntil = p.now.Add(p.leaseTime(c.step.ID))
	}
	if t.ControlPlane && p.s.ControlPlane.Turn.Used {
		d.TurnUntil = p.now.Add(p.leaseTime(c.step.ID))
	}
}

// wouldBegin does as if the step of a candidate that is only observed began: others would have to wait for it.
func (p *pass) wouldBegin(c *candidate, d Decision) {
	if p.begin(c, &d); d.Budgeted {
		p.would++
	}
}

// remember adds a Machine that is handed to its owner to those to be replaced.
func (p *pass) remember(t *Target) {
	for i := range p.plan.Replacing {
		if p.plan.Replacing[i].Target == t.Name {
			return
		}
	}
	p.plan.Replacing = append(p.plan.Replacing, Replacement{Target: t.Name, Owner: t.Owner})
}

// fewEnough leaves out what the annotation has no room for: there may be more marks than places, from a time without a limit. Machines that are gone
// are known from nowhere else, and come first; then those that take up a place, as they may go next. As long as there is a free place, there is room
// for all of these: whoever begins now is always remembered.
func (p *pass) fewEnough() {
	if len(p.plan.Replacing) <= MostAtOnce || p.s.Check.Frozen {
		return
	}
	places := make(map[string]bool, len(p.s.Targets))
	for i := range p.s.Targets {
		places[p.s.Targets[i].Name] = p.plan.Decisions[i].Budgeted
	}
	rank := func(r Replacement) int {
		switch budgeted, there := places[r.Target]; {
		case !there:
			return 0
		case budgeted:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(p.plan.Replacing, func(a, b Replacement) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Target, b.Target)) })
	p.plan.Replacing = p.plan.Replacing[:MostAtOnce]
}
