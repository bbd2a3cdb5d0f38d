// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// unwanted is why everything that this check has on a target has to be removed.
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

// cleanUp removes what this check has on a target: first the request, then the conditions.
func (p *pass) cleanUp(t *Target, why Reason, d *Decision) {
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
	if t.ledgerIsOurs() {
		d.Ledger, d.NodeGoneSince = Ledger{}, time.Time{}
	}
}

// ledgerIsOurs reports whether no other check continues with the remediation history of the target.
func (t *Target) ledgerIsOurs() bool { return t.CoveredBy == "" || t.CoveredElsewhere }

// cleanUpOrphans decides about orphaned targets.
func (p *pass) cleanUpOrphans() []Decision {
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
		p.cleanUpOrphan(stray, d)
		if stray.Request != nil {
			p.renewLease(stray.Lease, d)
		}
	}
	return decisions
}

func (p *pass) cleanUpOrphan(stray *Stray, d *Decision) {
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
	// Some remediators only remove their finalizer after the Node is deleted if they are stopped.
	case r.DeletingSince.IsZero() || stray.Gone && !r.TimedOut && !r.Succeeded:
		d.Action, d.Why = Withdraw, why
	default:
		d.Action = Wait
	}
}

// awaitsNodeDeletion reports whether the remediator has deleted the Node, and has not finished.
func (p *pass) awaitsNodeDeletion(r *Request, d *Decision) bool {
	step, found := requestStep(p.policy.Steps, r.Step)
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
