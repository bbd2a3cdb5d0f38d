// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Memory is what the manager has reported about one check since it started. Only events, log lines and ended remediations depend on it.
type Memory struct {
	// at is when the last reconcile was reported; zero for none.
	at time.Time
	// past is what was reported about targets, and remediations are those in progress.
	past         map[string]explain.Past
	remediations map[string]remediationInProgress
	// unwritten are the ended remediations that may not be in the status of the check.
	unwritten []remedyv1.RecentRemediation
	// changed is when a changed verdict was last reported, for flapTime.
	changed map[verdictOf]time.Time
}

// verdictOf is a kind of verdict about a target.
type verdictOf struct{ target, kind string }

// flapTime is the minimum time between two reports that the verdict about a target changed to the same kind.
const flapTime = time.Minute

// remediationInProgress is one step of an escalation, or the only one.
type remediationInProgress struct {
	byOwner bool
	step    remediation.StepID
	attempt int
	started time.Time
	// read: its start was read from an object, and is not the time of the reconcile that has started it.
	read bool
	// created is when its Machine was created: another one may take the name.
	created time.Time
	// number is that of the step in the status; nil if there is only one.
	number *int32
	// why is why it is about to end; empty if that is not decided.
	why remediation.Reason
}

// continues reports whether two reconciles have found the same remediation. One that is started after the other was read is another one.
// Owner remediation has only a start.
func (r *remediationInProgress) continues(before *remediationInProgress) bool {
	if r.byOwner != before.byOwner || !r.created.Equal(before.created) || before.read && (!r.read || !r.started.Equal(before.started)) {
		return false
	}
	return r.byOwner || r.step == before.step && r.attempt == before.attempt
}

// Change is what is new about one target.
type Change struct {
	// Target is its index.
	Target int
	Trace  explain.Trace
	Events []explain.Event
	// Recovered: it was unhealthy since UnhealthySince, and is healthy again.
	Recovered      bool
	UnhealthySince time.Time
}

// StartedRemediation is a remediation that has started: one count and one event.
type StartedRemediation struct {
	Target  string
	ByOwner bool
	Event   explain.Event
}

// EndedRemediation is a remediation that has ended: one entry, one count and one event.
type EndedRemediation struct {
	remedyv1.RecentRemediation
	ByOwner bool
	Event   explain.Event
}

// Compare compares a reconcile with the one before. News are in the order of the targets. All results are returned only once.
func (m *Memory) Compare(
	evaluation *explain.Evaluation, now time.Time,
) (news []Change, started []StartedRemediation, ended []EndedRemediation) {
	before := *m
	after := &Memory{at: now, past: map[string]explain.Past{}, remediations: map[string]remediationInProgress{}, changed: m.changed}
	maps.DeleteFunc(after.changed, func(_ verdictOf, at time.Time) bool { return !now.Before(at.Add(flapTime)) })
	orphans := make(map[string]*orphan, len(evaluation.Situation.Orphans))
	for i := range evaluation.Situation.Orphans {
		one := &evaluation.Situation.Orphans[i]
		orphans[one.Name] = &orphan{Orphan: one}
		if i < len(evaluation.Planned.Orphans) {
			orphans[one.Name].decision = evaluation.Planned.Orphans[i]
		}
	}
	for i := range evaluation.Planned.Decisions {
		name := evaluation.Snapshot.Targets[i].Name
		was := before.remediations[name]
		if ends := after.follow(evaluation, i, was, orphans[name], now); ends != nil {
			ended = append(ended, *ends)
		}
		if r, exists := after.remediations[name]; exists && before.hasStarted(&r, &was, &evaluation.Planned.Decisions[i]) {
			started = append(started, StartedRemediation{name, r.byOwner, explain.Started(name, r.step, r.attempt, r.byOwner)})
		}
		if one := after.change(evaluation, i, &before); one != nil {
			news = append(news, *one)
		}
	}
	ended = append(ended, after.followOthers(evaluation, before.remediations, orphans, now)...)
	after.unwritten = before.unwritten
	for i := range ended {
		after.unwritten = append(after.unwritten, ended[i].RecentRemediation)
	}
	after.unwritten = after.unwritten[max(0, len(after.unwritten)-maxRecent):]
	*m = *after
	return news, started, ended
}

