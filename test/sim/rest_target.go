// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// resting is a target when no actor has anything to do for now.
type resting struct {
	*start
	last    *Pass
	t       *remediation.Target
	d       *remediation.Decision
	request *Request
}

// auditTargetAtRest: everything that is due has been done, and who is not helped has a reason that is true.
func (w *World) auditTargetAtRest(c *Check, last *Pass, i int) {
	t, d := &last.Situation.Targets[i], &last.Plan.Decisions[i]
	r := &run{w: w, name: c.Name, check: c, view: w.API, conn: w.Conn}
	w.log.sight = true
	x := &resting{start: w.start(r, c, t.Name, d.Step, w.live()), last: last, t: t, d: d}
	w.log.sight = false
	if x.m == nil && x.n == nil || !c.ForNodes && (x.m == nil || x.m.Paused) {
		return
	}
	x.step = d.Step
	for _, request := range w.API.Requests {
		if request.Check == c.Name && request.TargetUID == w.API.uidOf(c, t.Name) {
			x.request = request
		}
	}
	if gone := x.m != nil && !c.ForNodes && x.m.Node != "" && x.n == nil && w.Conn.Up; gone && w.log.seenGone[trying{c.Name, x.m.Body}].IsZero() {
		w.log.seenGone[trying{c.Name, x.m.Body}] = w.Now
	}
	if w.lets(w.API, c, t.Name) || x.judged.health == skipped {
		if x.unwanted(); x.m != nil {
			delete(w.log.seenGone, trying{c.Name, x.m.Body})
		}
		return
	}
	x.lease()
	switch x.judged.health { //nolint:exhaustive // of the others nothing is expected
	case ill:
		x.ill()
	case well:
		x.well()
	}
	if x.m != nil && x.m.Owner == Waiting && x.m.Unhealthy && x.m.Author == c.Name && x.judged.health != well && !c.ForNodes {
		w.must(x.request != nil && !x.kept() || !w.mayCancel(c, t.Name, w.API), "an owner remediation without an actor is canceled", "that of %s", t.Name)
	}
	if x.request == nil && x.n != nil && w.Conn.Up && (c.ForNodes || x.m != nil) && c.Policy.CreatesRequests() {
		w.must(!x.n.Confirmed, "a confirmation is used up", "that of %s", x.n.Name)
	}
}

// unwanted: what is not wanted is removed.
func (x *resting) unwanted() {
	w := x.w
	if x.request != nil {
		w.must(!x.request.DeletingSince.IsZero(), "what is not wanted goes", "the request of %s for %s", x.c.Name, x.target)
		if asked := x.m != nil && x.m.Owner != "" && x.m.MarkedSince.Equal(x.m.AskedOwnerAt); !x.kept() || !asked {
			return
		}
	}
	if x.m != nil && !x.c.ForNodes {
		w.must(x.m.Author != x.c.Name, "what is not wanted goes", "the marks of %s on %s", x.c.Name, x.target)
	}
}

// kept: a remediator keeps its request.
func (x *resting) kept() bool { return x.request != nil && kept(&x.request.Request, x.w.Now) }

// ownersTurn: its owner is to remediate it now, although it may have a request.
func (x *resting) ownersTurn() bool { return x.w.ownersTurn(x.w.API, x.c, x.target, x.judged.health) }

// lease: as long as a check works on a Node it holds its Lease, and not a moment longer.
func (x *resting) lease() {
	if !x.c.ForNodes || x.n == nil || !x.w.Conn.Up {
		return
	}
	if x.request == nil {
		x.w.must(x.n.Holder != x.c.Name, "I3 who has finished gives the Lease back", "%s on %s", x.c.Name, x.target)
		return
	}
	step, _ := x.c.stepOf(x.request.Step)
	if step.Timeout == 0 {
		step.Timeout = 24 * time.Hour
	}
	ends := began(x.c, &x.request.Request, x.t.UnpausedAt).Add(step.Timeout + time.Minute)
	if x.c.Policy.RecoveryConfirmed && x.judged.health == well && x.request.DeletingSince.IsZero() {
		// No other component works on the Node until a person has confirmed its recovery.
		ends = x.request.HealthySince.Add(24 * time.Hour)
	}
	if !x.w.Now.Before(ends) {
		x.w.must(x.n.Holder != x.c.Name, "I3 who has finished gives the Lease back", "%s on %s after the step", x.c.Name, x.target)
		return
	}
	if !x.w.log.foreign[x.target] {
		x.w.must(x.n.Holder == x.c.Name && x.n.BlockedUntil.After(x.w.Now), "I3 who works on a Node holds its Lease", "%s on %s", x.c.Name, x.target)
	}
}

