// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// auditAct compares a decision with the truth at the preflight check. The controller cannot read what happens between the preflight check
// and the write; the audit of the write finds what must never happen.
func (r *run) auditAct(t *remediation.Target, d *remediation.Decision) {
	w := r.w
	if d.Action == remediation.CancelOwnerRemediation || d.Action == remediation.RemoveConditions {
		w.records.cancels(r.name, t.Name, r.old)
	}
	c := w.API.Checks[r.name]
	if c == nil {
		return
	}
	w.disturbed = r.disturbed()
	defer func() { w.disturbed = false }()
	if d.Action == remediation.StartRequest || d.Action == remediation.RequestOwnerRemediation && !t.OwnerRemediation.Requested {
		w.auditStart(r, c, t, d)
	}
	if w.log == nil {
		return
	}
	if t.History != (remediation.History{}) && d.History == (remediation.History{}) {
		w.must(w.forgets(r.view, r.check, t.Name, r.conn), "nothing is forgotten too early", "%s forgets what it has tried with %s", r.name, t.Name)
		w.log.of(r.name, r.view.body(r.check, t.Name)).forget()
	}
	if d.Action != remediation.GiveUp && d.History.Failures > t.History.Failures {
		// What was to come after a step is not named, by this check.
		w.log.vague[r.view.body(r.check, t.Name)] = true
	}
	switch d.Action { //nolint:exhaustive // the others end nothing
	case remediation.StartRequest:
		w.noteMade(r.name, r.view.body(r.check, t.Name))
	case remediation.GiveUp:
		r.auditGivingUp(t, d)
	case remediation.Withdraw:
		r.auditWithdrawal(t, d)
	case remediation.CancelOwnerRemediation:
		w.must(w.mayCancel(r.check, t.Name, r.view), "no owner remediation is canceled without need", "%s cancels that of %s (%s)", r.name, t.Name, d.Why)
	case remediation.RemoveConditions:
		w.must(r.skips(t) || w.lets(r.view, r.check, t.Name), "no mark is cleared without need", "%s clears those of %s (%s)", r.name, t.Name, d.Why)
	}
}

// auditStart holds every start against all reasons not to.
func (w *World) auditStart(r *run, c *Check, t *remediation.Target, d *remediation.Decision) {
	x := w.start(r, c, t.Name, d.Step, w.live())
	if x.request = d.Action == remediation.StartRequest; x.request && len(x.tries.steps) > 0 {
		w.premise("I8 no step twice in an attempt")
	}
	w.must(x.judged.health == ill, "I1 only unhealthy targets", "%s acts on %s", c.Name, t.Name)
	for i := range blockers {
		b := &blockers[i]
		if (x.request && b.requests || !x.request && b.marks) && b.blocks(x) {
			w.must(false, b.invariant, "%s acts on %s with %v", c.Name, t.Name, d.Step)
		}
	}
}

// countPremises counts the reasons to start nothing, for targets that would be remediated.
func (w *World) countPremises(r *run) {
	c := w.API.Checks[r.name]
	if c == nil || len(r.pass.Plan.Decisions) == 0 {
		return
	}
	for i := range r.pass.Situation.Targets {
		t, d := &r.pass.Situation.Targets[i], &r.pass.Plan.Decisions[i]
		m, n := w.API.pair(c, t.Name)
		if m == nil && n == nil || t.Request != nil || t.OwnerRemediation.Requested && !t.OwnerRemediation.Refused {
			continue
		}
		switch w.judge(w.API, w.Conn, c, m, n).health { //nolint:exhaustive // of the others nothing is expected
		case soon, unknown:
			w.premise("I1 only unhealthy targets")
			continue
		case ill:
		default:
			continue
		}
		x := w.start(r, c, t.Name, d.Step, w.Conn)
		for i := range blockers {
			b := &blockers[i]
			if (x.request && b.requests || !x.request && b.marks) && b.blocks(x) {
				w.premise(b.invariant)
			}
		}
	}
}

// skips: a person wants it to be left alone, for good.
func (r *run) skips(t *remediation.Target) bool {
	m := r.view.Machines[t.Name]
	return !r.check.ForNodes && m != nil && m.Skip && !m.Paused
}

// stepOf is a step of a check that creates a request.
func (c *Check) stepOf(id remediation.StepID) (remediation.Step, bool) {
	for _, step := range c.Policy.Steps {
		if step.ID == id && !step.Owner {
			return step, true
		}
	}
	return remediation.Step{}, false
}

// overdue reports whether a step has timed out by then. A pause extends it.
func overdue(c *Check, request *remediation.Request, thawed, now time.Time) bool {
	step, found := c.stepOf(request.Step)
	return found && step.Timeout > 0 && !now.Before(began(c, request, thawed).Add(step.Timeout))
}

// mayRestore reports whether a remediator that has deleted the Node has time to restore it: until the end of its step, or an hour. No
// remediator restores a Machine.
func mayRestore(c *Check, request *remediation.Request, now time.Time) bool {
	step, found := c.stepOf(request.Step)
	return found && c.ForNodes && now.Before(began(c, request, time.Time{}).Add(cmp.Or(step.Timeout, time.Hour)))
}

