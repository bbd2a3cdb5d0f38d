// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// inFlight reports whether a target is under remediation, and whether that counts for maxInFlight.
//
// A target with a request is in flight until the request is deleted, and counts until its deletion is stuck. One with OwnerRemediated=False
// is in flight until it is healthy, unless it has no owner, or its owner refuses. Control plane owners replace one Machine after the other,
// so these do not count. The responsible check counts its own.
func (p *planner) inFlight(t *Target, v *health.Verdict, ownerNext bool) (inFlight, budgeted bool) {
	if t.Request != nil && (!ownerNext || !released(t.Request, p.now) && !t.handedOver(v)) {
		return true, !p.stuck(t.Request)
	}
	if t.Owner != "" && t.OwnerRemediation.Requested && !t.OwnerRemediation.Refused && !v.Recovered() && t.CoveredBy == "" {
		return true, !t.ControlPlane
	}
	return false, false
}

// stuck reports whether the deletion of a request has not finished in time: a finalizer keeps it, which every user who can write
// requests can set.
func (p *planner) stuck(r *Request) bool {
	if r.DeletingSince.IsZero() {
		return false
	}
	late := r.DeletingSince.Add(DeletionTimeout)
	if p.plan.Limited {
		p.wakeAt(late)
	}
	return !p.now.Before(late)
}

// countInFlight counts targets, orphaned targets, and Machines that were deleted but are not replaced yet. The check remembers these from
// before their owner gets the request until the owner has as many Machines with a Node as it wants, or until ReplacementTimeout.
func (p *planner) countInFlight() {
	for i := range p.s.Targets {
		t := &p.s.Targets[i]
		if p.plan.Decisions[i].Budgeted {
			p.takeSlot(t.Name, "")
		}
		// The owner may go on with a Machine that is healthy again, or no longer refuse, so these are remembered too.
		if p.remembers() && t.OwnerRemediation.Requested && t.Owner != "" && !t.ControlPlane && t.CoveredBy == "" {
			p.remember(t)
		}
	}
	for i := range p.s.Orphans {
		o := &p.s.Orphans[i]
		if o.Request == nil || o.replaced(p.now) {
			continue
		}
		if !p.stuck(o.Request) {
			p.takeSlot(o.Name, "")
		}
		if o.ControlPlane {
			p.markBusy(o.Name)
		}
	}
	if p.s.Check.Paused {
		p.plan.Replacing = slices.Clone(p.s.Replacing)
		return
	}
	if !p.remembers() || len(p.s.Replacing) == 0 {
		return
	}
	counted := make(map[string]bool, len(p.s.Targets))
	for i := range p.s.Targets {
		counted[p.s.Targets[i].Name] = true
	}
	for i := range p.s.Orphans {
		o := &p.s.Orphans[i]
		counted[o.Name] = counted[o.Name] || o.Request != nil && !o.replaced(p.now)
	}
	for _, replacement := range p.s.Replacing {
		if !counted[replacement.Target] && p.replaces(&replacement) {
			counted[replacement.Target] = true
			p.plan.Replacing = append(p.plan.Replacing, replacement)
			p.takeSlot(replacement.Target, replacement.Owner)
		}
	}
}

// takeSlot counts a target for maxInFlight. Its owner is named if the target is deleted, and not replaced yet. Of several targets, messages
// always name the same one.
func (p *planner) takeSlot(name, owner string) {
	p.plan.Counts.InFlight++
	if p.holder.Target == "" || name < p.holder.Target {
		p.holder = Replacement{Target: name, Owner: owner}
	}
}

// markBusy records a Node of the control plane that is being remediated. Of several, messages always name the same one.
func (p *planner) markBusy(name string) {
	if p.busy == "" || name < p.busy {
		p.busy = name
	}
}

// remembers reports whether the check remembers Machines that their owner replaces. An observing check does not.
func (p *planner) remembers() bool {
	return p.plan.Limited && !p.s.Check.Paused && !p.policy.Observe
}

// remember adds a Machine to those that their owner replaces.
func (p *planner) remember(t *Target) {
	if !slices.ContainsFunc(p.plan.Replacing, func(r Replacement) bool { return r.Target == t.Name }) {
		p.plan.Replacing = append(p.plan.Replacing, Replacement{Target: t.Name, Owner: t.Owner})
	}
}

// replaces reports whether the owner of a deleted Machine has still to replace it.
func (p *planner) replaces(r *Replacement) bool {
	r.GoneSince = recordedTime(r.GoneSince, p.now)
	if !p.now.Before(r.GoneSince.Add(p.policy.ReplacementTimeout)) {
		return false
	}
	for i := range p.s.Owners {
		if p.s.Owners[i].Name == r.Owner {
			return p.s.Owners[i].WithNode < p.s.Owners[i].Desired
		}
	}
	// Nothing is known about the owner, so it may have to.
	return true
}

// fewEnough drops what the annotation has no space for: before maxInFlight was set, more Machines may have been marked than it allows.
// Deleted Machines come first, because they are recorded nowhere else; then those in flight. While a place is free there is space for both.
func (p *planner) fewEnough() {
	if len(p.plan.Replacing) <= HighestMaxInFlight || p.s.Check.Paused {
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
	p.plan.Replacing = p.plan.Replacing[:HighestMaxInFlight]
}
