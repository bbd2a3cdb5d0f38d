// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// OwnerTime is how long an owner may take to act before that is reported.
const OwnerTime = 30 * time.Minute

// OwnerNotActing means: the owner has not acted on OwnerRemediated=False in time.
const OwnerNotActing Reason = "OwnerNotActing"

// awaitOwner decides about a target that its owner remediates, and that is not known to be healthy.
func (p *pass) awaitOwner(t *Target, v *health.Verdict, d *Decision) {
	step, found := NextStep(p.policy.Steps, t.Ledger.Tried)
	if !step.Owner {
		step, found = Step{}, false
	}
	d.Step = step.ID
	late, stuck := t.Mark.Since.Add(OwnerTime), t.DeletingSince.Add(LeavingTime)
	switch why := p.cancels(t, found); {
	// Guards report an owner that refuses.
	case t.Mark.Refused:
	case why != "":
		d.Action, d.Why = TakeBack, why
	case v.Kind != health.Unhealthy:
		d.Action = Wait
	case !t.DeletingSince.IsZero() && !p.now.Before(stuck):
		d.Hold = Hold{Reason: StuckDeleting, Seen: Seen{Since: t.DeletingSince}}
	case !t.DeletingSince.IsZero():
		d.Action, d.Until = Wait, stuck
	case !p.now.Before(late):
		d.Hold = Hold{Reason: OwnerNotActing, Seen: Seen{Who: t.Owner, Since: t.Mark.Since}}
		if t.Mark.OwnerReason != "" {
			d.Hold.Seen.Who = t.Owner + ": " + t.Mark.OwnerReason
		}
	default:
		d.Action, d.Until = Wait, late
	}
}

// cancels is why owner remediation is canceled; empty if it is not. Only if this check has requested it, and the owner has not reacted. A
// limit that is exceeded is no reason.
func (p *pass) cancels(t *Target, ownerStep bool) Reason {
	switch {
	case !t.Mark.Ours || !t.Mark.Waiting:
		return ""
	case len(p.s.Check.PauseRequests) > 0:
		return PauseRequested
	case !p.plan.Storm.Since.IsZero():
		return InStorm
	case t.Owner == "":
		return NoRemediatingOwner
	case !ownerStep:
		return StepChanged
	}
	return ""
}
