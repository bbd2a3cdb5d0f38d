// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Announce implements pipeline.Client.
func (r *run) Announce(_ context.Context, e *explain.Evaluation) error {
	if r.call(); r.crashed {
		return errCrashed
	}
	r.prepared(e.Assessment)
	if r.order.announced = true; r.frozen {
		return nil
	}
	return utilerrors.NewAggregate([]error{r.reportHealth(e), r.reportSoFar(e)})
}

// Progress implements pipeline.Client.
func (r *run) Progress(_ context.Context, e *explain.Evaluation) error {
	if r.call(); r.crashed {
		return errCrashed
	}
	if r.frozen {
		return nil
	}
	return r.reportSoFar(e)
}

// Report implements pipeline.Client.
func (r *run) Report(_ context.Context, e *explain.Evaluation) error {
	if r.call(); r.crashed {
		return errCrashed
	}
	r.prepared(e.Assessment)
	r.pass.Assessment, r.pass.Plan, r.pass.Situation = *e.Assessment, *e.Planned, *e.Situation
	var failed []error
	if !r.frozen {
		failed = append(failed, r.reportHealth(e))
	}
	return utilerrors.NewAggregate(append(failed, r.record(e)))
}

// prepared is called when everything that comes before all acts has been written.
func (r *run) prepared(a *health.Assessment) {
	if r.order.prepared {
		return
	}
	r.order.prepared, r.pass.Assessment = true, *a
	r.w.noteView(r)
	r.w.noteHealth(r, false)
}

// reportHealth sets the conditions of Machines.
func (r *run) reportHealth(e *explain.Evaluation) error {
	c := r.check
	if c.ForNodes || e.Situation.Check.Paused || c.Deleting || c.Policy.Observe {
		return nil
	}
	var failed []error
	for i := range e.Situation.Targets {
		m, v, d := r.latest(e.Situation.Targets[i].Name), &e.Assessment.Verdicts[i], &e.Planned.Decisions[i]
		if m == nil || v.Kind == health.Skipped || e.Situation.Targets[i].CoveredBy != "" || d.Unconfirmed || r.pausedNow[m.Name] {
			continue
		}
		// Without the annotation, a check that is deleted would leave the condition. With OwnerRemediated=False that is left, it would request
		// owner remediation.
		left := m.Owner != "" && !m.Unhealthy && d.Action != remediation.RequestOwnerRemediation
		if v.Kind == health.Unhealthy && (left || m.Author != r.name) {
			continue
		}
		sick, well := m.Unhealthy, m.Healthy
		switch v.Kind {
		case health.Unhealthy:
			sick, well = true, false
		case health.Healthy:
			sick, well = false, true
		case health.Undetermined, health.Suspect, health.Skipped:
		}
		if sick == m.Unhealthy && well == m.Healthy {
			continue
		}
		failed = append(failed, r.write(fmt.Sprintf("health of %s is unhealthy=%v healthy=%v", m.Name, sick, well), func() error {
			live, err := r.machine(r.view.Machines[m.Name])
			if err == nil {
				live.Unhealthy, live.Healthy = sick, well
			}
			return err
		}))
	}
	return utilerrors.NewAggregate(failed)
}

// latest is a Machine as it was read, with the writes of this reconcile.
func (r *run) latest(name string) *Machine {
	seen, live := r.view.Machines[name], r.w.API.Machines[name]
	if seen != nil && live != nil && live.UID == seen.UID && live.Version == seen.Version+r.written["machine/"+name] {
		return live
	}
	return seen
}

// reportSoFar writes the status before everything is done, and compares it with what has really happened.
func (r *run) reportSoFar(e *explain.Evaluation) error {
	w := r.w
	live := w.API.Checks[r.name]
	if r.old || w.polls || r.moves != w.moves || e.Situation.Check.Paused || live == nil || live.UID() != r.check.UID() {
		return nil
	}
	_, err := r.writeStatus(e, w.records.of(r.name))
	return err
}

// record reports a reconcile as the manager does, and compares everything that it reports with what really happened. One that began before a
// move is a reconcile of the manager that everything was moved from.
func (r *run) record(e *explain.Evaluation) error {
	r.noteCancellations()
	w := r.w
	live := w.API.Checks[r.name]
	if r.old || w.polls || r.moves != w.moves || e.Situation.Check.Paused || live == nil || live.UID() != r.check.UID() {
		return nil
	}
	memory := w.records.of(r.name)
	news, started, ended := memory.Compare(e, w.Now)
	for i := range started {
		if started[i].ByOwner {
			w.records.startedByOwner[r.name]++
		} else {
			w.records.started[r.name]++
		}
	}
	for i := range ended {
		entry := &ended[i].RecentRemediation
		w.records.entries[r.name] = append(w.records.entries[r.name], *entry)
		w.records.ended[endedCount{r.name, ended[i].ByOwner, metrics.OutcomeOf(entry.Outcome)}]++
		if ended[i].ByOwner {
			r.auditEndedByOwner(entry)
		} else {
			w.auditEnded(r.name, entry, ended[i].Event.Reason)
		}
		w.auditEndEvent(&ended[i])
	}
	r.auditStarts(news, started)
	if r.frozen {
		return nil
	}
	status, err := r.writeStatus(e, memory)
	if r.pass.Status = status; err == nil {
		memory.Written()
		w.auditEntries(r.name, status)
	}
	return err
}

// of are the records of a check.
func (r *records) of(check string) *report.Memory {
	if r.memories[check] == nil {
		r.memories[check] = &report.Memory{}
	}
	return r.memories[check]
}

// writeStatus writes the status of the check, and compares it with the truth. A write may fail, or its response may be lost.
func (r *run) writeStatus(e *explain.Evaluation, memory *report.Memory) (written *remedyv1.CheckStatus, err error) {
	w := r.w
	before := w.records.statuses[r.name]
	if before == nil {
		before = &remedyv1.CheckStatus{}
	}
	counted := explain.Status(e, before.UnhealthyTargets, nil)
	status := report.Status(before, &counted, memory.Unwritten(), int64(r.check.Generation), w.Now)
	truth := w.trueStatus(r.view, r.conn, r.check, r.started)
	truth.storm, truth.stormKnown = r.storm, r.noted
	truth.audit(&status, before.UnhealthyTargets)
	observed := metrics.ObservationOf(e, &status)
	truth.auditGauges(&observed, &status)
	fails := !w.calm && w.log != nil && w.moments%16 == 0
	if fails && w.moments%32 == 0 {
		return nil, errConflict
	}
	if w.records.statuses[r.name] = &status; fails {
		return &status, errConflict
	}
	return &status, nil
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
