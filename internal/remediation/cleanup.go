// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"cmp"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// unwanted is why everything that this check has on a target has to be removed.
func (p *planner) unwanted(t *Target, v *health.Verdict) (Reason, bool) {
	switch {
	case p.s.Check.Deleting:
		return CheckDeleting, true
	case p.policy.Observe:
		return ObserveMode, true
	case p.s.Check.Cluster == ClusterIsMissing:
		return ClusterNotFound, true
	case t.CoveredBy != "":
		return ManagedByOtherCheck, true
	case v.Kind == health.Skipped:
		return NotSelected, true
	}
	return "", false
}

// cleanUp removes what this check has on a target: first the request, then the conditions.
func (p *planner) cleanUp(t *Target, why Reason, d *Decision) {
	switch {
	case t.Request != nil && t.Request.DeletingSince.IsZero():
		d.Action, d.Why = Withdraw, why
	case t.OwnerRemediation.RequestedByThis && t.Request != nil && released(t.Request, p.now):
		// The owner was asked although a remediator keeps the request.
		d.Action, d.Why = RemoveConditions, why
	case t.Request != nil:
		d.Action = Wait
	case t.OwnerRemediation.MarkedByThis:
		d.Action, d.Why = RemoveConditions, why
	}
	if t.Request != nil {
		p.renewLease(t.Lease, t.Request, d, t.UnpausedAt)
	}
	d.MarkedBy = t.OwnerRemediation.MarkedByThis && d.Action != RemoveConditions
	if t.ownsHistory() {
		d.History, d.NodeGoneSince = History{}, time.Time{}
	}
}

// ownsHistory reports whether no other check continues with the remediation history of the target.
func (t *Target) ownsHistory() bool { return t.CoveredBy == "" || t.CoveredElsewhere }

// cleanUpOrphans decides about orphaned targets.
func (p *planner) cleanUpOrphans() []Decision {
	if len(p.s.Orphans) == 0 {
		return nil
	}
	decisions := make([]Decision, len(p.s.Orphans))
	for i := range p.s.Orphans {
		orphan, d := &p.s.Orphans[i], &decisions[i]
		if orphan.Request != nil {
			d.Step, d.Attempt, d.HealthySince, d.InFlight = orphan.Request.Step, orphan.Request.Attempt, orphan.Request.HealthySince, true
		}
		paused := p.s.Check.Paused || orphan.Paused
		if orphan.Lease.HeldByThis && (paused || orphan.Request != nil) {
			d.LeaseUntil = orphan.Lease.Until
		}
		if p.plan.leased && orphan.ControlPlane && orphan.Request != nil && !orphan.replaced(p.now) {
			d.ControlPlaneLeaseUntil = p.s.ControlPlane.Lease.Until
		}
		if paused {
			d.History, d.NodeGoneSince = orphan.History, orphan.NodeGoneSince
			continue
		}
		p.cleanUpOrphan(orphan, d)
		if orphan.Request != nil {
			p.renewLease(orphan.Lease, orphan.Request, d)
		}
	}
	return decisions
}

func (p *planner) cleanUpOrphan(orphan *Orphan, d *Decision) {
	r := orphan.Request
	why := NotSelected
	switch {
	// A remediator that had to stop reports a failure, too.
	case orphan.Gone && r != nil && r.Failed && !r.TimedOut:
		why = StepFailed
	case orphan.Gone:
		why = NodeNotFound
	}
	switch {
	case r == nil && orphan.Marked:
		d.Action, d.Why = RemoveConditions, why
	case r == nil:
	case orphan.Gone && p.awaitsNodeDeletion(r, d):
		d.Action = Wait
	// Some remediators only remove their finalizer after the Node is deleted if they are stopped, also if they have succeeded.
	case r.DeletingSince.IsZero() || orphan.Gone && !r.TimedOut:
		if d.Action, d.Why = Withdraw, why; !d.Until.IsZero() {
			// The Node was awaited until the end of the step.
			d.Why = StepTimedOut
		}
	default:
		d.Action = Wait
	}
}

// restoreTime is how long a step without a timeout may keep its Node deleted.
const restoreTime = time.Hour

// awaitsNodeDeletion reports whether the remediator has deleted the Node, and has not finished. No remediator restores a Machine.
func (p *planner) awaitsNodeDeletion(r *Request, d *Decision) bool {
	step, found := requestStep(p.policy.Steps, r.Step)
	if !found || p.policy.ReportsHealth || !r.NodeDeletionExpected || r.Succeeded || r.Failed || r.TimedOut || !r.DeletingSince.IsZero() ||
		p.s.Check.Deleting || p.policy.Observe || p.s.Check.Cluster == ClusterIsMissing {
		return false
	}
	step.Timeout = cmp.Or(step.Timeout, restoreTime)
	d.Until = p.ends(r, &step)
	return p.now.Before(d.Until)
}
