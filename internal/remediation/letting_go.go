// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// unwanted says why whatever this check has at a target has to go.
func (p *pass) unwanted(t *Target, v *health.Verdict) (Reason, bool) {
	switch {
	case p.s.Check.Deleting:
		return CheckDeleting, true
	case p.policy.Observe:
		return Observing, true
	case p.s.Check.Cluster == ClusterIsMissing:
		return ClusterNotFound, true
	case t.CoveredBy != "":
		return CoveredByOther, true
	case v.Kind == health.Skipped:
		return NotLookedAfter, true
	}
	return "", false
}

// letGo removes what this check has at a target: first the request, then the marks.
func (p *pass) letGo(t *Target, why Reason, d *Decision) {
	switch {
	case t.Request != nil && t.Request.DeletingSince.IsZero():
		d.Action, d.Why = Withdraw, why
	case t.Request != nil:
		d.Action = Wait
	case t.Mark.Ours:
		d.Action, d.Why = Unmark, why
	}
	if t.Request != nil {
		p.renewLease(t.Lease, d)
	}
	d.Author = t.Mark.Ours && d.Action != Unmark
	if t.CoveredBy != "" {
		d.Until = t.CoveredUntil
	}
	// Whoever takes care of it now goes on from what we remember; otherwise nobody needs it any more.
	if t.ledgerIsOurs() {
		d.Ledger, d.NodeGoneSince = Ledger{}, time.Time{}
	}
}

// ledgerIsOurs says whether what is remembered on a target is nobody else's to go on from.
func (t *Target) ledgerIsOurs() bool { return t.CoveredBy == "" || t.CoveredElsewhere }

// lookAtStrays decides what becomes of what is left at targets that the check does not look after any more.
func (p *pass) lookAtStrays() []Decision {
	if len(p.s.Strays) == 0 {
		return nil
	}
	decisions := make([]Decision, len(p.s.Strays))
	for i := range p.s.Strays {
		stray, d := &p.s.Strays[i], &decisions[i]
		if stray.Request != nil {
			d.Step, d.Attempt, d.HealthySince, d.InFlight = stray.Request.Step, stray.Request.Attempt, stray.Request.HealthySince, true
		}
		frozen := p.s.Check.Frozen || stray.Frozen
		if stray.Lease.Ours && (frozen || stray.Request != nil) {
			d.LeaseUntil = stray.Lease.Until
		}
		if p.plan.turn && stray.ControlPlane && stray.Request != nil {
			d.TurnUntil = p.s.ControlPlane.Turn.Until
		}
		if frozen {
			d.Ledger, d.NodeGoneSince = stray.Ledger, stray.NodeGoneSince
			continue
		}
		p.clear(stray, d)
		if stray.Request != nil {
			p.renewLease(stray.Lease, d)
		}
	}
	return decisions
}

func (p *pass) clear(stray *Stray, d *Decision) {
	r := stray.Request
	why := NotLookedAfter
	if stray.Gone {
		why = NodeVanished
	}
	switch {
	case r == nil && stray.Marked:
		d.Action, d.Why = Unmark, why
	case r == nil:
	case stray.Gone && p.awaitsNodeDeletion(r, d):
		d.Action = Wait
	// Without the word to stop, some remediators keep their finalizer for ever once the Node is gone.
	case r.DeletingSince.IsZero() || stray.Gone && !r.TimedOut && !r.Succeeded:
		d.Action, d.Why = Withdraw, why
	default:
		d.Action = Wait
	}
}

// awaitsNodeDeletion says whether the Node is gone because the remediator deletes it, and has not finished.
func (p *pass) awaitsNodeDeletion(r *Request, d *Decision) bool {
	step, found := named(p.policy.Steps, r.Step)
	if !found || !r.NodeDeletionExpected || r.Succeeded || r.Failed || r.TimedOut || !r.DeletingSince.IsZero() ||
		p.s.Check.Deleting || p.policy.Observe || p.s.Check.Cluster == ClusterIsMissing {
		return false
	}
	if step.Timeout > 0 {
		d.Until = p.ends(r, &step)
		return p.now.Before(d.Until)
	}
	return true
}
