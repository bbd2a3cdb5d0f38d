// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// stranger is another remediator, without any check of Remedy.
const stranger = "other-remediator"

func (w *World) userEvent() {
	n, m := w.anyNode(), w.anyMachine()
	if n == nil || m == nil {
		return
	}
	there := sorted(w.API.Checks)
	if len(there) < len(names) && w.rarely(6) {
		w.createCheck(names[w.draw.IntN(len(names))])
	}
	if len(there) > 0 && w.rarely(2) {
		w.editCheck(w.API.Checks[there[w.draw.IntN(len(there))]])
		return
	}
	m.Version++
	n.Version++
	switch w.draw.IntN(12) {
	case 0:
		w.PauseCluster(w.rarely(6))
	case 1:
		for _, key := range sorted(w.API.Requests) {
			if worked := w.API.Machines[w.API.Requests[key].Target]; worked != nil && w.rarely(2) {
				m = worked
				m.Version++
			}
		}
		w.pauseMachine(m, !m.Paused && w.rarely(3))
	case 2:
		m.Skip = w.rarely(5)
	case 3, 4:
		w.wish(m, !m.Remediate && w.rarely(3))
	case 5:
		n.Excluded = w.rarely(3)
	case 6, 7:
		for _, key := range sorted(w.API.Requests) {
			r := w.API.Requests[key]
			if worked := w.API.Nodes[r.Target]; worked != nil && !r.HealthySince.IsZero() {
				n = worked
				n.Version++
			}
		}
		n.Confirmed = w.rarely(2)
	case 8:
		if w.rarely(4) && m.DeletingSince.IsZero() {
			m.DeletingSince = w.Now
			w.note(m.Name + " is being deleted by a user")
		}
	case 9:
		w.API.Deleting = w.rarely(20)
	case 10:
		w.API.Missing = w.rarely(20)
	default:
		w.strangerEvent(n, m)
	}
}

// surprise: just before a preflight check, something happens to the target, or to what its remediation depends on.
func (w *World) surprise(check, target string) {
	c := w.API.Checks[check]
	if c == nil {
		return
	}
	m, n := w.API.pair(c, target)
	if m == nil || n == nil {
		return
	}
	w.changed()
	m.Version++
	n.Version++
	switch w.draw.IntN(8) {
	case 0:
		n.Excluded = true
	case 1:
		n.Terminating = remediation.Departure{Sign: "taint", Since: w.Now}
	case 2:
		n.Renewed = w.Now
	case 3:
		w.ready(n, "True")
	case 4:
		m.Paused = true
	case 5:
		if n.Holder == "" {
			n.Holder, n.BlockedUntil = stranger, w.Now.Add(10*time.Minute)
			w.log.foreign[n.Name] = true
		}
	case 6:
		c.Version++
		c.Generation++
		c.PauseRequests = []string{"an upgrade"}
	default:
		if other := w.anyNode(); other.ControlPlane {
			w.ready(other, "False")
		}
	}
	w.observe()
	w.note("a surprise at " + target)
}

// strangerEvent: another remediator creates a request of the name that a check would use, deletes it, or works on a Node.
func (w *World) strangerEvent(n *Node, m *Machine) {
	key := "a0/" + m.Name
	switch r := w.API.Requests[key]; {
	case w.rarely(2):
		if n.Holder == "" || !w.Now.Before(n.BlockedUntil) {
			n.Holder, n.BlockedUntil = stranger, w.Now.Add(time.Minute+w.minutes(15))
			w.note("another remediator works on " + n.Name)
			if w.log != nil {
				w.log.foreign[n.Name] = true
			}
		}
	case r == nil && w.rarely(4):
		w.API.Requests[key] = &Request{Kind: "a0", Name: m.Name, Target: m.Name, Check: stranger}
	case r != nil && r.Check == stranger:
		delete(w.API.Requests, key)
	}
}

// wish: a person wants a Machine to be remediated, or does not any more.
func (w *World) wish(m *Machine, is bool) {
	if m.Remediate != is {
		w.note(m.Name + map[bool]string{true: " shall be remediated", false: " need not be remediated any more"}[is])
	}
	if m.Remediate = is; w.log == nil {
		return
	}
	for key, t := range w.log.tries {
		if key.body == m.Body {
			t.wished = t.wished && is
		}
	}
}

