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

// announceTime is how long before owner remediation is requested the annotation for it is written. Cluster API reconciles an owner at most once a
// second, and the annotation is a change of its Machine: written with the condition, it would cost the owner that second.
const announceTime = 1500 * time.Millisecond

// announces reports whether a suspect is about to become unhealthy, and its owner the next to remediate it.
func (p *planner) announces(t *Target, v *health.Verdict) bool {
	_, unwanted := p.unwanted(t, v)
	nothingBegun := t.Request == nil && t.OwnerRemediation.Since.IsZero() && t.DeletingSince.IsZero()
	if !p.policy.ReportsHealth || v.Kind != health.Suspect || v.Until.IsZero() || unwanted || !nothingBegun || t.Owner == "" {
		return false
	}
	step, _ := NextStep(StepsFor(p.policy.Steps, v), t.History.Tried)
	if !step.Owner {
		return false
	}
	at := v.Until.Add(-announceTime)
	p.wakeAt(at)
	return !p.now.Before(at)
}

// ownerNext reports whether the next remediation of a target is that of its owner although it has a request: the request is being deleted, and
// its remediator keeps it. A Machine that no remediator can fix has to be replaced.
func (p *planner) ownerNext(t *Target, v *health.Verdict) bool {
	_, unwanted := p.unwanted(t, v)
	asked := t.OwnerRemediation.Requested && !t.OwnerRemediation.Refused
	switch {
	case t.Request == nil || t.Request.DeletingSince.IsZero():
		return false
	// A pause changes nothing: neither what is in progress, nor the places of maxInFlight.
	case unwanted && v.Reason != health.Paused:
		return false
	case t.handedOver(v), asked && !t.OwnerRemediation.RequestedByThis && t.Owner != "" && !v.Recovered():
		return true
	case !released(t.Request, p.now):
		return false
	}
	_, found := p.ownerStep(t, v)
	return asked || v.Kind == health.Unhealthy && found
}

// ownerStep is the next step of a target, if that is, or can be, owner remediation.
func (p *planner) ownerStep(t *Target, v *health.Verdict) (Step, bool) {
	tried := t.History.Tried
	if p.keptUntried(t) {
		tried = t.Request.Step
	}
	for _, step := range p.possibleSteps(v, tried) {
		if step.Owner {
			return step, true
		}
	}
	return Step{}, false
}

// possibleSteps are the next step of a target that is unhealthy; and of another one those that can be the next.
func (p *planner) possibleSteps(v *health.Verdict, tried StepID) []Step {
	if v.Kind != health.Unhealthy {
		return PossibleSteps(p.policy.Steps, tried)
	}
	if step, found := NextStep(StepsFor(p.policy.Steps, v), tried); found {
		return []Step{step}
	}
	return nil
}

// keptUntried reports whether a remediator keeps a request that was not given up: a person has deleted it, or the target has recovered only
// for a moment. Its step was tried all the same.
func (p *planner) keptUntried(t *Target) bool {
	return t.Request != nil && released(t.Request, p.now) && !givenUp(&t.History, t.Request)
}

// released reports whether a deleted request no longer delays the owner, and takes no place.
func released(r *Request, now time.Time) bool {
	return !r.DeletingSince.IsZero() && !now.Before(r.DeletingSince.Add(ReleaseTimeout))
}

// replaced reports whether a remediator keeps the request of a target that no longer exists: it takes no place, and delays no other target.
func (o *Orphan) replaced(now time.Time) bool {
	return o.Gone && o.Request != nil && released(o.Request, now)
}

// handedOver reports whether a remediator requests owner remediation where owners do not read it. Without that of the remediator, an earlier
// request would be meant, which nothing has removed. A failed attempt is forgotten when the target recovers, and so is the hand-over.
func (t *Target) handedOver(v *health.Verdict) bool {
	since := t.OwnerRemediation.HandedOverAt
	return v.Kind == health.Unhealthy && !since.IsZero() && t.Owner != "" && (!since.Before(v.Since) || t.History != (History{}))
}

// awaitOwner decides about a target that its owner remediates, and that is not known to be healthy.
func (p *planner) awaitOwner(t *Target, v *health.Verdict, d *Decision) {
	step, found := p.ownerStep(t, v)
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