// change records what is reported about a target, and returns what is new; nil for nothing. A check that is not responsible for the target
// reports only its status.
func (m *Memory) change(evaluation *explain.Evaluation, i int, before *Memory) *Change {
	name, decision := evaluation.Snapshot.Targets[i].Name, &evaluation.Planned.Decisions[i]
	earlier, reportedBefore := before.past[name]
	reported := reportable(&evaluation.Assessment.Verdicts[i], decision)
	if !reported && !reportedBefore || decision.Block.Reason == remediation.ManagedByOtherCheck {
		return nil
	}
	trace := evaluation.Trace(i)
	if reported {
		m.past[name] = trace.Past()
	}
	if reportedBefore && earlier.Key() == trace.Key() {
		return nil
	}
	since := &earlier
	if !reportedBefore {
		since = unreported(!before.at.IsZero())
	}
	one := &Change{Target: i, Trace: trace, Events: explain.Events(since, &trace)}
	if since != nil && m.flaps(name, since, &trace) {
		return nil
	}
	unhealthy := earlier.Verdict.Since
	if earlier.Verdict.Kind == explain.KindUnhealthy && unhealthy != nil && evaluation.Assessment.Verdicts[i].Recovered() {
		one.Recovered, one.UnhealthySince = true, unhealthy.Time
	}
	return one
}

// flaps reports whether the verdict about a target has changed to a kind that was reported less than flapTime ago. What was reported stays,
// so the change is reported later if it lasts.
func (m *Memory) flaps(name string, since *explain.Past, trace *explain.Trace) bool {
	if since.Verdict.Kind == trace.Verdict.Kind {
		return false
	}
	verdict := verdictOf{name, trace.Verdict.Kind}
	if _, recent := m.changed[verdict]; !recent {
		if m.changed == nil {
			m.changed = map[verdictOf]time.Time{}
		}
		m.changed[verdict] = m.at
		return false
	}
	past := trace.Past()
	past.Verdict, past.Decision.BlockedReason = since.Verdict, since.Decision.BlockedReason
	m.past[name] = past
	return true
}

// hasStarted reports whether a remediation has started since the last reconcile. The response to the write that starts one may have been
// lost, so the next reconcile may find it. One that is older was started by another process, or by the controller of an adopted check.
func (m *Memory) hasStarted(r, was *remediationInProgress, d *remediation.Decision) bool {
	if !was.started.IsZero() && r.continues(was) {
		return false
	}
	return d.Starts() || !m.at.IsZero() && r.read && !r.started.Before(m.at.Truncate(time.Second))
}

// Unwritten returns the ended remediations to write to the status of the check, the latest last.
func (m *Memory) Unwritten() []remedyv1.RecentRemediation { return slices.Clone(m.unwritten) }

// Written is called when they are in the status.
func (m *Memory) Written() { m.unwritten = nil }

// reportable reports whether there is anything to report about a target.
func reportable(v *health.Verdict, d *remediation.Decision) bool {
	return v.Kind == health.Unhealthy || v.Kind == health.Suspect || d.Action != remediation.None || d.Block.Reason != "" || d.InFlight
}

// unreported is what was reported about a target before: nothing; nil before the first reconcile.
func unreported(known bool) *explain.Past {
	if !known {
		return nil
	}
	return &explain.Past{Verdict: explain.VerdictPart{Kind: explain.KindHealthy}}
}

