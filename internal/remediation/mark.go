// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// OwnerTime is how long an owner may keep a mark without doing anything until somebody is told.
const OwnerTime = 30 * time.Minute

// lookAtMark decides what becomes of the mark of an unhealthy target that was handed to its owner.
func (p *pass) lookAtMark(t *Target, d *Decision) {
	late := t.Mark.Since.Add(OwnerTime)
	switch why, back := p.takesBack(t); {
	// The guards tell about an owner that refuses, and about a deletion that nobody does for us.
	case t.Mark.Refused:
	case back:
		d.Action, d.Why = TakeBack, why
	case !t.DeletingSince.IsZero():
		p.awaitDeletion(t, d)
	case !p.now.Before(late):
		d.Hold = Hold{Reason: OwnerNotActing, Seen: Seen{Who: t.Owner, Since: t.Mark.Since}}
		if t.Mark.OwnerReason != "" {
			d.Hold.Seen.Who = t.Owner + ": " + t.Mark.OwnerReason
		}
	default:
		d.Action, d.Until = Wait, late
	}
}

// ownerStep is the step that a mark belongs to, if it is that step's turn.
func (p *pass) ownerStep(t *Target) StepID {
	if step, found := NextStep(p.policy.Steps, t.Ledger.Tried); found && step.Owner {
		return step.ID
	}
	return StepID{}
}

// keepMark decides what becomes of the mark of a target that is not known to be unhealthy just now, nor to be well: what can be said of it
// does not take it out of its owner's hands.
func (p *pass) keepMark(t *Target, d *Decision) {
	d.Action = Wait
	if why, back := p.takesBack(t); back {
		d.Action, d.Why = TakeBack, why
	}
}

// takesBack says whether a mark is taken back: only our own, and only as long as the owner has not said anything. A closed gate leaves it.
func (p *pass) takesBack(t *Target) (Reason, bool) {
	if !t.Mark.Ours || !t.Mark.Waiting {
		return "", false
	}
	step, found := NextStep(p.policy.Steps, t.Ledger.Tried)
	switch {
	case len(p.s.Check.PauseRequests) > 0:
		return PauseRequested, true
	case p.plan.Storm.active():
		return InStorm, true
	case t.Owner == "":
		return NoRemediatingOwner, true
	case !found || !step.Owner:
		return StepChanged, true
	}
	return "", false
}

// signs says whether this check is, or will be, the author of a target's marks. It signs before it marks, and as long as there is a mark of its own.
func (p *pass) signs(t *Target, v *health.Verdict) bool {
	return p.policy.TellsHealth && v.Kind == health.Unhealthy || t.Mark.Ours && (t.Mark.Unhealthy || t.Mark.Given)
}

// awaitDeletion waits for a Machine that its owner is replacing.
func (p *pass) awaitDeletion(t *Target, d *Decision) {
	stuck := t.DeletingSince.Add(LeavingTime)
	if !p.now.Before(stuck) {
		d.Hold = Hold{Reason: StuckDeleting, Seen: Seen{Since: t.DeletingSince}}
		return
	}
	d.Action, d.Until = Wait, stuck
}

// OwnerNotActing means: its owner was asked to remediate it, and has not done anything for long.
const OwnerNotActing Reason = "OwnerNotActing"
