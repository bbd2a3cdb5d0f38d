// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// ownerTruth is an owner remediation as the API server has seen it.
type ownerTruth struct {
	check, target string
	body          int
	started       time.Time
	// again are the times of later requests: the owner had not removed its condition, so the time of the condition stayed.
	again []time.Time
	// ofThisProcess: the running process has requested it.
	ofThisProcess bool
	// ends are the ways in which it has ended. ended: it has at the moment, and over: it cannot continue. Before that, an owner may no longer
	// refuse, and a Machine may become unhealthy again whose owner has not read yet that it was healthy.
	ends        []remedyv1.RemediationOutcome
	ended, over bool
	// entries are how many a status may have: one for each time that it has ended. starts are how many the running process has made: an owner
	// may not have removed its own condition yet when its Machine is unhealthy again.
	entries, recorded, starts int
}

func (t *ownerTruth) end(how remedyv1.RemediationOutcome) {
	t.ended = true
	if !slices.Contains(t.ends, how) {
		t.ends = append(t.ends, how)
	}
}

// ownerRequested is called when OwnerRemediated=False is set on a Machine that has an owner, or is there already.
func (r *records) ownerRequested(check string, m *Machine, old bool, now time.Time) {
	for _, t := range r.byOwner {
		if t.check == check && t.target == m.Name && t.body == m.Body && !t.over && t.started.Equal(m.MarkedSince) {
			if !old {
				t.starts++
				t.again = append(slices.Clip(t.again), now)
			}
			return
		}
	}
	r.byOwner = append(r.byOwner, &ownerTruth{check: check, target: m.Name, body: m.Body, started: m.MarkedSince, ofThisProcess: !old, entries: 1, starts: 1})
}

// FollowOwners records how owner remediations end. A story calls it after each step.
func (w *World) FollowOwners() {
	for _, t := range w.records.byOwner {
		if t.over {
			continue
		}
		m := w.API.Machines[t.target]
		switch {
		case m == nil || m.Body != t.body:
			t.over = true
			t.end(remedyv1.ReplacedOutcome)
		case !m.Unhealthy && m.Healthy:
			t.over = m.Owner == ""
			t.end(remedyv1.RecoveredOutcome)
			// While the infrastructure is not ready, a Machine is reported as healthy without having recovered; that may be written later. In the first
			// minute, the cache may lack the start, and what the manager has read may not be the end.
			if w.API.NoInfrastructure || w.API.InfrastructureSince.After(t.started) || w.Now.Before(t.started.Add(time.Minute)) {
				t.end(remedyv1.WithdrawnOutcome)
			}
		case m.Owner == "" || !m.Unhealthy || m.Author != t.check || m.Orphan:
			t.over = true
			t.end(remedyv1.WithdrawnOutcome)
		case m.Owner == Refused:
			t.end(remedyv1.FailedOutcome)
		case t.ended:
			t.ended = false
			t.entries++
		}
	}
}

// cancels is called when a check cancels owner remediation. Another writer may end it first. If an old leader cancels it, the next leader may only
// find that the check no longer has the target.
func (r *records) cancels(check, target string, old bool) {
	for _, t := range r.byOwner {
		if t.check != check || t.target != target || t.recorded >= t.entries {
			continue
		}
		for how, allowed := range map[remedyv1.RemediationOutcome]bool{remedyv1.WithdrawnOutcome: true, remedyv1.ReplacedOutcome: old} {
			if allowed && !slices.Contains(t.ends, how) {
				t.ends = append(t.ends, how)
			}
		}
	}
}

// noteCancellations records what a reconcile has decided to cancel, also if another writer came first.
func (r *run) noteCancellations() {
	for i := range r.pass.Situation.Targets {
		if action := r.pass.Plan.Decisions[i].Action; action == remediation.CancelOwnerRemediation || action == remediation.RemoveConditions {
			r.w.records.cancels(r.name, r.pass.Situation.Targets[i].Name, r.old)
		}
	}
	for i := range r.pass.Situation.Orphans {
		r.w.records.cancels(r.name, r.pass.Situation.Orphans[i].Name, r.old)
	}
}

