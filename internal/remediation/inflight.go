// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"maps"
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// inFlight says whether a target is under remediation, and whether that takes up a place of the budget.
//
// With a request it is, until that is gone. With a mark for its owner it is until it is healthy again, unless its owner refuses. The owners
// of control planes take one Machine after the other by themselves, so that their marks take up no place. What another check has at a target
// that it takes care of is counted there.
func inFlight(t *Target, v *health.Verdict) (inFlight, budgeted bool) {
	if t.Request != nil {
		return true, true
	}
	if t.Mark.Given && !t.Mark.Refused && !v.Recovered() && t.CoveredBy == "" {
		return true, !t.ControlPlane
	}
	return false, false
}

// countInFlight counts what is in flight: targets, strays, and Machines that are gone but have not been replaced yet. Those are remembered
// from before their owner is asked until it has as many Machines with a Node as it wants, or has had the time for it.
func (p *pass) countInFlight() {
	for i := range p.s.Targets {
		if p.plan.Decisions[i].Budgeted {
			p.takePlace(p.s.Targets[i].Name)
		}
		// Its owner may go on with one that is healthy again, or change its mind: what is marked is remembered, whether it counts or not.
		if t := &p.s.Targets[i]; p.remembers() && t.Mark.Given && !t.ControlPlane && t.CoveredBy == "" {
			p.remember(t)
		}
	}
	for i := range p.s.Strays {
		if p.s.Strays[i].Request != nil {
			p.takePlace(p.s.Strays[i].Name)
			if p.s.Strays[i].ControlPlane {
				p.nowBusy(p.s.Strays[i].Name)
			}
		}
	}
	if p.s.Check.Frozen {
		p.plan.Replacing = slices.Clone(p.s.Replacing)
		return
	}
	if !p.remembers() || len(p.s.Replacing) == 0 {
		return
	}
	gone := make(map[string]Replacement, len(p.s.Replacing))
	for _, replacement := range p.s.Replacing {
		gone[replacement.Target] = replacement
	}
	for i := range p.s.Targets {
		delete(gone, p.s.Targets[i].Name)
	}
	for i := range p.s.Strays {
		if p.s.Strays[i].Request != nil {
			delete(gone, p.s.Strays[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		if replacement := gone[name]; p.replaces(&replacement) {
			p.plan.Replacing = append(p.plan.Replacing, replacement)
			p.takePlace(name)
		}
	}
}

// remembers says whether the check has to remember Machines that were handed to their owner. Who only observes remembers nothing.
func (p *pass) remembers() bool {
	return p.plan.Limited && !p.s.Check.Frozen && !p.policy.Observe
}

// replaces says whether the owner of a Machine that is gone is still about to replace it.
func (p *pass) replaces(r *Replacement) bool {
	r.GoneSince = noted(r.GoneSince, p.now)
	if !p.now.Before(r.GoneSince.Add(p.policy.ReplacementTimeout)) {
		return false
	}
	for i := range p.s.Owners {
		if p.s.Owners[i].Name == r.Owner {
			return p.s.Owners[i].WithNode < p.s.Owners[i].Desired
		}
	}
	// An owner of which nothing is known may still be at it.
	return true
}
