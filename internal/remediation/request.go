// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// lookAtRequest decides what becomes of the request that there is for a target.
func (p *pass) lookAtRequest(t *Target, v *health.Verdict, d *Decision) {
	r := t.Request
	switch {
	case !r.DeletingSince.IsZero():
		p.awaitRelease(r, v, d)
	case v.Recovered():
		p.awaitRecovery(t, d)
	default:
		p.awaitRemediator(t, v, d)
	}
	// Who is done with its work does not keep others from theirs.
	if d.Action == Wait || d.Hold.Reason != "" && d.Hold.Reason != AnnotationNotRemoved {
		p.renewLease(t.Lease, d)
	}
}

// awaitRemediator waits for a remediator to finish, as long as its step may take.
func (p *pass) awaitRemediator(t *Target, v *health.Verdict, d *Decision) {
	r := t.Request
	if v.Kind == health.Unhealthy || v.Kind == health.Suspect {
		// It has been healthy in between, perhaps. The next recovery counts anew.
		d.HealthySince = time.Time{}
	}
	step, found := named(p.policy.Steps, r.Step)
	ends := p.ends(r, &step, t.ThawedAt)
	switch {
	case r.Succeeded && onlyAskedFor(v):
		d.Hold = Hold{Reason: AnnotationNotRemoved, Seen: Seen{Who: r.Step.Template}}
	case !found:
		d.Action, d.Why = Withdraw, StepChanged
	// It has recovered, as far as anybody knew, or it may be about to: nothing is given up on a doubt.
	case v.Kind == health.Suspect, !d.HealthySince.IsZero():
		d.Action = Wait
	// Told to stop already: we were interrupted half-way, in giving it up or in withdrawing it. Only the ledger knows which.
	case r.TimedOut && givenUp(&d.Ledger, r):
		d.Action, d.Why = GiveUp, StepTimedOut
	case r.TimedOut:
		d.Action, d.Why = Withdraw, NotLookedAfter
	case r.Failed:
		d.Action, d.Why = GiveUp, StepFailed
	case step.Timeout > 0 && !p.now.Before(ends):
		d.Action, d.Why = GiveUp, StepTimedOut
	default:
		d.Action = Wait
		if step.Timeout > 0 {
			d.Until = ends
		}
	}
	if d.Action == GiveUp {
		d.Ledger = afterGivingUp(d.Ledger, r, p.policy, p.now)
	}
}

// ends is when a step has taken too long. The time during which nobody was allowed to do anything does not count.
func (p *pass) ends(r *Request, step *Step, thaws ...time.Time) time.Time {
	began := r.Started
	for _, thawed := range append(thaws, p.s.Check.ThawedAt) {
		// A thaw that is still to come is one by a clock that was ahead.
		if !thawed.After(p.now) {
			began = latest(began, thawed)
		}
	}
	return began.Add(step.Timeout)
}

// ReleaseTime is how long the request of the step before may take to go until somebody is told.
const ReleaseTime = 5 * time.Minute

// awaitRelease waits for a request to be gone. We never remove the finalizer of somebody else.
func (p *pass) awaitRelease(r *Request, v *health.Verdict, d *Decision) {
	if v.Recovered() {
		// Whoever was stopped after the deletion makes up for it: who is well has nothing to be remembered.
		d.Ledger = Ledger{}
	}
	late := r.DeletingSince.Add(ReleaseTime)
	if v.Kind == health.Unhealthy && !p.now.Before(late) {
		d.Hold = Hold{Reason: PreviousStepNotReleased, Seen: Seen{Since: r.DeletingSince}}
		return
	}
	d.Action, d.Until = Wait, late
}

// PreviousStepNotReleased means: the request of the step before is still there, as a finalizer keeps it.
const PreviousStepNotReleased Reason = "PreviousStepNotReleased"

// DefaultStepTime is how long a step without a timeout is expected to take, where somebody else has to be told. LeaseMargin is added to it.
const (
	DefaultStepTime = 10 * time.Minute
	LeaseMargin     = time.Minute
)

// leaseTime is how long a Lease is taken for.
func (p *pass) leaseTime(id StepID) time.Duration {
	if step, found := named(p.policy.Steps, id); found && step.Timeout > 0 {
		return step.Timeout + LeaseMargin
	}
	return DefaultStepTime + LeaseMargin
}

// renewLease keeps our Lease of the Node from running out. It is renewed at half of its time, so that an unchanged world is left alone meanwhile.
// A Lease that somebody else has taken is theirs: the remediator is at work already, and goes on. One that nobody has is taken once more: it was
// lost, or given back by somebody who did not know what has begun since.
func (p *pass) renewLease(lease Lease, d *Decision) {
	lost := lease.Holder == ""
	if !lease.Used || !lease.Ours && !lost {
		return
	}
	lasting := p.leaseTime(d.Step)
	due := lease.Until.Add(-lasting / 2)
	if lost || !p.now.Before(due) {
		d.LeaseUntil = p.now.Add(lasting)
		due = d.LeaseUntil.Add(-lasting / 2)
	}
	d.RenewAt = due
}
