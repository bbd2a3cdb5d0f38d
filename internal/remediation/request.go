// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"maps"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

const (
	// RecoveryNotConfirmed means: the target is healthy again, and a person has to confirm it.
	RecoveryNotConfirmed Reason = "RecoveryNotConfirmed"
	// PreviousStepNotReleased means: a finalizer keeps the request of the previous step.
	PreviousStepNotReleased Reason = "PreviousStepNotReleased"
)

const (
	// ReleaseTimeout is how long the deletion of a request may take before that is reported.
	ReleaseTimeout = 5 * time.Minute
	// ActingTimeout is how long a remediator may take until it writes to a request, before that is reported.
	ActingTimeout = 10 * time.Minute
)

const (
	// DefaultStepTime is how long the Lease of the Node is acquired for at a time, for a step without a timeout.
	DefaultStepTime = 10 * time.Minute
	// LongestLease is how long the Lease of the Node is renewed for a step without a timeout.
	LongestLease = 24 * time.Hour
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
		p.renewLease(t.Lease, r, d, t.UnpausedAt)
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
	// A clock that is ahead ends no step that has time left.
	case step.Timeout > 0 && !p.now.Before(ends) && p.s.Check.Skewed():
		d.Action = Wait
		p.wakeAt(p.now.Add(RetryTime))
	case step.Timeout > 0 && !p.now.Before(ends):
		d.Action, d.Why = GiveUp, StepTimedOut
	default:
		d.Action = Wait
		if step.Timeout > 0 {
			d.Until = ends
		}
	}
	if d.Action == GiveUp {
		d.History = afterGivingUp(d.History, r, v, p.policy, p.now)
	}
}

// ends is when a step times out. The time before the last pause ended does not count.
func (p *planner) ends(r *Request, step *Step, pauseEnds ...time.Time) time.Time {
	return p.began(r, pauseEnds...).Add(step.Timeout)
}

