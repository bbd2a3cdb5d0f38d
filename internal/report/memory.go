// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
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
	// known: an earlier reconcile was reported.
	known bool
	// traces are those of targets that are reported, and remediations those in progress.
	traces       map[string]explain.Trace
	remediations map[string]underWay
	// unwritten are the ended remediations that may not be in the status of the check.
	unwritten []remedyv1.RecentRemediation
}

// underWay is a remediation in progress.
type underWay struct {
	started time.Time
	step    *int32
	byOwner bool
	// outcome is how it is about to end; empty if that is not decided.
	outcome remedyv1.RemediationOutcome
}

// Change is what is new about one target.
type Change struct {
	// Target is its index.
	Target int
	Trace  explain.Trace
	Events []explain.Event
	// Recovered: it was unhealthy since SickSince, and is healthy again.
	Recovered      bool
	UnhealthySince time.Time
}

// EndedRemediation is a remediation that has ended.
type EndedRemediation struct {
	remedyv1.RecentRemediation
	ByOwner bool
}

// Compare compares a reconcile with the one before. News are in the order of the targets. Both results are returned only once.
func (m *Memory) Compare(pass *explain.Evaluation, now time.Time) (news []Change, ended []EndedRemediation) {
	before, known := *m, m.known
	after := &Memory{known: true, traces: map[string]explain.Trace{}, remediations: map[string]underWay{}}
	for i := range pass.Planned.Decisions {
		name := pass.Snapshot.Targets[i].Name
		after.follow(pass, i, before.remediations[name], now)
		earlier, reportedBefore := before.traces[name]
		reported := reportable(&pass.Assessment.Verdicts[i], &pass.Planned.Decisions[i])
		if !reported && !reportedBefore {
			continue
		}
		trace := pass.Trace(i)
		if reported {
			after.traces[name] = trace
		}
		if reportedBefore && earlier.Key() == trace.Key() {
			continue
		}
		since := &earlier
		if !reportedBefore {
			since = unreported(known)
		}
		one := Change{Target: i, Trace: trace, Events: explain.Events(since, &trace)}
		unhealthy := earlier.Verdict.Since
		if earlier.Verdict.Kind == explain.KindUnhealthy && unhealthy != nil && pass.Assessment.Verdicts[i].Recovered() {
			one.Recovered, one.UnhealthySince = true, unhealthy.Time
		}
		news = append(news, one)
	}
	ended = before.ended(pass, after, now)
	after.unwritten = before.unwritten
	for i := range ended {
		after.unwritten = append(after.unwritten, ended[i].RecentRemediation)
	}
	after.unwritten = after.unwritten[max(0, len(after.unwritten)-maxRecent):]
	*m = *after
	return news, ended
}

// Unwritten returns the ended remediations to write to the status of the check, the latest last.
func (m *Memory) Unwritten() []remedyv1.RecentRemediation { return slices.Clone(m.unwritten) }

// Written is called when they are in the status.
func (m *Memory) Written() { m.unwritten = nil }

// reportable reports whether there is anything to report about a target.
func reportable(v *health.Verdict, d *remediation.Decision) bool {
	return v.Kind == health.Unhealthy || v.Kind == health.Suspect || d.Action != remediation.None || d.Hold.Reason != "" || d.InFlight
}

// unreported is the earlier trace of a target that was not reported; nil before the first reconcile.
func unreported(known bool) *explain.Trace {
	if !known {
		return nil
	}
	return &explain.Trace{Verdict: explain.VerdictPart{Kind: explain.KindHealthy}}
}

// follow records a remediation in progress.
func (m *Memory) follow(pass *explain.Evaluation, i int, before underWay, now time.Time) {
	d, target := &pass.Planned.Decisions[i], &pass.Situation.Targets[i]
	if !d.InFlight {
		// A failed preflight check, or a cache without the last write of the manager, does not end a remediation.
		if d.Hold.Reason == remediation.NotConfirmed && !before.started.IsZero() {
			m.remediations[pass.Snapshot.Targets[i].Name] = before
		}
		return
	}
	u := before
	switch {
	case target.Request != nil:
		u.started, u.byOwner = target.Request.Started, false
	case target.OwnerRemediation.Requested:
		u.started, u.byOwner = target.OwnerRemediation.Since, true
	case before.started.IsZero():
		u.started, u.byOwner = now, d.Action == remediation.RequestOwnerRemediation
	}
	if u.step == nil && len(pass.Policy.Steps) > 1 {
		u.step = &d.Step.Order
	}
	if outcome := outcomeOf(d); outcome != "" {
		u.outcome = outcome
	}
	m.remediations[pass.Snapshot.Targets[i].Name] = u
}

// outcomeOf is how a decision ends a remediation; empty if it continues.
func outcomeOf(d *remediation.Decision) remedyv1.RemediationOutcome {
	switch {
	case d.Action == remediation.GiveUp && d.Why == remediation.StepFailed:
		return remedyv1.FailedOutcome
	case d.Action == remediation.GiveUp:
		return remedyv1.TimedOutOutcome
	case d.Action == remediation.Withdraw && d.Why == remediation.Recovered:
		return remedyv1.RecoveredOutcome
	case d.Action == remediation.Withdraw, d.Action == remediation.CancelOwnerRemediation, d.Action == remediation.RemoveConditions:
		return remedyv1.WithdrawnOutcome
	}
	return ""
}

// ended are the remediations that are no longer in progress, by name.
func (m *Memory) ended(pass *explain.Evaluation, after *Memory, now time.Time) []EndedRemediation {
	var all []EndedRemediation
	for _, name := range slices.Sorted(maps.Keys(m.remediations)) {
		if _, continues := after.remediations[name]; continues {
			continue
		}
		u := m.remediations[name]
		if u.outcome == "" {
			u.outcome = howItEnded(pass, name)
		}
		all = append(all, EndedRemediation{ByOwner: u.byOwner, RecentRemediation: remedyv1.RecentRemediation{
			Target: name, Step: u.step, Outcome: u.outcome,
			Started: metav1.NewTime(u.started.UTC().Truncate(time.Second)), Ended: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}})
	}
	return all
}

// howItEnded is the outcome of a remediation by the current facts: a target that no longer exists was replaced.
func howItEnded(pass *explain.Evaluation, name string) remedyv1.RemediationOutcome {
	for i := range pass.Snapshot.Targets {
		switch {
		case pass.Snapshot.Targets[i].Name != name:
		case pass.Assessment.Verdicts[i].Recovered():
			return remedyv1.RecoveredOutcome
		case pass.Situation.Targets[i].OwnerRemediation.Refused:
			return remedyv1.FailedOutcome
		default:
			return remedyv1.WithdrawnOutcome
		}
	}
	return remedyv1.ReplacedOutcome
}
