// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// history is what has really happened and is in no object: the world itself records it, and nothing of it is ever
// taken from what the controller remembers. A nil one remembers nothing: scenarios have none.
type history struct {
	// gone is when the Node of a Machine was deleted, by the Machine's body, and seenGone when a check that cares could have seen that.
	gone     map[int]time.Time
	seenGone map[trying]time.Time
	// tries are what each check has tried with each target.
	tries map[trying]*tries
	// storms are what each check has seen of its limit.
	storms map[string]*storms
	// recovered is since when the passes have seen the target of a request healthy; by the request's serial. ended are those given up, and
	// when first. healthyRecorded is when it was last recorded on a request that its target is healthy: an old leader can do that later again.
	recovered, ended, healthyRecorded map[int]time.Time
	// foreign are Nodes whose Lease another holder has had since the request was created.
	foreign map[string]bool
	// failed is when an attempt with a target has failed last, of any check; vague are those for which that is unknown from outside. By
	// the body.
	failed map[int]time.Time
	vague  map[int]bool
	// sight: a Node counts as missing from when that could have been read.
	sight bool
}

func newHistory() *history {
	return &history{
		gone: map[int]time.Time{}, seenGone: map[trying]time.Time{}, tries: map[trying]*tries{}, storms: map[string]*storms{},
		recovered: map[int]time.Time{}, ended: map[int]time.Time{}, healthyRecorded: map[int]time.Time{}, foreign: map[string]bool{}, failed: map[int]time.Time{}, vague: map[int]bool{},
	}
}

// trying is a check and a target, by its body.
type trying struct {
	check string
	body  int
}

// tries is what was tried with a target since it was last well.
type tries struct {
	// failures are attempts in a row of which every step has failed; the last one at failed, after which wait has to pass.
	failures int
	failed   time.Time
	wait     time.Duration
	// steps are those of the present attempt that were given up.
	steps []remediation.StepID
	// wished: an attempt was made since a person asked for one.
	wished bool
}

// body is that of a target, which neither a move nor another of the same name can change.
func (s *State) body(c *Check, target string) int {
	if c.ForNodes {
		return s.Nodes[target].uid()
	}
	if m := s.Machines[target]; m != nil {
		return m.Body
	}
	return 0
}

func (h *history) of(check string, body int) *tries {
	key := trying{check, body}
	if h.tries[key] == nil {
		h.tries[key] = &tries{}
	}
	return h.tries[key]
}

// doubled is how long to wait after so many failures in a row.
func doubled(b remediation.Backoff, failures int) time.Duration {
	wait := b.Initial
	for range failures - 1 {
		wait = min(2*wait, b.Limit)
	}
	return min(wait, b.Limit)
}

// noteEnd writes down that a request has come to its end, and whether that was a failure.
func (w *World) noteEnd(r *run, live *Request, d *remediation.Decision) {
	h := w.log
	if h == nil || d.Action != remediation.GiveUp {
		return
	}
	// It was decided then, and perhaps noted down; a controller that was stopped before this write does it now.
	when, known := h.ended[live.Serial]
	if known && when.IsZero() {
		return
	}
	if !known {
		when = w.Now
	}
	h.ended[live.Serial] = time.Time{}
	t := h.of(r.name, r.view.body(r.check, live.Target))
	if slices.ContainsFunc(r.check.Policy.Steps, func(s remediation.Step) bool { return after(s.ID, live.Step) }) {
		t.steps = append(t.steps, live.Step)
		return
	}
	t.failures++
	t.failed, t.wait, t.steps, t.wished = when, doubled(r.check.Policy.Backoff, t.failures), nil, true
	h.failed[r.view.body(r.check, live.Target)] = w.Now
}

// after reports whether a step follows another within an attempt.
func after(step, tried remediation.StepID) bool {
	return step.Order > tried.Order || step.Order == tried.Order && step != tried
}

// noteGivingUp writes down when it was decided first that a request is given up.
func (w *World) noteGivingUp(live *Request) {
	if _, known := w.log.ended[live.Serial]; !known {
		w.log.ended[live.Serial] = w.Now
	}
}

// noteMade forgets what other checks have tried: the next check continues from the annotations of the target.
func (w *World) noteMade(check string, body int) {
	for key := range w.log.tries {
		if key.body == body && key.check != check {
			delete(w.log.tries, key)
		}
	}
	w.dropDeletions(func(key trying) bool { return key.body == body && key.check != check })
}

// observe looks at everything that has changed by itself: who is well has nothing that would have to be remembered.
func (w *World) observe() {
	w.FollowOwners()
	h := w.log
	if h == nil {
		return
	}
	w.dropDeletions(func(key trying) bool {
		c := w.API.Checks[key.check]
		if c == nil {
			return true
		}
		name, found := w.API.named(c, key.body)
		return !found || w.forgets(w.API, c, name, Connection{Up: true})
	})
	for key, t := range h.tries {
		c := w.API.Checks[key.check]
		if c == nil {
			delete(h.tries, key)
			continue
		}
		name, found := w.API.named(c, key.body)
		if !found || w.forgets(w.API, c, name, Connection{Up: true}) {
			t.forget()
		}
	}
}

func (t *tries) forget() {
	t.failures, t.failed, t.steps, t.wished = 0, time.Time{}, nil, false
}

// back records that a Node exists again: its next deletion has to be read again.
func (h *history) back(body int) {
	for key := range h.seenGone {
		if key.body == body {
			delete(h.seenGone, key)
		}
	}
}

// forgets reports whether there is a reason to forget what was tried with a target: it is healthy, or the check does not monitor it any more.
func (w *World) forgets(s *State, c *Check, name string, conn Connection) bool {
	m, n := s.pair(c, name)
	j := w.judge(s, conn, c, m, n)
	return j.health == well || j.health == skipped && (m == nil || !m.Paused) || w.lets(s, c, name)
}

// lets reports whether a check releases a target, whatever its health.
func (w *World) lets(s *State, c *Check, name string) bool {
	m, n := s.pair(c, name)
	if m == nil && n == nil {
		return true
	}
	controlPlane := n != nil && n.ControlPlane || m != nil && m.ControlPlane
	return c.Deleting || c.Policy.Observe || s.Missing || !c.selects(controlPlane, name) || coveredBy(s, c, m, n, w.Now) != ""
}

// named is the target of a check with that body.
func (s *State) named(c *Check, body int) (string, bool) {
	if c.ForNodes {
		for name, n := range s.Nodes {
			if n.UID == body {
				return name, true
			}
		}
		return "", false
	}
	for name, m := range s.Machines {
		if m.Body == body {
			return name, true
		}
	}
	return "", false
}

// pair is the Machine and the Node of a target, of which either may be missing.
func (s *State) pair(c *Check, target string) (*Machine, *Node) {
	if c.ForNodes {
		return s.machineOf(target), s.Nodes[target]
	}
	m := s.Machines[target]
	if m == nil {
		return nil, nil
	}
	return m, s.Nodes[m.Node]
}

// edited records that a check has other settings: what was to come after a step may not be named any more, and the wait may be shorter.
func (w *World) edited(c *Check) {
	if w.log == nil {
		return
	}
	w.dropDeletions(func(key trying) bool { return key.check == c.Name })
	for key, t := range w.log.tries {
		if key.check == c.Name {
			// An attempt of which nothing more is to come is over: that is a failure, too.
			w.log.vague[key.body] = true
			// One that is under way may continue.
			t.wished = t.wished && len(t.steps) == 0
			t.steps, t.wait = nil, min(t.wait, c.Policy.Backoff.Limit)
		}
	}
}
