// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// records are what the manager has recorded about remediations, and the requests that really existed.
type records struct {
	// memories are those of the running process, by the names of checks.
	memories map[string]*report.Memory
	// started are how many requests the running process has counted, by the names of checks.
	started, startedByOwner map[string]int
	// ended are how many remediations the running process has counted as ended, and trueEnds how many it should have counted.
	ended, trueEnds map[endedCount]int
	requests        []*requestTruth
	byOwner         []*ownerTruth
	// statuses are those of checks, and entries the remediations that these statuses must have, the latest last. A restart loses those that
	// were not written.
	statuses map[string]*remedyv1.CheckStatus
	entries  map[string][]remedyv1.RecentRemediation
}

// endedCount is a counter of remediations that have ended.
type endedCount struct {
	check   string
	byOwner bool
	outcome metrics.Outcome
}

// counted are the outcomes as metrics count them.
var counted = map[remedyv1.RemediationOutcome]metrics.Outcome{
	remedyv1.RecoveredOutcome: "recovered", remedyv1.ReplacedOutcome: "replaced", remedyv1.FailedOutcome: "failed",
	remedyv1.TimedOutOutcome: "timed_out", remedyv1.WithdrawnOutcome: "withdrawn",
}

func newRecords() records {
	r := records{statuses: map[string]*remedyv1.CheckStatus{}}
	r.restart()
	return r
}

// requestTruth is a request as the API server has seen it.
type requestTruth struct {
	*Request
	// step is that of its check, and alone is set if the check had no other.
	alone bool
	// why is why the running process has deleted it; empty if it has not.
	why remediation.Reason
	// ofThisProcess: the running process has created it. recorded: a status has its end.
	ofThisProcess, recorded bool
}

// restart forgets what only the process knew.
func (r *records) restart() {
	r.memories, r.started, r.startedByOwner = map[string]*report.Memory{}, map[string]int{}, map[string]int{}
	r.ended, r.trueEnds, r.entries = map[endedCount]int{}, map[endedCount]int{}, map[string][]remedyv1.RecentRemediation{}
	for check, status := range r.statuses {
		r.entries[check] = slices.Clone(status.RecentRemediations)
		slices.Reverse(r.entries[check])
	}
	for _, truth := range r.requests {
		truth.why, truth.ofThisProcess = "", false
	}
	for _, truth := range r.byOwner {
		truth.ofThisProcess = false
	}
}

// forget forgets a check that no longer exists.
func (r *records) forget(check string) {
	delete(r.memories, check)
	delete(r.statuses, check)
	delete(r.entries, check)
	delete(r.started, check)
	delete(r.startedByOwner, check)
	of := func(c endedCount, _ int) bool { return c.check == check }
	maps.DeleteFunc(r.ended, of)
	maps.DeleteFunc(r.trueEnds, of)
	for _, truth := range r.requests {
		truth.ofThisProcess = truth.ofThisProcess && truth.Check != check
	}
	for _, truth := range r.byOwner {
		truth.ofThisProcess = truth.ofThisProcess && truth.check != check
	}
}

func (r *records) created(request *Request, steps int, old bool) {
	r.requests = append(r.requests, &requestTruth{Request: request, alone: steps == 1, ofThisProcess: !old})
}

// AddRequest adds a request that the previous leader has created.
func (w *World) AddRequest(request *Request, steps int) {
	request.Serial = w.moment()
	w.API.Requests[request.Kind+"/"+request.Name] = request
	w.records.created(request, steps, true)
}

func (r *records) deleted(request *Request, why remediation.Reason, old bool) {
	for _, truth := range r.requests {
		if truth.Serial == request.Serial && !old && request.DeletingSince.IsZero() {
			truth.why = why
		}
	}
}

