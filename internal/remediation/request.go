// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

const (
	// RecoveryNotConfirmed means: the target is healthy again, and a person has to confirm it.
	RecoveryNotConfirmed Reason = "RecoveryNotConfirmed"
	// PreviousStepNotReleased means: a finalizer keeps the request of the previous step.
	PreviousStepNotReleased Reason = "PreviousStepNotReleased"
)

// ReleaseTimeout is how long the deletion of a request may take before that is reported.
const ReleaseTimeout = 5 * time.Minute

const (
	// DefaultStepTime is how long the Lease of the Node is held for a step without a timeout.
	DefaultStepTime = 10 * time.Minute
	// LeaseMargin is added to every timeout, and to the time of Leases of other holders.
	LeaseMargin = time.Minute
)

// continueRequest decides about the request of a target.
func (p *planner) continueRequest(t *Target, v *health.Verdict, d *Decision) {
	r := t.Request
	switch {
	case !r.DeletingSince.IsZero():
		p.awaitRelease(r, v, d)
	case v.Recovered():
		p.awaitRecovery(t, d)
	default:
		p.awaitRemediator(t, v, d)
	}
	// A remediator that has succeeded no longer needs the Lease.
	if d.Action == Wait || d.Block.Reason != "" && d.Block.Reason != AnnotationNotRemoved {
		p.renewLease(t.Lease, d)
	}
}

// awaitRemediator waits for a remediator until the timeout of its step.
func (p *planner) awaitRemediator(t *Target, v *health.Verdict, d *Decision) {
	r := t.Request
	if v.Kind == health.Unhealthy || v.Kind == health.Suspect {
		d.HealthySince = time.Time{}
	}
	step, found := requestStep(p.policy.Steps, r.Step)
	ends := p.ends(r, &step, t.UnpausedAt)
	switch {
	case r.Succeeded && onlyAskedFor(v):
		d.Block = Block{Reason: AnnotationNotRemoved, Details: Details{Cause: r.Step.Template}}
	case !found:
		d.Action, d.Why = Withdraw, StepChanged
	// The target may be healthy, so no step is given up.
	case v.Kind == health.Suspect, !d.HealthySince.IsZero():
		d.Action = Wait
	// The manager was stopped while it gave the step up, or withdrew the request. The remediation history shows which.
	case r.TimedOut && givenUp(&d.History, r):
		d.Action, d.Why = GiveUp, StepTimedOut
	case r.TimedOut:
		d.Action, d.Why = Withdraw, NotSelected
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
		d.History = afterGivingUp(d.History, r, p.policy, p.now)
	}
}

// ends is when a step times out. The time before the last pause ended does not count.
func (p *planner) ends(r *Request, step *Step, pauseEnds ...time.Time) time.Time {
	began := r.Started
	for _, pauseEnd := range append(pauseEnds, p.s.Check.UnpausedAt) {
		// A time in the future is from a clock that was ahead.
		if !pauseEnd.After(p.now) {
			began = health.Latest(began, pauseEnd)
		}
	}
	return began.Add(step.Timeout)
}

// awaitRecovery decides when the request of a target that is healthy again is withdrawn.
func (p *planner) awaitRecovery(t *Target, d *Decision) {
	d.HealthySince = recordedTime(t.Request.HealthySince, p.now)
	over := d.HealthySince.Add(p.policy.HealthyDelay)
	switch {
	// A confirmation ends the wait.
	case t.Confirmed:
	case p.policy.RecoveryConfirmed:
		d.Block = Block{Reason: RecoveryNotConfirmed, Details: Details{Since: d.HealthySince}}
		return
	case p.now.Before(over):
		d.Action, d.Until = Wait, over
		return
	}
	// The annotation is not written to a request that is deleted anyway.
	d.Action, d.Why, d.HealthySince, d.History = Withdraw, Recovered, t.Request.HealthySince, History{}
}

// awaitRelease waits for the deletion of a request. Finalizers of remediators are never removed.
func (p *planner) awaitRelease(r *Request, v *health.Verdict, d *Decision) {
	if v.Recovered() {
		// The manager may have been stopped after the deletion.
		d.History = History{}
	}
	late := r.DeletingSince.Add(ReleaseTimeout)
	if v.Kind == health.Unhealthy && !p.now.Before(late) {
		d.Block = Block{Reason: PreviousStepNotReleased, Details: Details{Since: r.DeletingSince}}
		return
	}
	d.Action, d.Until = Wait, late
}

// reportKept records a request that a finalizer keeps. It can block others, also if its own target no longer needs it.
func (p *planner) reportKept(name string, r *Request) {
	if r == nil || r.DeletingSince.IsZero() || p.s.Check.Paused {
		return
	}
	late := r.DeletingSince.Add(ReleaseTimeout)
	if p.wakeAt(late); !p.now.Before(late) {
		p.plan.Kept = append(p.plan.Kept, name)
	}
}

// leaseTime is how long the Lease of the Node is held for a step.
func (p *planner) leaseTime(id StepID) time.Duration {
	if step, found := requestStep(p.policy.Steps, id); found && step.Timeout > 0 {
		return step.Timeout + LeaseMargin
	}
	return DefaultStepTime + LeaseMargin
}

// keepsControlPlaneLease records that the Lease of the control plane is held for a decision.
func (p *planner) keepsControlPlaneLease(d *Decision) {
	if !d.ControlPlaneLeaseUntil.IsZero() && !d.Starts() && !p.s.Check.Paused {
		p.leaseholders = append(p.leaseholders, d)
	}
}

// renewControlPlaneLease renews the Lease of the control plane as that of a Node, for the longest of the steps.
func (p *planner) renewControlPlaneLease() {
	if len(p.leaseholders) == 0 {
		return
	}
	var lasting time.Duration
	for _, d := range p.leaseholders {
		lasting = max(lasting, p.leaseTime(d.Step))
	}
	until := p.s.ControlPlane.Lease.Until
	if !p.now.Before(until.Add(-lasting / 2)) {
		until = p.now.Add(lasting)
		for _, d := range p.leaseholders {
			d.ControlPlaneLeaseUntil, d.RenewsControlPlaneLease = until, true
		}
	}
	p.wakeAt(until.Add(-lasting / 2))
}

// renewLease renews the Lease of the Node after half of its time, so that nothing is written more often. If another component holds the
// Lease, the remediator goes on without it. A Lease without a holder is acquired again.
func (p *planner) renewLease(lease Lease, d *Decision) {
	lost := lease.Holder == ""
	if !lease.Used || !lease.HeldByThis && !lost {
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
