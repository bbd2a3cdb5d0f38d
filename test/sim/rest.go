// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"
)

// rest is a time in which nothing happens but what checks do by themselves. They look when their caches show something new and when they
// wanted to be woken up. Whatever is due has to be done at that very moment; and a reconcile without a reason must find nothing to do.
func (w *World) rest() {
	w.calm = true
	w.noticeConnection()
	if w.drain() {
		w.auditRest()
	}
	for jumps := 2 + w.draw.IntN(6); jumps > 0 && len(w.Violations) == 0; jumps-- {
		w.jump()
	}
	w.calm = false
}

func (w *World) noticeConnection() {
	w.Conn.Breaking = false
	if w.Conn.Up == w.Reachable {
		return
	}
	w.Conn.Up = w.Reachable
	if w.changed(); w.Conn.Up {
		w.Conn.ReconnectingUntil = w.Now.Add(50 * time.Second)
	}
}

// drain lets every check look until none has anything new to look at. False if that never comes.
func (w *World) drain() bool {
	for range 60 {
		w.letGo()
		w.deliver()
		queued := w.queued()
		if len(queued) == 0 {
			return true
		}
		for _, name := range queued {
			w.reconcile(name)
		}
	}
	w.violated("I7 it never comes to rest")
	return false
}

// letGo lets remediators remove their finalizers from deleted requests, if they do that at all.
func (w *World) letGo() {
	for key, r := range w.API.Requests {
		if !r.DeletingSince.IsZero() && !r.Stuck && w.letsGo(r) {
			delete(w.API.Requests, key)
			w.changed()
		}
	}
}

// jump lets time pass, to a moment at which something is due, or to any. On the way checks look when they wanted to be woken up.
func (w *World) jump() {
	until := w.Now.Add(time.Duration(1+w.draw.IntN(600)) * time.Second)
	if due := w.nextDue(); w.rarely(2) && !due.IsZero() {
		until = due
	}
	for len(w.Violations) == 0 {
		name, next := w.nextWake()
		if name == "" || next.After(until) {
			break
		}
		if next.After(w.Now) && w.rarely(2) {
			w.poll(next.Add(-time.Second))
		}
		if w.wakeUp(next); !w.drain() {
			return
		}
		w.auditRest()
	}
	w.poll(until)
	w.Now = until
	w.Steps++
	w.auditRest()
}

// wakeUp lets all look that wanted to be woken up then.
func (w *World) wakeUp(then time.Time) {
	w.Now = then
	for name, wake := range w.wakes {
		if !wake.After(then) {
			w.queue[name] = true
			delete(w.wakes, name)
		}
	}
}

// poll looks at that time, on a copy of the world: a new decision has missed its wake-up.
func (w *World) poll(then time.Time) {
	if !then.After(w.Now) || len(w.Violations) > 0 {
		return
	}
	copied := *w
	copied.Now, copied.API, copied.Cache, copied.log, copied.Violations = then, w.API.Copy(), w.Cache, nil, nil
	copied.Premises, copied.counted, copied.Story, copied.polls = map[string]int{}, map[string]int{}, nil, true
	for _, name := range sorted(w.API.Checks) {
		pass, _ := copied.Reconcile(name)
		w.must(pass.Writes == 0, "I7 an extra reconcile finds nothing to do", "at %v %s writes %v %v", then.Format(time.TimeOnly), name, pass.CheckWrote, pass.Wrote)
		last := w.last[name]
		if last == nil {
			continue
		}
		for i := range pass.Plan.Decisions {
			a, b := &last.Plan.Decisions[i], &pass.Plan.Decisions[i]
			w.must(a.Action == b.Action && a.Why == b.Why && a.Block.Reason == b.Block.Reason && last.Assessment.Verdicts[i].Kind == pass.Assessment.Verdicts[i].Kind,
				"I6 a waiting target is woken up", "at %v %s of %s has become %v of %v: %s %s", then.Format(time.TimeOnly), pass.Situation.Targets[i].Name, name,
				b.Action, pass.Assessment.Verdicts[i].Kind, b.Why, b.Block.Reason)
		}
	}
}

// nextDue is a time at which something changes, by the truth.
func (w *World) nextDue() time.Time {
	var all []time.Time
	add := func(t time.Time) {
		if t.After(w.Now) {
			all = append(all, t)
		}
	}
	for _, name := range sorted(w.API.Checks) {
		c := w.API.Checks[name]
		for _, m := range w.API.Machines {
			add(w.judge(w.API, w.Conn, c, m, w.API.Nodes[m.Node]).due)
			if !m.MarkedSince.IsZero() {
				add(m.MarkedSince.Add(30 * time.Minute))
			}
			if !m.DeletingSince.IsZero() {
				add(m.DeletingSince.Add(30 * time.Minute))
			}
		}
		for _, r := range w.API.Requests {
			if !r.DeletingSince.IsZero() {
				add(r.DeletingSince.Add(keptTime))
			}
			if step, found := c.stepOf(r.Step); found && r.Check == name {
				add(r.Started.Add(step.Timeout))
				add(c.ThawedAt.Add(step.Timeout))
			}
			add(w.log.healthyRecorded[r.Serial].Add(c.Policy.HealthyDelay))
		}
		if s := w.log.storms[name]; s != nil && !s.kept.IsZero() {
			add(s.kept.Add(c.Policy.StormCooldown))
		}
	}
	for _, t := range w.log.tries {
		add(t.failed.Add(t.wait))
	}
	for _, n := range w.API.Nodes {
		add(n.BlockedUntil)
		add(n.Since.Add(10 * time.Minute))
		if n.Terminating.Sign != "" {
			add(n.Terminating.Since.Add(30 * time.Minute))
		}
	}
	if len(all) == 0 {
		return time.Time{}
	}
	// The next one mostly; whatever lies between it and a later one is due then.
	slices.SortFunc(all, time.Time.Compare)
	if w.rarely(4) {
		return all[w.draw.IntN(len(all))]
	}
	return all[0]
}