// began is since when the time of a request counts: since its start, or since the last pause ended.
func (p *planner) began(r *Request, pauseEnds ...time.Time) time.Time {
	began := r.Started
	for _, pauseEnd := range append(pauseEnds, p.s.Check.UnpausedAt) {
		// A time in the future is from a clock that was ahead.
		if !pauseEnd.After(p.now) {
			began = health.Latest(began, pauseEnd)
		}
	}
	return began
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

// reportRequest records a request that a finalizer keeps, which can block others, also if its own target no longer needs it; and one to
// which its remediator has written nothing although the target needs it: it may not be installed, or may have crashed.
func (p *planner) reportRequest(name string, r *Request, pauseEnds ...time.Time) {
	switch {
	case r == nil || p.s.Check.Paused:
	case !r.DeletingSince.IsZero():
		p.reportAt(r.DeletingSince.Add(ReleaseTimeout), name, &p.plan.Kept)
	case !r.Acted && r.HealthySince.IsZero():
		p.reportAt(p.began(r, pauseEnds...).Add(ActingTimeout), name, &p.plan.NotActing)
	}
}

// reportAt adds a name to a list from a time on.
func (p *planner) reportAt(late time.Time, name string, list *[]string) {
	if p.wakeAt(late); !p.now.Before(late) {
		*list = append(*list, name)
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

// leaseEnd is until when the Lease of the Node is renewed for a request: a remediator that never finishes does not keep others from the Node.
func (p *planner) leaseEnd(r *Request, pauseEnds ...time.Time) time.Time {
	step, found := requestStep(p.policy.Steps, r.Step)
	if !found || step.Timeout == 0 {
		step.Timeout = LongestLease
	}
	return p.ends(r, &step, pauseEnds...).Add(LeaseMargin)
}

// renewLease renews the Lease of the Node after half of its time, so that nothing is written more often. If another component holds the
// Lease, the remediator goes on without it. A Lease without a holder is acquired again. After its end, it is released.
func (p *planner) renewLease(lease Lease, r *Request, d *Decision, pauseEnds ...time.Time) {
	lost := lease.Holder == ""
	if !lease.Used || !lease.HeldByThis && !lost {
		return
	}
	end := p.leaseEnd(r, pauseEnds...)
	if d.Block.Reason == RecoveryNotConfirmed {
		// The remediator has acted, and no other component may until a person has confirmed it.
		end = d.HealthySince.Add(LongestLease)
	}
	if !p.now.Before(end) {
		d.LeaseUntil, d.LeaseEnd = time.Time{}, end
		return
	}
	lasting := p.leaseTime(d.Step)
	due := lease.Until.Add(-lasting / 2)
	if lost || !p.now.Before(due) {
		d.LeaseUntil = p.now.Add(lasting)
		due = d.LeaseUntil.Add(-lasting / 2)
	}
	d.RenewAt = health.Earliest(due, end)
}

// UnreadTime is how long a cache may take to show a write of the manager.
const UnreadTime = time.Minute

// RequestMemory remembers the requests of the targets of a check. It finds out which requests other clients have deleted: otherwise, the
// manager would create one after the other. A restart loses it.
type RequestMemory struct {
	targets map[string]*rememberedRequest
}

// rememberedRequest is the last request of a target.
type rememberedRequest struct {
	request Request
	// exists: it was read or created, and was not missing since. ended: the manager has deleted it, or has tried to.
	exists, ended bool
	// createdAt is when the manager has created it; zero once it was read.
	createdAt time.Time
	// deleted is how many requests of the target other clients have deleted since it was healthy.
	deleted int
}

// DeletedRequests are the requests of a target that other clients have deleted since it was healthy.
type DeletedRequests struct {
	Times int
	// Last is the last request of the target, if it is one of them.
	Last *Request
	// Unread: the last request is not shown, by a cache that may be behind or cannot be read. It exists, or is one of them.
	Unread bool
}

// Empty reports whether it remembers no request.
func (m *RequestMemory) Empty() bool { return len(m.targets) == 0 }

// Created records a request that the manager has created.
func (m *RequestMemory) Created(target string, step StepID, attempt int, now time.Time) {
	known := m.of(target)
	known.request, known.exists, known.ended, known.createdAt = Request{Step: step, Attempt: attempt}, true, false, now
}

// Ended records that the manager deletes the request of a target.
func (m *RequestMemory) Ended(target string) {
	if known := m.targets[target]; known != nil {
		known.ended = true
	}
}

// Recovered forgets what was deleted: the target is healthy.
func (m *RequestMemory) Recovered(target string) {
	if known := m.targets[target]; known != nil && known.exists {
		known.deleted = 0
	} else {
		delete(m.targets, target)
	}
}

// Read records the request of a target as it was read, nil for none, and returns what other clients have deleted. It completes what they
// have removed from the request.
func (m *RequestMemory) Read(target string, request *Request, now time.Time) DeletedRequests {
	known := m.targets[target]
	if request != nil && known != nil {
		known.complete(request)
		known.createdAt = time.Time{}
	}
	switch {
	case request != nil && known == nil:
		known = m.of(target)
		// An earlier process may have deleted it.
		known.request, known.exists, known.ended = *request, true, !request.DeletingSince.IsZero()
	case request != nil:
		// Another process may have created another one, or may have ended it.
		same := request.Step == known.request.Step && request.Attempt == known.request.Attempt
		known.ended = known.ended && same || request.TimedOut
		known.request, known.exists = *request, true
	case known == nil:
		return DeletedRequests{}
	case known.exists && !known.ended && now.Before(known.createdAt.Add(UnreadTime)):
		return DeletedRequests{Times: known.deleted, Unread: true}
	case known.exists:
		if known.exists = false; !known.ended {
			known.deleted++
		}
	}
	return known.deletedRequests()
}

// Unread returns what other clients have deleted, if the request of a target may exist, and cannot be read.
func (m *RequestMemory) Unread(target string) DeletedRequests {
	switch known := m.targets[target]; {
	case known == nil:
		return DeletedRequests{}
	case known.exists && !known.ended:
		return DeletedRequests{Times: known.deleted, Unread: true}
	default:
		return known.deletedRequests()
	}
}

// complete restores the step and the attempt of a request: they never change, but another client may have removed their annotations.
func (r *rememberedRequest) complete(request *Request) {
	created := r.request.UID == "" && !r.createdAt.IsZero() && request.Step.Order < 0
	if r.exists && r.request.Step.Order >= 0 && (created || r.request.UID != "" && request.UID == r.request.UID) {
		request.Step, request.Attempt = r.request.Step, r.request.Attempt
	}
}

func (r *rememberedRequest) deletedRequests() DeletedRequests {
	deleted := DeletedRequests{Times: r.deleted}
	if !r.exists && !r.ended {
		last := r.request
		deleted.Last = &last
	}
	return deleted
}

// Keep forgets the targets that are not there any more.
func (m *RequestMemory) Keep(has func(target string) bool) {
	maps.DeleteFunc(m.targets, func(target string, _ *rememberedRequest) bool { return !has(target) })
}

func (m *RequestMemory) of(target string) *rememberedRequest {
	if m.targets == nil {
		m.targets = map[string]*rememberedRequest{}
	}
	if m.targets[target] == nil {
		m.targets[target] = &rememberedRequest{}
	}
	return m.targets[target]
}
