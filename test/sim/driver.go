// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Step does one thing: mostly something happens, or a check looks. A check looks when its cache has shown something new, and when it wanted
// to be woken up, and at no other time.
func (w *World) Step() {
	if w.deletions != nil && w.rarely(3) {
		w.deleteRequests()
	}
	switch k := w.draw.IntN(200); {
	case k < 70:
		w.event()
	case k < 90:
		w.passTime(time.Duration(1+w.draw.IntN(240)) * time.Second)
	case k < 125:
		w.deliver()
	case k < 196:
		w.someReconcile()
	default:
		w.rest()
	}
	w.audit()
}

// deliver brings the cache up to date. Watches notify if something is new.
func (w *World) deliver() {
	w.deliveredAt = w.Now
	if w.changes == w.delivered && w.Cache != nil {
		return
	}
	w.delivered = w.changes
	if w.older == nil || w.rarely(2) {
		w.older = w.Cache
	}
	if w.Cache = w.API.Copy(); w.older == nil {
		w.older = w.Cache
	}
	for name := range w.API.Checks {
		w.queue[name] = true
	}
}

// restart is a new leader: it remembers nothing, and looks at everything once its caches are filled.
func (w *World) restart() {
	w.records.restart()
	w.memories = nil
	clear(w.known)
	w.dropDeletions(func(trying) bool { return true })
	clear(w.wakes)
	clear(w.last)
	for _, m := range w.API.Machines {
		m.UnpausedAt = time.Time{}
	}
	w.Conn = Connection{Up: w.Reachable}
	w.changed()
	w.deliver()
}

// passTime lets time pass. Checks look when they wanted to be woken up.
func (w *World) passTime(lasting time.Duration) {
	until := w.Now.Add(lasting)
	defer func() { w.Now = until }()
	for {
		name, next := w.nextWake()
		if name == "" || next.After(until) {
			break
		}
		if next.After(w.Now) {
			// A cache lags by moments, and not by minutes.
			w.deliver()
		}
		// Several can be due at the same moment, and look together.
		w.wakeUp(next)
		for rounds := 0; w.queue[name] && rounds < 4; rounds++ {
			w.someReconcile()
		}
	}
	if until.Sub(w.deliveredAt) >= time.Minute {
		w.deliver()
	}
}

func (w *World) nextWake() (string, time.Time) {
	var first string
	for _, name := range names {
		if wake, found := w.wakes[name]; found && (first == "" || wake.Before(w.wakes[first])) {
			first = name
		}
	}
	return first, w.wakes[first]
}

// queued are the checks that have something to look at, in the order of their names.
func (w *World) queued() []string {
	var all []string
	for _, name := range names {
		if w.queue[name] {
			all = append(all, name)
		}
	}
	return all
}

// someReconcile reconciles one check, or several at the same time: another check, and an earlier leader with an older cache that has not
// noticed its end yet.
func (w *World) someReconcile() {
	queued := w.queued()
	if len(queued) == 0 {
		w.event()
		return
	}
	i := w.draw.IntN(len(queued))
	runs := []*run{w.begin(queued[i])}
	if other := w.draw.IntN(len(queued)); other != i {
		runs = append(runs, w.begin(queued[other]))
	}
	if w.rarely(6) {
		name := runs[0].name
		if w.rarely(4) {
			name = names[w.draw.IntN(len(names))]
		}
		old := w.newRun(name, w.older)
		old.old = true
		runs = append(runs, old)
	}
	if w.rarely(12) {
		runs[0].crashIn, runs[0].crashLate = w.draw.IntN(6), w.rarely(2)
	}
	if len(runs) > 1 {
		w.interleave(runs)
	} else {
		runs[0].others = func() {
			if w.rarely(8) {
				w.event()
			}
		}
		runs[0].reconcile()
	}
	for _, r := range runs {
		w.conclude(r)
	}
}

// begin is a pass of the present leader.
func (w *World) begin(name string) *run {
	if w.outdated[name] {
		w.deliver()
	}
	delete(w.queue, name)
	delete(w.outdated, name)
	delete(w.wakes, name)
	return w.newRun(name, w.Cache)
}

// reconcile reconciles a check while nothing else happens.
func (w *World) reconcile(name string) {
	r := w.begin(name)
	r.reconcile()
	w.conclude(r)
}

// interleave lets passes go on by turns: each stops before every look and every write, and any of them may be the next. Now and then
// something else happens.
func (w *World) interleave(runs []*run) {
	var steps []func() (struct{}, bool)
	for _, r := range runs {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			r.others = func() { yield(struct{}{}) }
			r.reconcile()
		})
		defer stop()
		steps = append(steps, next)
	}
	// In half of the cases one of them stops somewhere, and goes on only when all the others are done: whatever must not happen in between
	// does.
	first, lasting := w.draw.IntN(len(steps)), 0
	if w.rarely(2) {
		lasting = 1 + w.draw.IntN(16)
	}
	for turn := 0; len(steps) > 0; turn++ {
		if w.rarely(12) {
			w.event()
		}
		i := w.draw.IntN(len(steps))
		if lasting > 0 && len(steps) == len(runs) {
			if i = first; turn >= lasting {
				i = (first + 1 + w.draw.IntN(len(steps)-1)) % len(steps)
			}
		}
		if _, more := steps[i](); !more {
			steps = slices.Delete(steps, i, i+1)
		}
	}
}

// conclude is what the shell does after a pass: it looks again at once if something has failed, and otherwise when it wants to be woken up.
func (w *World) conclude(r *run) {
	w.Steps++
	w.moment()
	if r.check != nil {
		w.noteHealth(r, true)
		r.forgetDeletions()
		w.reached(&r.pass)
		w.countPremises(r)
	}
	switch {
	case r.old:
	case r.crashed:
		w.restart()
	case w.API.Checks[r.name] == nil && r.check == nil:
	case r.err != nil && !errors.Is(r.err, errUnreachable), r.err == nil && r.elapsed > 0 && r.wakeUp.Equal(w.Now):
		w.note(fmt.Sprint(r.name, " is reconciled again at once: ", r.err))
		w.queue[r.name], w.outdated[r.name] = true, r.err != nil
	case r.err != nil:
		w.last[r.name] = &r.pass
		w.wakes[r.name] = w.Now.Add(remediation.RetryTime)
		if !r.wakeUp.IsZero() && r.wakeUp.Before(w.wakes[r.name]) {
			w.wakes[r.name] = r.wakeUp
		}
	default:
		w.last[r.name] = &r.pass
		if !r.wakeUp.IsZero() {
			w.must(r.wakeUp.After(w.Now), "a wake-up is ahead", "%s wants to be woken up at %v", r.name, r.wakeUp)
			w.wakes[r.name] = r.wakeUp
		}
	}
	w.observe()
}

// reached counts what was decided.
func (w *World) reached(pass *Pass) {
	for i := range pass.Plan.Decisions {
		d := &pass.Plan.Decisions[i]
		if d.Block.Reason != "" {
			w.premise("hold " + string(d.Block.Reason))
		}
		if d.Action > remediation.Wait {
			w.premise(actionWords[d.Action] + " " + string(d.Why))
		}
	}
}

var actionWords = map[remediation.Action]string{
	remediation.StartRequest: "make a request", remediation.RequestOwnerRemediation: "give a mark", remediation.GiveUp: "give up", remediation.Withdraw: "withdraw",
	remediation.CancelOwnerRemediation: "cancel", remediation.RemoveConditions: "unmark",
}

// violated reports a broken invariant.
func (w *World) violated(format string, args ...any) {
	w.Violations = append(w.Violations, fmt.Sprintf(format, args...))
}