// auditRest is what holds when no actor has anything to do for now.
func (w *World) auditRest() {
	w.moment()
	for _, key := range slices.Sorted(maps.Keys(w.API.Requests)) {
		w.auditLeftRequest(key, w.API.Requests[key])
	}
	for _, m := range w.API.Machines {
		if w.API.Nodes[m.Node] != nil && !w.frozenSomewhere() {
			// All readers could have seen that it is back, and recorded it.
			delete(w.log.gone, m.Body)
		}
		for key := range w.log.seenGone {
			if c := w.API.Checks[key.check]; key.body == m.Body && (w.log.gone[m.Body].IsZero() || c == nil || !c.selects(m.ControlPlane, m.Name)) {
				delete(w.log.seenGone, key)
			}
		}
	}
	for _, name := range sorted(w.API.Checks) {
		c, last := w.API.Checks[name], w.last[name]
		if last == nil || w.API.Paused || c.Paused {
			continue
		}
		w.auditCheckAtRest(c)
		w.auditStatusAtRest(c, last)
		for i := range last.Situation.Targets {
			w.auditTargetAtRest(c, last, i)
		}
	}
	w.auditLeftovers()
}

// auditCheckAtRest: a check that is deleted is there only as long as something of it is; a storm is noted; a turn is needed.
func (w *World) auditCheckAtRest(c *Check) {
	requests, spares := 0, false
	for _, r := range w.API.Requests {
		if r.Check == c.Name {
			requests++
			spares = spares || r.ControlPlane && !w.isOver(w.API, w.live(), c, r)
		}
	}
	paused := false
	for _, m := range w.API.Machines {
		paused = paused || m.Paused
	}
	if c.Deleting && !paused && w.Conn.Up {
		w.must(requests > 0, "a check that is deleted goes", "%s is still there", c.Name)
	}
	w.must(w.stormy(c.Name) == !c.Storm.Since.IsZero(), "a storm is noticed", "that of %s", c.Name)
	if w.API.Turn.Holder == c.Name && w.live().Up && w.API.monitorsMember(c) {
		w.must(spares, "a control-plane lease is released", "%s still has it", c.Name)
	}
}

// auditLeftRequest: a request of a check for a target that does not exist, or that it does not monitor any more, times out, and is deleted.
func (w *World) auditLeftRequest(key string, r *Request) {
	c := w.API.Checks[r.Check]
	if r.Check == stranger || c == nil || w.API.Paused || c.Paused {
		return
	}
	selected, gone := w.API.target(c, r.TargetUID)
	if selected {
		return
	}
	if m := w.API.Machines[r.Target]; m != nil && m.Paused && !c.ForNodes {
		return
	}
	_, named := c.stepOf(r.Step)
	if gone && r.NodeDeletionExpected && named && !r.Succeeded && !r.Failed && !r.TimedOut && r.DeletingSince.IsZero() &&
		!c.Deleting && !c.Policy.Observe && !w.API.Missing && mayRestore(c, &r.Request, w.Now) {
		w.premise("who deletes the Node may finish")
		return
	}
	w.must(!r.DeletingSince.IsZero(), "an orphaned request is deleted", "%s is still there", key)
	if gone {
		w.must(r.TimedOut, "a remediator without a target is stopped", "%s", key)
	}
}

// auditLeftovers: no object names a check that does not exist, and nothing is remembered of a target without a check.
func (w *World) auditLeftovers() {
	for _, m := range w.API.Machines {
		w.must(m.Author == "" || w.API.Checks[m.Author] != nil, "nothing is left over", "the marks of %s on %s", m.Author, m.Name)
		if m.History.Failures > 0 && !w.frozenSomewhere() {
			w.must(w.API.coveredAtAll(m, nil), "nothing is left over", "a history on %s", m.Name)
		}
	}
	for _, n := range w.API.Nodes {
		if n.Holder != "" && n.Holder != stranger {
			w.must(w.API.Checks[n.Holder] != nil, "nothing is left over", "a Lease of %s on %s", n.Holder, n.Name)
		}
		if n.History.Failures > 0 && w.Conn.Up && !w.frozenSomewhere() {
			w.must(w.API.coveredAtAll(nil, n), "nothing is left over", "a history on %s", n.Name)
		}
	}
	if turn := &w.API.Turn; turn.Holder != "" && w.Now.Before(turn.Until) && w.live().Up && turn.Version != w.expires {
		w.must(w.API.Checks[turn.Holder] != nil, "nothing is left over", "the turn of %s", turn.Holder)
	}
	for key, r := range w.API.Requests {
		w.must(r.Check == stranger || w.API.Checks[r.Check] != nil, "nothing is left over", "%s", key)
	}
}

// monitorsMember reports whether a check monitors a member of the control plane. One that no longer does lets its Lease expire.
func (s *State) monitorsMember(c *Check) bool {
	for _, m := range s.Machines {
		if node := s.Nodes[m.Node]; m.ControlPlane && (!c.ForNodes && c.selects(true, m.Name) || c.ForNodes && node != nil && c.selects(true, node.Name)) {
			return true
		}
	}
	return false
}

// frozenSomewhere: something is paused, so that not everything can be cleaned up.
func (w *World) frozenSomewhere() bool {
	for _, c := range w.API.Checks {
		if c.Paused {
			return true
		}
	}
	for _, m := range w.API.Machines {
		if m.Paused {
			return true
		}
	}
	return w.API.Paused
}