// ill: an unhealthy target is remediated, or there is a true reason why not; and a step ends when it has failed or timed out.
func (x *resting) ill() {
	w, request := x.w, x.request
	if x.d.Block.Reason != "" {
		w.must(x.isTrue(x.d.Block.Reason), "I6 every reason is true", "%s holds %s: %s", x.c.Name, x.target, x.d.Block.Reason)
	} else {
		w.must(request != nil && (!x.kept() || !x.ownersTurn()) || x.m != nil && x.m.Owner != "", "I6 no target is forgotten", "%s has forgotten %s: %+v", x.c.Name, x.target, x.last.verdict(x.target))
	}
	if request == nil || x.judged.asked && request.Succeeded {
		return
	}
	if _, named := x.c.stepOf(request.Step); !named {
		w.must(!request.DeletingSince.IsZero(), "a step that is not named goes", "%s for %s", request.Kind, x.target)
		return
	}
	if request.Failed || overdue(x.c, &request.Request, x.t.UnpausedAt, w.Now) {
		w.must(!request.DeletingSince.IsZero(), "I6 a step ends when its time is over", "%s for %s", request.Kind, x.target)
	}
}

// well: who is well is rid of its request in due time, and nothing is remembered of its troubles.
func (x *resting) well() {
	w, request := x.w, x.request
	if request == nil {
		var history *remediation.History
		if history = &x.n.History; !x.c.ForNodes {
			history = &x.m.History
		}
		if !w.log.failed[w.API.body(x.c, x.target)].IsZero() {
			w.premise("who is well has no past")
		}
		if *history != (remediation.History{}) {
			w.must(false, "who is well has no past", "%s", x.target)
		}
		return
	}
	since := w.log.recovered[request.Serial]
	if told := w.log.healthyRecorded[request.Serial]; told.After(since) {
		since = told
	}
	late := !x.c.Policy.RecoveryConfirmed && !since.IsZero() && !w.Now.Before(since.Add(x.c.Policy.HealthyDelay))
	if late || x.readable() && x.n.Confirmed {
		w.must(!request.DeletingSince.IsZero(), "I6 a request goes when its target is well", "%s for %s", request.Kind, x.target)
	}
}

// isTrue reports whether a reason that a check reports is true.
func (x *resting) isTrue(reason remediation.Reason) bool {
	w := x.w
	switch reason { //nolint:exhaustive // the others are what the blockers are about
	case remediation.PreviousStepNotReleased:
		return x.kept() && !x.ownersTurn()
	case remediation.NoRemediatingOwner:
		return x.m != nil && x.m.Orphan
	case remediation.OwnerNotActing:
		return x.m != nil && x.m.Owner != "" && !w.Now.Before(x.m.MarkedSince.Add(30*time.Minute))
	case remediation.AnnotationNotRemoved:
		body := w.API.body(x.c, x.target)
		return x.judged.asked && (x.request != nil && x.request.Succeeded || !w.log.failed[body].IsZero() || w.log.vague[body])
	case remediation.InBackoff, remediation.EscalationExhausted:
		body := w.API.body(x.c, x.target)
		return w.log.vague[body] || w.Now.Before(w.log.failed[body].Add(longestWait))
	case remediation.ControlPlaneBusy:
		for _, m := range w.API.Machines {
			if m.ControlPlane && m != x.m && m.Owner != "" && m.Owner != Refused {
				return true
			}
		}
	case remediation.MaxInFlight:
		// Its owner may have replaced one deleted Machine, and not another.
		missing := max(0, w.API.Workers-withNode(w.API))
		// The same applies to a Machine just before owner remediation: a check remembers more than it has done, and never less.
		return missing > 0 || len(x.c.Replacing) > 0 || w.inFlight(x.c, x.target) >= max(1, share(x.c.Policy.MaxInFlight, w.limits(x.r).expected, 99))
	}
	for i := range blockers {
		if b := &blockers[i]; slices.Contains(b.reasons, reason) && b.blocks(x.start) {
			return true
		}
	}
	return false
}
