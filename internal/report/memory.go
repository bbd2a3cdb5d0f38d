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

// Memory is what this process has reported about one check: events and log lines are about what has changed since. It is empty after a start,
// and nothing but news and what has ended depends on it.
type Memory struct {
	// known: something was reported before.
	known bool
	// traces are those of targets about which there is anything to tell, and remediations those under way.
	traces       map[string]explain.Trace
	remediations map[string]underWay
	// unwritten are those that have ended, and nobody knows that they stand in the status of the check.
	unwritten []remedyv1.RecentRemediation
}

// underWay is a remediation that has not ended, as far as was seen.
type underWay struct {
	started time.Time
	step    *int32
	byOwner bool
	// outcome is how it is about to end; empty if nobody knows.
	outcome remedyv1.RemediationOutcome
}

// News is what is new about one target.
type News struct {
	// Target is its place among the targets.
	Target int
	Trace  explain.Trace
	Events []explain.Event
	// Recovered: it was unhealthy, since SickSince, and is healthy again.
	Recovered bool
	SickSince time.Time
}

// Ending is a remediation that has ended.
type Ending struct {
	remedyv1.RecentRemediation
	ByOwner bool
}

// Learn compares a pass with what was told before. News are in the order of the targets. Both are told once, whatever becomes of the pass.
func (m *Memory) Learn(pass *explain.Pass, now time.Time) (news []News, ended []Ending) {
	before, known := *m, m.known
	after := &Memory{known: true, traces: map[string]explain.Trace{}, remediations: map[string]underWay{}}
	for i := range pass.Planned.Decisions {
		name := pass.Snapshot.Targets[i].Name
		after.follow(pass, i, before.remediations[name], now)
		earlier, toldBefore := before.traces[name]
		worth := worthTelling(&pass.Assessment.Verdicts[i], &pass.Planned.Decisions[i])
		if !worth && !toldBefore {
			continue
		}
		trace := pass.Trace(i)
		if worth {
			after.traces[name] = trace
		}
		if toldBefore && earlier.Key() == trace.Key() {
			continue
		}
		since := &earlier
		if !toldBefore {
			since = unremarkable(known)
		}
		one := News{Target: i, Trace: trace, Events: explain.Events(since, &trace)}
		if sick := earlier.Verdict.Since; earlier.Verdict.Kind == explain.KindUnhealthy && sick != nil && pass.Assessment.Verdicts[i].Recovered() {
			one.Recovered, one.SickSince = true, sick.Time
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

// Unwritten are the remediations that have ended and still have to be written to the status of the check, the latest last.
func (m *Memory) Unwritten() []remedyv1.RecentRemediation { return slices.Clone(m.unwritten) }

// Written notes that they stand there.
func (m *Memory) Written() { m.unwritten = nil }

// worthTelling leaves out what is well and left alone, which are nearly all targets, nearly always.
func worthTelling(v *health.Verdict, d *remediation.Decision) bool {
	return v.Kind == health.Unhealthy || v.Kind == health.Suspect || d.Action != remediation.None || d.Hold.Reason != "" || d.InFlight
}

// unremarkable is what a target was about which there was nothing to tell. Before the first pass nobody knows what it was.
func unremarkable(known bool) *explain.Trace {
	if !known {
		return nil
	}
	return &explain.Trace{Verdict: explain.VerdictPart{Kind: explain.KindHealthy}}
}

// follow notes that a remediation is under way, since when, and how it is about to end.
func (m *Memory) follow(pass *explain.Pass, i int, before underWay, now time.Time) {
	d, target := &pass.Planned.Decisions[i], &pass.Situation.Targets[i]
	if !d.InFlight {
		// A look that failed, or a cache that has not seen our own write yet, ends nothing.
		if d.Hold.Reason == remediation.NotConfirmed && !before.started.IsZero() {
			m.remediations[pass.Snapshot.Targets[i].Name] = before
		}
		return
	}
	u := before
	switch {
	case target.Request != nil:
		u.started, u.byOwner = target.Request.Started, false
	case target.Mark.Given:
		u.started, u.byOwner = target.Mark.Since, true
	case before.started.IsZero():
		u.started, u.byOwner = now, d.Action == remediation.GiveMark
	}
	if u.step == nil && len(pass.Policy.Steps) > 1 {
		u.step = &d.Step.Order
	}
	if outcome := outcomeOf(d); outcome != "" {
		u.outcome = outcome
	}
	m.remediations[pass.Snapshot.Targets[i].Name] = u
}

// outcomeOf is how a remediation ends by what was decided now; empty if it goes on.
func outcomeOf(d *remediation.Decision) remedyv1.RemediationOutcome {
	switch {
	case d.Action == remediation.GiveUp && d.Why == remediation.StepFailed:
		return remedyv1.FailedOutcome
	case d.Action == remediation.GiveUp:
		return remedyv1.TimedOutOutcome
	case d.Action == remediation.Withdraw && d.Why == remediation.Recovered:
		return remedyv1.RecoveredOutcome
	case d.Action == remediation.Withdraw, d.Action == remediation.TakeBack, d.Action == remediation.Unmark:
		return remedyv1.WithdrawnOutcome
	}
	return ""
}

// ended are the remediations that are not under way any more, by name.
func (m *Memory) ended(pass *explain.Pass, after *Memory, now time.Time) []Ending {
	var all []Ending
	for _, name := range slices.Sorted(maps.Keys(m.remediations)) {
		if _, goesOn := after.remediations[name]; goesOn {
			continue
		}
		u := m.remediations[name]
		if u.outcome == "" {
			u.outcome = howItEnded(pass, name)
		}
		all = append(all, Ending{ByOwner: u.byOwner, RecentRemediation: remedyv1.RecentRemediation{
			Target: name, Step: u.step, Outcome: u.outcome,
			Started: metav1.NewTime(u.started.UTC().Truncate(time.Second)), Ended: metav1.NewTime(now.UTC().Truncate(time.Second)),
		}})
	}
	return all
}

// howItEnded tells from what is there now: a target that is gone was replaced, one that is well has recovered.
func howItEnded(pass *explain.Pass, name string) remedyv1.RemediationOutcome {
	for i := range pass.Snapshot.Targets {
		switch {
		case pass.Snapshot.Targets[i].Name != name:
		case pass.Assessment.Verdicts[i].Recovered():
			return remedyv1.RecoveredOutcome
		case pass.Situation.Targets[i].Mark.Refused:
			return remedyv1.FailedOutcome
		default:
			return remedyv1.WithdrawnOutcome
		}
	}
	return remedyv1.ReplacedOutcome
}