// began is since when the time of a request counts: since its start, or the last pause.
func began(c *Check, request *remediation.Request, thawed time.Time) time.Time {
	began := request.Started
	for _, t := range []time.Time{c.ThawedAt, thawed} {
		if t.After(began) {
			began = t
		}
	}
	return began
}

// auditGivingUp: a step is given up when it has failed or taken too long, and neither before nor when all is well.
func (r *run) auditGivingUp(t *remediation.Target, d *remediation.Decision) {
	w := r.w
	live := w.API.Requests[t.Request.Step.Template+"/"+t.Name]
	if live == nil {
		return
	}
	w.noteGivingUp(live)
	x := w.start(r, r.check, t.Name, t.Request.Step, w.live())
	w.must(x.judged.health != well, "no healthy target is given up", "%s gives up %s (%s)", r.name, t.Name, d.Why)
	if t.Request.TimedOut {
		return
	}
	late := overdue(r.check, t.Request, t.UnpausedAt, w.Now)
	w.must(t.Request.Failed || late, "I9 no step is given up before its time", "%s gives up %s (%s)", r.name, t.Name, d.Why)
	m, n := r.view.pair(r.check, t.Name)
	w.must(!t.Request.Succeeded || !w.judge(r.view, r.conn, r.check, m, n).asked, "a wish is granted once", "%s gives up %s (%s)", r.name, t.Name, d.Why)
}

// auditWithdrawal: a request is withdrawn when its target has been healthy for long enough, and a user confirms that where that is required,
// or when it is not wanted any more.
func (r *run) auditWithdrawal(t *remediation.Target, d *remediation.Decision) {
	w := r.w
	live := w.API.Requests[t.Request.Step.Template+"/"+t.Name]
	if live == nil {
		return
	}
	_, named := r.check.stepOf(t.Request.Step)
	if d.Why != remediation.Recovered {
		w.must(t.Request.TimedOut || !named || r.skips(t) || w.lets(r.view, r.check, t.Name), "no request goes without need", "%s withdraws that of %s (%s)", r.name, t.Name, d.Why)
		return
	}
	x := w.start(r, r.check, t.Name, t.Request.Step, w.live())
	w.must(x.judged.health == well, "only the well have recovered", "%s withdraws that of %s", r.name, t.Name)
	if t.Confirmed {
		w.premise("a confirmation counts at once")
		return
	}
	w.must(!r.check.Policy.RecoveryConfirmed, "a person has to confirm", "%s withdraws the request of %s", r.name, t.Name)
	if delay := r.check.Policy.HealthyDelay; delay > 0 {
		since := w.log.recovered[live.Serial]
		w.must(!since.IsZero() && !w.Now.Before(since.Add(delay)), "I9 the healthy delay", "%s withdraws the request of %s, which is well since %v", r.name, t.Name, since)
	}
}

// noteHealth writes down what a pass sees of the targets of its requests: at its beginning who is well, at its end who is not any more.
func (w *World) noteHealth(r *run, end bool) {
	if w.log == nil || r.view.Paused || r.check.Paused || end && (r.old || r.err != nil) {
		return
	}
	for i := range r.pass.Situation.Targets {
		t := &r.pass.Situation.Targets[i]
		if t.Request == nil {
			continue
		}
		live := w.API.Requests[t.Request.Step.Template+"/"+t.Name]
		if live == nil || live.Check != r.name {
			continue
		}
		m, n := r.view.pair(r.check, t.Name)
		switch w.judge(r.view, r.conn, r.check, m, n).health { //nolint:exhaustive // who is neither has not changed
		case well:
			if !end && w.log.recovered[live.Serial].IsZero() {
				w.log.recovered[live.Serial] = w.Now
			}
		case ill, soon:
			// A relapse that could not be noted, as of a target that is paused just then, is as good as unseen.
			if end && (live.HealthySince.IsZero() || slices.Contains(r.pass.Wrote[t.Name], remediation.WriteRecovery)) {
				delete(w.log.recovered, live.Serial)
			}
		}
	}
}

// mayCancel reports whether there is a reason to cancel an owner remediation that has not started.
func (w *World) mayCancel(c *Check, target string, s *State) bool {
	m := s.Machines[target]
	if len(c.PauseRequests) > 0 || w.stormy(c.Name) || m == nil {
		return true
	}
	return !w.ownerNext(s, c, m)
}

// auditOrphan: what is left of a check goes, unless its remediator deletes the Node and has not finished.
func (r *run) auditOrphan(orphan *remediation.Orphan, d *remediation.Decision) {
	w, request := r.w, orphan.Request
	if w.log == nil || request == nil || d.Action != remediation.Withdraw || !orphan.Gone || !request.NodeDeletionExpected {
		return
	}
	over := request.Succeeded || request.Failed || request.TimedOut || !request.DeletingSince.IsZero()
	_, named := r.check.stepOf(request.Step)
	must := r.check.Deleting || r.check.Policy.Observe || r.view.Missing || !named
	w.must(over || must || !mayRestore(r.check, request, w.Now), "who deletes the Node may finish", "%s withdraws that of %s", r.name, orphan.Name)
}
