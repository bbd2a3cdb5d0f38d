// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// recordPass reports a reconcile as the manager does, and compares everything that it reports with what really happened. One that began before
// a move is a reconcile of the manager that everything was moved from.
func (r *run) recordPass() error {
	r.noteCancellations()
	w, pass := r.w, &r.pass
	live := w.API.Checks[r.name]
	if r.old || w.polls || r.moves != w.moves || pass.Situation.Check.Paused || live == nil || live.UID() != r.check.UID() {
		return nil
	}
	memory := w.records.memories[r.name]
	if memory == nil {
		memory = &report.Memory{}
		w.records.memories[r.name] = memory
	}
	evaluation := r.evaluation(&pass.Plan)
	news, started, ended := memory.Compare(evaluation, w.Now)
	for i := range started {
		if started[i].ByOwner {
			w.records.startedByOwner[r.name]++
		} else {
			w.records.started[r.name]++
		}
	}
	for i := range ended {
		e := &ended[i].RecentRemediation
		w.records.entries[r.name] = append(w.records.entries[r.name], *e)
		w.records.ended[endedCount{r.name, ended[i].ByOwner, metrics.OutcomeOf(e.Outcome)}]++
		if ended[i].ByOwner {
			r.auditEndedByOwner(e)
		} else {
			w.auditEnded(r.name, e, ended[i].Event.Reason)
		}
		w.auditEndEvent(&ended[i])
	}
	r.auditStarts(news, started)
	return r.writeStatus(evaluation, memory)
}

// writeStatus writes the status of the check, and compares it with the truth. A write may fail, or its response may be lost.
func (r *run) writeStatus(evaluation *explain.Evaluation, memory *report.Memory) error {
	w, pass := r.w, &r.pass
	before := w.records.statuses[r.name]
	if before == nil {
		before = &remedyv1.CheckStatus{}
	}
	counted := explain.Status(evaluation, before.UnhealthyTargets, nil)
	status := report.Status(before, &counted, memory.Unwritten(), int64(r.check.Generation), w.Now)
	truth := w.trueStatus(r.view, r.conn, r.check, r.started)
	truth.storm, truth.stormKnown = r.storm, r.noted
	truth.audit(&status, before.UnhealthyTargets)
	observed := metrics.ObservationOf(evaluation, status.Conditions)
	truth.auditGauges(&observed, &status)
	failed := !w.calm && w.log != nil && w.moments%16 == 0
	if failed && w.moments%32 == 0 {
		return errConflict
	}
	if w.records.statuses[r.name], pass.Status = &status, &status; failed {
		return errConflict
	}
	memory.Written()
	w.auditEntries(r.name, &status)
	return nil
}

// started reports whether this reconcile has started a remediation of a target. A Machine without an owner only gets the conditions.
func (r *run) started(target string) bool {
	wrote := r.pass.Wrote[target]
	if slices.Contains(wrote, remediation.CreateRequest) {
		return true
	}
	m := r.view.Machines[target]
	return slices.Contains(wrote, remediation.SetOwnerRemediated) && m != nil && !m.Orphan
}

// auditStarts: a remediation that this reconcile has started has one event. Another target may only have one if its request is not new: an old
// leader has created it, for instance.
func (r *run) auditStarts(news []report.Change, started []report.StartedRemediation) {
	events := map[string]int{}
	for i := range started {
		e := &started[i].Event
		events[started[i].Target]++
		r.w.must(e.Reason == explain.RemediationStarted && e.Action == explain.StartRemediation && strings.HasPrefix(e.Message, started[i].Target+": "),
			"events are true", "%s starts with %+v", started[i].Target, e)
	}
	for i := range news {
		for _, e := range news[i].Events {
			r.w.must(e.Action != explain.StartRemediation && e.Action != explain.EndRemediation, "events are true", "%s has another %+v", news[i].Trace.Target, e)
		}
	}
	for i := range r.pass.Situation.Targets {
		name, wanted := r.pass.Situation.Targets[i].Name, 0
		if r.started(name) {
			wanted = 1
		}
		found := events[name] == 1 && !r.pass.Plan.Decisions[i].Starts()
		r.w.must(events[name] == wanted || found, "events are true", "%s has %d events about %d starts", name, events[name], wanted)
	}
}

