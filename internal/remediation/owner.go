// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// OwnerTimeout is how long an owner may take to act before that is reported.
const OwnerTimeout = 30 * time.Minute

// OwnerNotActing means: the owner has not acted on OwnerRemediated=False in time.
const OwnerNotActing Reason = "OwnerNotActing"

// awaitOwner decides about a target that its owner remediates, and that is not known to be healthy.
func (p *planner) awaitOwner(t *Target, v *health.Verdict, d *Decision) {
	step, found := NextStep(p.policy.Steps, t.History.Tried)
	if !step.Owner {
		step, found = Step{}, false
	}
	d.Step = step.ID
	late, stuck := t.OwnerRemediation.Since.Add(OwnerTimeout), t.DeletingSince.Add(DeletionTimeout)
	switch why := p.cancels(t, found); {
	// Guards report an owner that refuses.
	case t.OwnerRemediation.Refused:
	case why != "":
		d.Action, d.Why = CancelOwnerRemediation, why
	case v.Kind != health.Unhealthy && d.InFlight:
		d.Action = Wait
	case v.Kind != health.Unhealthy:
	case !t.DeletingSince.IsZero() && !p.now.Before(stuck):
		d.Block = Block{Reason: StuckDeleting, Details: Details{Since: t.DeletingSince}}
	case t.Owner == "":
		d.Block = Block{Reason: NoRemediatingOwner, Until: p.later(stuck)}
	case !t.DeletingSince.IsZero():
		d.Action, d.Until = Wait, stuck
	case !p.now.Before(late):
		d.Block = Block{Reason: OwnerNotActing, Details: Details{Cause: t.Owner, Since: t.OwnerRemediation.Since}}
		if t.OwnerRemediation.OwnerReason != "" {
			d.Block.Details.Cause = t.Owner + ": " + t.OwnerRemediation.OwnerReason
		}
	default:
		d.Action, d.Until = Wait, late
	}
}

// cancels is why owner remediation is canceled; empty if it is not. Only if this check has requested it, and the owner has not begun. A
// limit that is exceeded is no reason.
func (p *planner) cancels(t *Target, ownerStep bool) Reason {
	switch {
	case !t.OwnerRemediation.RequestedByThis || !t.OwnerRemediation.Waiting:
		return ""
	case len(p.s.Check.PauseRequests) > 0:
		return PauseRequested
	case !p.plan.Storm.Since.IsZero():
		return InStorm
	case !ownerStep:
		return StepChanged
	}
	return ""
}
