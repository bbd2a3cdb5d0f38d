// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strconv"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// deletion is a request that another client has deleted or stripped: the next one has to wait, unless it is that of another step.
type deletion struct {
	at   time.Time
	step remediation.StepID
}

// memory is what the running process remembers of the requests of a check.
func (w *World) memory(check string) *remediation.RequestMemory {
	if w.memories == nil {
		w.memories = map[string]*remediation.RequestMemory{}
	}
	if w.memories[check] == nil {
		w.memories[check] = &remediation.RequestMemory{}
	}
	return w.memories[check]
}

// remember reads the requests of all targets. An old leader has a memory of its own, which is not modeled.
func (r *run) remember(situation *remediation.Situation) {
	if r.old || r.w.polls {
		return
	}
	for _, request := range r.view.Requests {
		if request.Check == r.name && r.w.deletions != nil {
			r.w.known[request.Serial] = true
		}
	}
	memory, there := r.w.memory(r.name), map[string]bool{}
	for i := range situation.Targets {
		t := &situation.Targets[i]
		id := r.identity(t.Name)
		there[id], t.DeletedRequests = true, memory.Read(id, t.Request, r.w.Now)
		if t.Request == nil {
			r.w.must(t.DeletedRequests.Times == 0 || r.w.endedByOld[r.name+id], "no request counts as deleted by others", "%s counts %d for %s", r.name, t.DeletedRequests.Times, t.Name)
		}
	}
	memory.Keep(func(target string) bool { return there[target] })
}

// noteCreated is what the process remembers of a request that it creates.
func (w *World) noteCreated(r *run, made *Request) {
	if r.old {
		return
	}
	w.memory(r.name).Created(r.identity(made.Target), made.Step, made.Attempt, w.Now)
	if w.deletions != nil {
		w.known[made.Serial] = true
	}
}

// noteDeleted is the same for one that it deletes.
func (w *World) noteDeleted(r *run, target string) {
	if r.old {
		w.endedByOld[r.name+r.identity(target)] = true
		return
	}
	w.memory(r.name).Ended(r.identity(target))
}

func (r *run) identity(target string) string { return strconv.Itoa(r.view.uidOf(r.check, target)) }

// forgetDeletions is called after a reconcile: what is healthy has nothing to wait for.
func (r *run) forgetDeletions() {
	if r.old || r.w.polls {
		return
	}
	for i := range r.pass.Assessment.Verdicts {
		if r.pass.Assessment.Verdicts[i].Recovered() {
			r.w.memory(r.name).Recovered(r.identity(r.pass.Situation.Targets[i].Name))
		}
	}
}

// DeleteRequests lets other clients delete requests from now on. What a history expects of remediations does not hold then.
func (w *World) DeleteRequests() { w.deletions, w.known = map[trying]*deletion{}, map[int]bool{} }

// deleteRequests: a remediator, a webhook or a person deletes requests or their annotations, while their targets are unhealthy.
func (w *World) deleteRequests() {
	for _, key := range sorted(w.API.Requests) {
		r := w.API.Requests[key]
		c := w.API.Checks[r.Check]
		if c == nil || !r.DeletingSince.IsZero() || r.TimedOut || w.rarely(4) {
			continue
		}
		step, what := r.Step, "deleted"
		if step.Order >= 0 && w.known[r.Serial] && w.draw.IntN(2) == 0 {
			stripped := *r
			stripped.Step.Order, stripped.Attempt, what = -1, 1, "stripped of its annotations"
			w.API.Requests[key] = &stripped
		} else {
			delete(w.API.Requests, key)
		}
		// One that an old leader has created may never be read.
		if w.known[r.Serial] {
			w.deletions[trying{c.Name, w.API.body(c, r.Target)}] = &deletion{w.Now, step}
		}
		w.note(key + " is " + what + " by another client")
	}
	w.changed()
}

// auditCreateAgain: requests are not created one after the other if other clients delete them.
func (w *World) auditCreateAgain(r *run, d *remediation.Decision, target string) {
	if w.deletions == nil || r.old {
		return
	}
	key := trying{r.name, r.view.body(r.check, target)}
	last := w.deletions[key]
	if last == nil {
		return
	}
	delete(w.deletions, key)
	w.premise("requests are not repeated at once")
	if waits := r.check.Policy.Backoff.Initial; !after(d.Step, last.step) && w.Now.Before(last.at.Add(waits)) {
		w.violated("requests are not repeated at once: %s creates one for %s, and the last was deleted at %v", r.name, target, last.at)
	}
}

// dropDeletions drops what no longer delays the next request: the target was healthy, or another check, specification or process continues.
func (w *World) dropDeletions(drop func(trying) bool) {
	for key := range w.deletions {
		if drop(key) {
			delete(w.deletions, key)
		}
	}
}