// auditEndEvent: the event for the end of a remediation has the reason that led to the outcome in the status.
func (w *World) auditEndEvent(ended *report.EndedRemediation) {
	e := &ended.Event
	wanted := map[remedyv1.RemediationOutcome][]remediation.Reason{
		remedyv1.RecoveredOutcome: is(remediation.Recovered), remedyv1.ReplacedOutcome: is(explain.Replaced), remedyv1.TimedOutOutcome: is(remediation.StepTimedOut),
		remedyv1.FailedOutcome: is(remediation.StepFailed, remediation.OwnerRefuses),
	}
	right := slices.Contains(wanted[ended.Outcome], remediation.Reason(e.Reason))
	if ended.Outcome == remedyv1.WithdrawnOutcome {
		right = e.Reason != ""
		for _, others := range wanted {
			right = right && !slices.Contains(others, remediation.Reason(e.Reason))
		}
	}
	w.must(right && e.Action == explain.EndRemediation && strings.HasPrefix(e.Message, ended.Target+": "), "events are true",
		"%s, which ended as %s, has %+v", ended.Target, ended.Outcome, e)
}

// auditEntries: the status has the last remediations that have ended, the latest first, each of them once. One by its owner that ends twice in a
// second, because the Machine was unhealthy again in between, is one entry.
func (w *World) auditEntries(check string, status *remedyv1.CheckStatus) {
	equal := func(a, b remedyv1.RecentRemediation) bool {
		return a.Target == b.Target && a.Outcome == b.Outcome && a.StartTime.Equal(&b.StartTime) && a.CompletionTime.Equal(&b.CompletionTime)
	}
	var all []remedyv1.RecentRemediation
	for _, e := range w.records.entries[check] {
		if !slices.ContainsFunc(all, func(earlier remedyv1.RecentRemediation) bool { return equal(e, earlier) }) {
			all = append(all, e)
		}
	}
	all = all[max(0, len(all)-10):]
	slices.Reverse(all)
	same := slices.EqualFunc(all, status.RecentRemediations, equal)
	w.must(same, "records are true", "%s has ended %+v, and its status has %+v", check, all, status.RecentRemediations)
}

// auditStatusAtRest compares the last status of a check with everything up to date.
func (w *World) auditStatusAtRest(c *Check, last *Pass) {
	if last.Status == nil {
		return
	}
	truth := w.trueStatus(w.API, w.Conn, c, func(string) bool { return false })
	truth.storm, truth.stormKnown = w.stormy(c.Name), w.log != nil
	truth.audit(last.Status, last.Status.UnhealthyTargets)
}

// auditAnnounced compares what is reported before anything is started or ended with the truth.
func (r *run) auditAnnounced() {
	w, pass := r.w, &r.pass
	acts := slices.ContainsFunc(pass.Plan.Decisions, func(d remediation.Decision) bool { return d.Starts() || d.Ends() })
	if r.old || w.polls || pass.Situation.Check.Paused || !acts {
		return
	}
	announced := pass.Plan.Announced(&pass.Situation, &pass.Assessment, w.Now)
	announced.Conclude(&pass.Assessment, w.Now)
	evaluation := r.evaluation(&announced)
	before := w.records.statuses[r.name]
	if before == nil {
		before = &remedyv1.CheckStatus{}
	}
	counted := explain.Status(evaluation, before.UnhealthyTargets, nil)
	truth := w.trueStatus(r.view, r.conn, r.check, func(string) bool { return false })
	truth.storm, truth.stormKnown = r.storm, r.noted
	truth.audit(&counted, before.UnhealthyTargets)
}

func (r *run) evaluation(plan *remediation.Planned) *explain.Evaluation {
	return &explain.Evaluation{
		Check: r.name, Snapshot: &r.pass.Snapshot, Assessment: &r.pass.Assessment, Situation: &r.pass.Situation, Policy: &r.check.Policy, Planned: plan,
	}
}
