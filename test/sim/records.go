// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// records are what the manager has recorded about remediations, and the requests that really existed.
type records struct {
	// memories are those of the running process, by the names of checks.
	memories map[string]*report.Memory
	// started are how many requests the running process has counted, by the names of checks.
	started  map[string]int
	requests []*requestTruth
	// requested are the times at which OwnerRemediated=False was set, by the names of Machines.
	requested map[string][]time.Time
}

// ownerRequested is called when OwnerRemediated=False is set on a Machine.
func (r *records) ownerRequested(machine string, at time.Time) {
	if r.requested == nil {
		r.requested = map[string][]time.Time{}
	}
	r.requested[machine] = append(r.requested[machine], at)
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
	r.memories, r.started = map[string]*report.Memory{}, map[string]int{}
	for _, truth := range r.requests {
		truth.why, truth.ofThisProcess = "", false
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

// recordPass records a reconcile, as the manager does, and compares the result with what really happened.
func (r *run) recordPass(complete bool) {
	w, pass := r.w, &r.pass
	if r.old || pass.Situation.Check.Paused {
		return
	}
	memory := w.records.memories[r.name]
	if memory == nil {
		memory = &report.Memory{}
		w.records.memories[r.name] = memory
	}
	_, started, ended := memory.Compare(&explain.Evaluation{
		Check: r.name, Snapshot: &pass.Snapshot, Assessment: &pass.Assessment, Situation: &pass.Situation, Policy: &r.check.Policy, Planned: &pass.Plan,
	}, w.Now)
	for i := range started {
		if !started[i].ByOwner {
			w.records.started[r.name]++
		}
	}
	for i := range ended {
		if e := &ended[i].RecentRemediation; ended[i].ByOwner {
			set := slices.ContainsFunc(w.records.requested[e.Target], func(at time.Time) bool { return at.Truncate(time.Second).Equal(e.StartTime.Time) })
			w.must(set, "records are true", "%s: no owner remediation of %s was requested at %s", r.name, e.Target, e.StartTime)
		} else {
			w.auditEnded(r.name, e)
		}
	}
	if !complete {
		return
	}
	for i := range pass.Plan.Decisions {
		name := pass.Snapshot.Targets[i].Name
		wrote := func(write remediation.Write) bool { return slices.Contains(pass.Wrote[name], write) }
		// A Machine without an owner only gets the conditions.
		starts := wrote(remediation.CreateRequest) || wrote(remediation.SetOwnerRemediated) && pass.Situation.Targets[i].Owner != ""
		// The start of an earlier reconcile may be found later, if its response was lost.
		reported := pass.Plan.Decisions[i].Starts() &&
			slices.ContainsFunc(started, func(s report.StartedRemediation) bool {
				return s.Target == name && s.Event.Reason == explain.RemediationStarted
			})
		w.premise("events are true")
		w.must(starts == reported, "events are true", "%s: started %v, reported %v", name, starts, reported)
	}
}

// auditEnded compares an entry of a status with the request that it is about.
func (w *World) auditEnded(check string, e *remedyv1.RecentRemediation) {
	w.premise("records are true")
	at := slices.IndexFunc(w.records.requests, func(truth *requestTruth) bool {
		return truth.Check == check && truth.Target == e.Target && !truth.recorded && truth.Started.Truncate(time.Second).Equal(e.StartTime.Time)
	})
	if at < 0 {
		w.must(false, "records are true", "no request of %s for %s was started at %s", check, e.Target, e.StartTime)
		return
	}
	truth := w.records.requests[at]
	truth.recorded = true
	live := w.API.Requests[truth.Kind+"/"+truth.Name]
	w.must(live == nil || live.Serial != truth.Serial, "records are true", "the request of %s for %s still exists", check, e.Target)
	if e.Step != nil && !truth.alone {
		w.must(int(*e.Step) == int(truth.Step.Order), "records are true", "%s: step %d is recorded as %d", e.Target, truth.Step.Order, *e.Step)
	}
	outcomes := map[remediation.Reason]remedyv1.RemediationOutcome{
		remediation.StepTimedOut: remedyv1.TimedOutOutcome, remediation.StepFailed: remedyv1.FailedOutcome, remediation.Recovered: remedyv1.RecoveredOutcome,
	}
	if wanted, known := outcomes[truth.why]; known {
		w.must(e.Outcome == wanted, "records are true", "%s ended by %s is recorded as %s", e.Target, truth.why, e.Outcome)
	}
	for reason, outcome := range outcomes {
		if e.Outcome == outcome && outcome != remedyv1.RecoveredOutcome {
			// The history may record the end of a step whose request another writer has deleted then.
			w.must(truth.why == "" || truth.why == reason || !truth.ofThisProcess, "records are true", "%s is recorded as %s, and ended by %q", e.Target, outcome, truth.why)
		}
	}
}

// Miscounted returns the checks of which the running process has counted more or fewer starts than it has created requests. It may count
// those that an old leader creates at the same time.
func (w *World) Miscounted() []string {
	created, byOthers := map[string]int{}, map[string]int{}
	for _, truth := range w.records.requests {
		if truth.ofThisProcess {
			created[truth.Check]++
		} else {
			byOthers[truth.Check]++
		}
	}
	var all []string
	for name, c := range w.API.Checks {
		least, counted := created[name], w.records.started[name]
		if !c.Paused && !w.API.Paused && (counted < least || counted > least+byOthers[name]) {
			all = append(all, fmt.Sprintf("%s: %d created, %d counted", name, least, counted))
		}
	}
	return all
}

// Unrecorded returns the requests that have ended without an entry, of checks that exist: a restart loses some, and only these.
func (w *World) Unrecorded() []string {
	var all []string
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