// follow records the remediation of a target that is in progress, and returns the one that has ended; nil if none has. One step of an
// escalation may end in the reconcile in which the next one starts. The request may be orphaned: it is that of an earlier Node of the name.
func (m *Memory) follow(
	evaluation *explain.Evaluation, i int, before remediationInProgress, orphan *orphan, now time.Time,
) *EndedRemediation {
	name, existed := evaluation.Snapshot.Targets[i].Name, !before.started.IsZero()
	r, exists := inProgress(evaluation, i, now)
	switch {
	case existed && exists && r.continues(&before):
		r.number = before.number
		if !r.read {
			r.started, r.read = before.started, before.read
		}
		r.why = before.why
	case existed && !exists && before.isOf(orphan, now):
		m.remediations[name] = before.orphaned(orphan)
		return nil
	case existed && !exists && unconfirmed(&evaluation.Planned.Decisions[i], &evaluation.Situation.Targets[i], &before, now):
		m.remediations[name] = before
		return nil
	}
	if exists {
		target := &evaluation.Situation.Targets[i]
		request := target.Request
		if r.byOwner {
			// It is that of an earlier step, if there is one.
			request = nil
		}
		// A request that is being deleted ends as it was decided then. So does one whose step has failed, and that has the mark which
		// precedes the deletion.
		markedAfterFailure := request != nil && request.TimedOut && r.why == remediation.StepFailed
		if why := evaluation.Planned.Decisions[i].Why; why != "" && (r.why == "" || !deleting(request) && !markedAfterFailure) {
			r.why = why
		}
		r.why = cmp.Or(r.why, decidedBefore(request, &target.History))
		m.remediations[name] = r
	}
	if !existed || exists && r.continues(&before) {
		return nil
	}
	why := whyItEnded(evaluation, i, before.byOwner)
	if exists && !r.created.Equal(before.created) {
		why = explain.Replaced
	}
	ended := before.ended(name, why, now)
	return &ended
}

// decidedBefore is why an earlier process has given up a request; empty if it was not given up.
func decidedBefore(r *remediation.Request, history *remediation.History) remediation.Reason {
	switch {
	case !deleting(r) || history.Failures < r.Attempt && history.Tried != r.Step:
		return ""
	case r.Failed:
		return remediation.StepFailed
	}
	return remediation.StepTimedOut
}

func deleting(request *remediation.Request) bool {
	return request != nil && !request.DeletingSince.IsZero()
}

// kept reports whether a remediator keeps a deleted request for so long that its remediation has ended. The owner may have followed, and
// canceling that does not continue the request.
func kept(request *remediation.Request, now time.Time) bool {
	return deleting(request) && !now.Before(request.DeletingSince.Add(remediation.ReleaseTimeout))
}

// inProgress returns the remediation of a target that is in progress, and whether there is one.
func inProgress(evaluation *explain.Evaluation, i int, now time.Time) (remediationInProgress, bool) {
	d, target := &evaluation.Planned.Decisions[i], &evaluation.Situation.Targets[i]
	if !d.InFlight || kept(target.Request, now) && !d.ByOwner(target) {
		return remediationInProgress{}, false
	}
	r := remediationInProgress{step: d.Step, attempt: d.Attempt, started: now}
	switch {
	case target.Request != nil && !d.ByOwner(target):
		r.started, r.read = target.Request.Started, true
	case target.OwnerRemediation.Requested && d.Action != remediation.StartRequest:
		r.started, r.read, r.byOwner = target.OwnerRemediation.Since, true, true
	default:
		r.byOwner = d.Action == remediation.RequestOwnerRemediation
	}
	if machine := evaluation.Snapshot.Targets[i].Machine; machine != nil {
		r.created = machine.CreatedAt
	}
	if len(evaluation.Policy.Steps) > 1 {
		order := d.Step.Order
		r.number = &order
	}
	return r, true
}

// unconfirmed reports whether a remediation may continue although it was not read: the cache may lack the last write of the manager; or the
// same step was planned again, and its preflight check has blocked it or was not run.
func unconfirmed(d *remediation.Decision, t *remediation.Target, before *remediationInProgress, now time.Time) bool {
	blocked := d.Block.Reason == remediation.PreflightFailed || d.Block.Reason == remediation.PreflightPending || d.BlockedLate()
	read := before.read || before.byOwner && t.OwnerRemediation.Requested
	return blocked && d.Step == before.step && before.why == "" || !read && now.Before(before.started.Add(remediation.UnreadTime))
}