func (w *World) createCheck(name string) {
	if w.API.Checks[name] == nil {
		c := &Check{Name: name, ForNodes: name >= "n"}
		w.drawSpec(c)
		// Another check of the same name is another one.
		c.Version = 1000 * w.uid()
		w.API.Checks[name] = c
		if w.log != nil {
			w.forgetCheck(name)
		}
		w.note(name + " is created")
	}
}

// forgetCheck: another check of the same name has done nothing yet.
func (w *World) forgetCheck(name string) {
	delete(w.log.storms, name)
	delete(w.wakes, name)
	delete(w.last, name)
	for key := range w.log.tries {
		if key.check == name {
			delete(w.log.tries, key)
		}
	}
}

// PauseCluster pauses the Cluster, or ends that. It is remembered when a pause was over.
func (w *World) PauseCluster(paused bool) {
	if w.API.Paused != paused {
		w.note("the Cluster is paused: " + map[bool]string{true: "yes", false: "no"}[paused])
	}
	if w.API.Paused && !paused {
		for _, c := range w.API.Checks {
			c.ThawedAt = w.Now
			c.Version++
		}
	}
	w.API.Paused = paused
}

// PauseCheck does the same for a check.
func (w *World) PauseCheck(c *Check, paused bool) {
	if c.Paused && !paused {
		c.ThawedAt = w.Now
	}
	c.Paused = paused
}

// pauseMachine does the same for a Machine. No object records the end of its pause.
func (w *World) pauseMachine(m *Machine, paused bool) {
	if m.Paused && !paused {
		m.UnpausedAt = w.Now
		w.note(m.Name + " is not paused any more")
	}
	m.Paused = paused
}

func (w *World) editCheck(c *Check) {
	c.Version++
	switch w.draw.IntN(12) {
	case 0, 1:
		w.PauseCheck(c, w.rarely(6))
	case 2, 3:
		c.Generation++
		c.PauseRequests = nil
		if w.rarely(4) {
			c.PauseRequests = []string{"an upgrade"}
		}
	case 4:
		c.Deleting = c.Deleting || w.rarely(4)
		if c.Deleting && !c.Finalizer {
			w.removeCheck(c)
		}
	case 5:
		c.Generation++
		if c.Policy.Observe = !c.Policy.Observe && w.rarely(3); c.Policy.Observe {
			w.forgetPlaces(c)
		}
	case 6:
		c.Generation++
		c.WorkersOnly = !c.WorkersOnly
	case 7, 8:
		c.Generation++
		w.drawLimits(&c.Policy)
		w.forgetPlaces(c)
	case 9:
		w.drawSpec(c)
		w.forgetPlaces(c)
		w.edited(c)
	default:
		return
	}
	// What it has seen it may not have seen as one who cares.
	if w.log != nil {
		maps.DeleteFunc(w.log.seenGone, func(key trying, _ time.Time) bool { return key.check == c.Name })
	}
	w.note(c.Name + " is edited")
}

// removeCheck: a later check of this name is another one, and has no record of replaced Machines.
func (w *World) removeCheck(c *Check) {
	delete(w.API.Checks, c.Name)
	w.records.forget(c.Name)
	w.forgetPlaces(c)
}

// forgetPlaces: a check that has no limit, or observes, does not remember.
func (w *World) forgetPlaces(c *Check) {
	w.replaced = slices.DeleteFunc(w.replaced, func(r replaced) bool { return r.check == c.Name })
	for _, m := range w.API.Machines {
		m.Counted = m.Counted && m.Author != c.Name
	}
}

// move takes everything to another management cluster: status is lost, and so are UIDs and what the controller had in its memory; specs,
// annotations and owners are kept. What is moved is paused, so that its pause is over with the move.
func (w *World) move() {
	for _, m := range w.API.Machines {
		m.UnpausedAt = time.Time{}
	}
	before := w.plans()
	uids := map[int]int{}
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		uid := w.uid()
		uids[m.UID] = uid
		m.UID, m.Unhealthy, m.Healthy, m.Owner, m.MarkedSince = uid, false, false, "", time.Time{}
		m.Version++
	}
	for _, r := range w.API.Requests {
		if uid := uids[r.TargetUID]; uid != 0 {
			r.TargetUID = uid
		}
		r.Succeeded, r.Failed, r.NodeDeletionExpected = false, false, false
	}
	for _, c := range w.API.Checks {
		c.Version++
		c.ThawedAt = w.Now
	}
	w.moves++
	w.note("everything is moved to another management cluster")
	w.auditMove(before, w.plans())
	w.FollowOwners()
	clear(w.records.statuses)
	w.restart()
	w.older = w.Cache
}