// auditEndedByOwner compares an entry of a status with the owner remediation that it is about.
func (r *run) auditEndedByOwner(e *remedyv1.RecentRemediation) {
	w := r.w
	w.premise("records of owners are true")
	var t *ownerTruth
	started := func(at time.Time) bool { return at.Truncate(time.Second).Equal(e.StartTime.Time) }
	for _, truth := range slices.Backward(w.records.byOwner) {
		at := started(truth.started) || slices.ContainsFunc(truth.again, started)
		if truth.check == r.name && truth.target == e.Target && at && truth.recorded < truth.entries {
			t = truth
			break
		}
	}
	if t == nil {
		w.records.trueEnds[endedCount{r.name, true, counted[e.Outcome]}]++
		w.must(false, "records of owners are true", "no owner remediation of %s for %s was requested at %s, or it is recorded already", r.name, e.Target, e.StartTime)
		return
	}
	t.recorded++
	w.records.trueEnds[endedCount{r.name, true, counted[e.Outcome]}]++
	m, n := r.view.pair(r.check, e.Target)
	outcomes := slices.Clone(t.ends)
	if m != nil && w.judge(r.view, r.conn, r.check, m, n).health == well {
		// The reconcile has read that the Machine is healthy, and could not report it. A Machine that takes the name of another is the same to it.
		outcomes = append(outcomes, remedyv1.RecoveredOutcome)
		t.entries++
	}
	live := w.API.Machines[t.target]
	if m == nil || m.Body != t.body || m.Orphan || live != nil && live.Body == t.body && live.Owner == Deleting {
		// It may have been canceled just before its Machine no longer existed, which is all that the reconcile has read; or its owner deletes the
		// Machine, which the check no longer selects.
		outcomes = append(outcomes, remedyv1.ReplacedOutcome)
	}
	// The reconcile may have canceled one whose Machine no longer exists, which it has not read.
	if m != nil && (m.Skip || m.Body != t.body || t.over || w.lets(r.view, r.check, e.Target)) {
		outcomes = append(outcomes, remedyv1.WithdrawnOutcome)
	}
	w.must(slices.Contains(outcomes, e.Outcome), "records of owners are true", "that of %s is recorded as %s, and has ended %v", e.Target, e.Outcome, outcomes)
}

// unrecordedOwners are the owner remediations that have ended without an entry, of checks that exist. In the first minute, the cache may lack the
// start, and the next reconcile records the end.
func (w *World) unrecordedOwners() []string {
	var all []string
	for _, t := range w.records.byOwner {
		c := w.API.Checks[t.check]
		if c == nil || c.Deleting || c.Paused || w.API.Paused || !t.over || t.recorded > 0 || !t.ofThisProcess ||
			w.Now.Before(t.started.Add(time.Minute)) {
			continue
		}
		all = append(all, t.check+": owner of "+t.target)
	}
	return all
}

// Fork returns a copy that continues by itself: what it records about remediations is not recorded here.
func (w *World) Fork() *World {
	fork := *w
	fork.API, fork.Cache = w.API.Copy(), w.Cache.Copy()
	r := &fork.records
	r.memories, r.statuses, r.entries = maps.Clone(r.memories), maps.Clone(r.statuses), maps.Clone(r.entries)
	r.started, r.startedByOwner = maps.Clone(r.started), maps.Clone(r.startedByOwner)
	r.ended, r.trueEnds = maps.Clone(r.ended), maps.Clone(r.trueEnds)
	for name, memory := range r.memories {
		remembered := *memory
		r.memories[name] = &remembered
	}
	r.byOwner, r.requests = slices.Clone(r.byOwner), slices.Clone(r.requests)
	for i, truth := range r.byOwner {
		same := *truth
		r.byOwner[i] = &same
	}
	for i, truth := range r.requests {
		same := *truth
		r.requests[i] = &same
	}
	return &fork
}