// outcomes are how remediations end for a reason. For every other reason they are withdrawn.
var outcomes = map[remediation.Reason]remedyv1.RemediationOutcome{
	remediation.StepFailed: remedyv1.FailedOutcome, remediation.OwnerRefuses: remedyv1.FailedOutcome,
	remediation.StepTimedOut: remedyv1.TimedOutOutcome, remediation.Recovered: remedyv1.RecoveredOutcome,
	explain.Replaced: remedyv1.ReplacedOutcome,
}

// followOthers records the remediations of targets that the check no longer selects, or that no longer exist, as long as their requests
// exist, and returns those that have ended, by name.
func (m *Memory) followOthers(
	evaluation *explain.Evaluation, before map[string]remediationInProgress, orphans map[string]*orphan, now time.Time,
) (ended []EndedRemediation) {
	targets := make(map[string]bool, len(evaluation.Snapshot.Targets))
	for i := range evaluation.Snapshot.Targets {
		targets[evaluation.Snapshot.Targets[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch r := before[name]; {
		case targets[name]:
		case r.isOf(orphans[name], now):
			m.remediations[name] = r.orphaned(orphans[name])
		default:
			ended = append(ended, r.ended(name, explain.Replaced, now))
		}
	}
	return ended
}

// orphan is an orphaned target, and what is decided about it.
type orphan struct {
	*remediation.Orphan
	decision remediation.Decision
}

// isOf reports whether a remediation continues on an orphaned target; nil if there is none.
func (r *remediationInProgress) isOf(orphan *orphan, now time.Time) bool {
	switch {
	case orphan == nil:
		return false
	case r.byOwner:
		return orphan.Marked
	}
	return orphan.Request != nil && !kept(orphan.Request, now) && (!r.read || orphan.Request.Started.Equal(r.started))
}

// orphaned is a remediation whose target the check no longer selects: it is withdrawn. If the target no longer exists, it was replaced,
// unless its remediator has failed. A remediator that deletes the Node may restore it, so nothing is decided before its step ends.
func (r remediationInProgress) orphaned(orphan *orphan) remediationInProgress {
	why := remediation.NotSelected
	switch {
	case outcomes[orphan.decision.Why] != "":
		why = orphan.decision.Why
	case orphan.Gone && orphan.Request != nil && orphan.decision.Action == remediation.Wait && !deleting(orphan.Request):
		why = ""
	case orphan.Gone:
		why = explain.Replaced
	}
	// What a pause has delayed is decided by the facts after it.
	if r.why == remediation.NotSelected && !deleting(orphan.Request) {
		r.why = ""
	}
	r.why = cmp.Or(r.why, why)
	if !r.byOwner {
		// It has been read now, so it ends as soon as it is missing.
		r.started, r.read = orphan.Request.Started, true
	}
	return r
}

// ended returns the remediation as it ended: as it was decided, or else as the facts show.
func (r *remediationInProgress) ended(name string, otherwise remediation.Reason, now time.Time) EndedRemediation {
	why := cmp.Or(r.why, otherwise)
	return EndedRemediation{remedyv1.RecentRemediation{
		Target: name, Step: r.number, Outcome: cmp.Or(outcomes[why], remedyv1.WithdrawnOutcome),
		StartTime: metav1.NewTime(r.started.UTC().Truncate(time.Second)), CompletionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}, r.byOwner, explain.Ended(name, r.step, r.byOwner, why)}
}

// whyItEnded is why a remediation has ended by the current facts of its target.
func whyItEnded(evaluation *explain.Evaluation, i int, byOwner bool) remediation.Reason {
	switch d := &evaluation.Planned.Decisions[i]; {
	case evaluation.Assessment.Verdicts[i].Recovered():
		return remediation.Recovered
	case byOwner && evaluation.Situation.Targets[i].OwnerRemediation.Refused:
		return remediation.OwnerRefuses
	case d.Why != "" && !d.InFlight:
		return d.Why
	}
	return explain.Withdrawn
}