// auditEnded compares an entry of a status with the request that it is about.
func (w *World) auditEnded(check string, e *remedyv1.RecentRemediation, why string) {
	w.premise("records are true")
	started := func(truth *requestTruth) bool {
		return truth.Check == check && truth.Target == e.Target && !truth.recorded && truth.Started.Truncate(time.Second).Equal(e.StartTime.Time)
	}
	// An old leader may end a step in the second of its start, and the next step starts in the same second.
	at := slices.IndexFunc(w.records.requests, func(truth *requestTruth) bool {
		return started(truth) && e.Step != nil && truth.Step.Order == *e.Step
	})
	if at < 0 {
		at = slices.IndexFunc(w.records.requests, started)
	}
	if at < 0 {
		w.must(false, "records are true", "no request of %s for %s was started at %s", check, e.Target, e.StartTime)
		return
	}
	truth := w.records.requests[at]
	truth.recorded = true
	w.records.trueEnds[endedCount{check, false, counted[e.Outcome]}]++
	live := w.API.Requests[truth.Kind+"/"+truth.Name]
	w.must(live == nil || live.Serial != truth.Serial || kept(&live.Request, w.Now), "records are true", "the request of %s for %s still exists", check, e.Target)
	if e.Step != nil && !truth.alone {
		w.must(int(*e.Step) == int(truth.Step.Order), "records are true", "%s: step %d is recorded as %d", e.Target, truth.Step.Order, *e.Step)
	}
	outcomes := map[remediation.Reason]remedyv1.RemediationOutcome{
		remediation.StepTimedOut: remedyv1.TimedOutOutcome, remediation.StepFailed: remedyv1.FailedOutcome, remediation.Recovered: remedyv1.RecoveredOutcome,
	}
	if wanted, known := outcomes[truth.why]; known {
		w.must(e.Outcome == wanted, "records are true", "%s ended by %s is recorded as %s", e.Target, truth.why, e.Outcome)
		w.must(why == string(truth.why), "events are true", "%s ended by %s has an event for %s", e.Target, truth.why, why)
	}
	for reason, outcome := range outcomes {
		if e.Outcome == outcome && outcome != remedyv1.RecoveredOutcome {
			// The history may record the end of a step whose request another writer has deleted then.
			w.must(truth.why == "" || truth.why == reason || !truth.ofThisProcess, "records are true", "%s is recorded as %s, and ended by %q", e.Target, outcome, truth.why)
		}
	}
}

// Miscounted returns the checks of which the running process has counted more or fewer starts than it has created requests or requested owner
// remediations, or other ends than there were. It may count starts of an old leader at the same time.
func (w *World) Miscounted() []string {
	var all []string
	for name, c := range w.API.Checks {
		if c.Paused || w.API.Paused {
			continue
		}
		created, requested := started{}, started{}
		for _, truth := range w.records.requests {
			created.add(truth.Check == name, truth.ofThisProcess, 1)
		}
		for _, truth := range w.records.byOwner {
			requested.add(truth.check == name, truth.ofThisProcess, truth.starts)
			// An owner that continues in the second of the start looks like one that starts.
			requested.add(truth.check == name, false, truth.entries-1)
		}
		for what, n := range map[string]int{"created": w.records.started[name], "requested of owners": w.records.startedByOwner[name]} {
			truth := map[string]started{"created": created, "requested of owners": requested}[what]
			if n < truth.own || n > truth.own+truth.byOthers {
				all = append(all, fmt.Sprintf("%s: %d %s, %d counted", name, truth.own, what, n))
			}
		}
	}
	if !maps.Equal(w.records.ended, w.records.trueEnds) {
		all = append(all, fmt.Sprintf("%v have ended, %v counted", w.records.trueEnds, w.records.ended))
	}
	return all
}

// started are how many remediations of a check the running process has started, and others.
type started struct{ own, byOthers int }

func (s *started) add(ofCheck, own bool, n int) {
	switch {
	case ofCheck && own:
		s.own += n
	case ofCheck:
		s.byOthers += n
	}
}

// Unrecorded returns the remediations that have ended without an entry, of checks that exist: a restart loses some, and only these.
func (w *World) Unrecorded() []string {
	all := w.unrecordedOwners()
	for _, truth := range w.records.requests {
		c := w.API.Checks[truth.Check]
		live := w.API.Requests[truth.Kind+"/"+truth.Name]
		if c == nil || c.Deleting || c.Paused || w.API.Paused || truth.recorded || !truth.ofThisProcess || live != nil && live.Serial == truth.Serial {
			continue
		}
		all = append(all, truth.Check+": "+truth.Kind+"/"+truth.Name)
	}
	return all
}
