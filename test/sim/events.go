// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// event lets something happen that no check of ours does.
func (w *World) event() {
	switch k := w.draw.IntN(100); {
	case k < 45:
		w.nodeEvent()
	case k < 65:
		w.remediators()
	case k < 80:
		w.owners()
	case k < 86:
		w.connection()
	case k < 98:
		w.userEvent()
	// What is moved is paused before, so that nobody is in the midst of anything.
	case w.written == nil:
		w.move()
	}
}

func (w *World) anyNode() *Node {
	names := sorted(w.API.Nodes)
	if len(names) == 0 {
		return nil
	}
	return w.API.Nodes[names[w.draw.IntN(len(names))]]
}

func (w *World) anyMachine() *Machine {
	names := sorted(w.API.Machines)
	if len(names) == 0 {
		return nil
	}
	return w.API.Machines[names[w.draw.IntN(len(names))]]
}

func (w *World) ready(n *Node, status string) {
	if n.Ready != status {
		n.Ready, n.Since = status, w.Now
		n.Version++
		w.note(n.Name + " is Ready=" + status)
	}
}

// nodeEvent: Nodes go dark and return, vanish and join.
func (w *World) nodeEvent() {
	n, m := w.anyNode(), w.anyMachine()
	switch k := w.draw.IntN(20); {
	case n == nil || m == nil:
	case k < 5:
		w.ready(n, "Unknown")
	case k < 9:
		w.ready(n, "False")
	case k < 14:
		w.ready(n, "True")
	case k < 15:
		delete(w.API.Nodes, n.Name)
		w.note(n.Name + " is deleted")
	case k < 17:
		w.join(m)
	case k < 18:
		n.Renewed = w.Now
	case k < 19:
		n.Version++
		n.Leaving = remediation.Departure{}
		if w.rarely(3) {
			n.Leaving = remediation.Departure{Sign: "taint", Since: w.Now}
		}
	default:
		m.Version++
		m.Failure = map[bool]string{true: "CreateError"}[w.rarely(3)]
	}
}

// remediators finish, fail, never answer, or keep their finalizer.
func (w *World) remediators() {
	for _, key := range sorted(w.API.Requests) {
		r := w.API.Requests[key]
		if !r.DeletingSince.IsZero() {
			if w.letsGo(r) && (!r.Stuck || w.rarely(30)) {
				delete(w.API.Requests, key)
				w.note(key + " is gone")
			}
			continue
		}
		switch k := w.draw.IntN(12); {
		case r.TimedOut:
		case k < 2 && !r.Succeeded:
			r.Failed = true
		case k < 4 && !r.Failed:
			r.Succeeded = true
			w.heal(r)
		case k < 5:
			w.heal(r)
		case k < 6:
			r.NodeDeletionExpected = true
		}
	}
}

// letsGo: some remediators keep their finalizer for ever when the Node is gone and nobody has told them to stop.
func (w *World) letsGo(r *Request) bool {
	if r.TimedOut || r.Succeeded || w.API.Checks[r.Check] == nil {
		return true
	}
	return w.exists(r.TargetUID)
}

func (w *World) exists(uid int) bool {
	for _, m := range w.API.Machines {
		if m.UID == uid {
			return true
		}
	}
	for _, n := range w.API.Nodes {
		if n.UID == uid {
			return true
		}
	}
	return false
}

func (w *World) heal(r *Request) {
	for _, name := range sorted(w.API.Machines) {
		if m := w.API.Machines[name]; m.UID == r.TargetUID && w.API.Nodes[m.Node] != nil {
			w.ready(w.API.Nodes[m.Node], "True")
		}
	}
	for _, name := range sorted(w.API.Nodes) {
		if n := w.API.Nodes[name]; n.UID == r.TargetUID {
			w.ready(n, "True")
		}
	}
}

// owners defer, refuse, delete and replace the Machines that they were asked to remediate, and take the mark off those that are well again.
func (w *World) owners() {
	workers := 0
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		if !m.DeletingSince.IsZero() && w.rarely(3) {
			delete(w.API.Machines, name)
			delete(w.API.Nodes, m.Node)
			w.note(name + " is gone")
			replacement := w.addMachine(map[bool]string{true: name}[m.ControlPlane], m.ControlPlane)
			if replacement.Orphan = m.Orphan; !m.ControlPlane && !m.Orphan {
				workers++
			}
			if m.Owner == Deleting && m.Counted && m.Author != "" {
				w.replaced = append(w.replaced, replaced{check: m.Author, by: replacement.UID, at: w.Now})
			}
			continue
		}
		if !m.ControlPlane && !m.Orphan {
			workers++
		}
		if m.Owner == "" || m.Paused {
			continue
		}
		m.Version++
		switch k := w.draw.IntN(10); {
		case m.Well && !m.Sick:
			m.Owner = ""
		case !m.Sick || !m.DeletingSince.IsZero():
		case k < 2:
			m.Owner = Deferred
		case k < 3:
			m.Owner = Refused
		case k < 7:
			m.Owner, m.DeletingSince = Deleting, w.Now
			w.note(name + " is being deleted by its owner")
		}
	}
	for ; workers < w.API.Workers; workers++ {
		w.addMachine("", false)
	}
}

// connection: the workload cluster can be cut off. The controller notices that, and its return, only after a while.
func (w *World) connection() {
	if w.rarely(3) {
		w.Reachable = w.Reachable == w.rarely(3)
	}
	if w.Conn.Up == w.Reachable || w.rarely(2) {
		return
	}
	w.Conn.Up = w.Reachable
	if w.Conn.Up {
		w.Conn.FirstLookUntil = w.Now.Add(50 * time.Second)
	}
}

func (w *World) userEvent() {
	n, m := w.anyNode(), w.anyMachine()
	if n == nil || m == nil {
		return
	}
	names := sorted(w.API.Checks)
	if len(names) < 3 && w.rarely(8) {
		w.createCheck([]string{"a", "b", "n"}[w.draw.IntN(3)])
	}
	if len(names) > 0 && w.rarely(2) {
		w.editCheck(w.API.Checks[names[w.draw.IntN(len(names))]])
		return
	}
	m.Version++
	n.Version++
	switch w.draw.IntN(10) {
	case 0:
		w.PauseCluster(w.rarely(6))
		w.note("the Cluster is paused: " + map[bool]string{true: "yes", false: "no"}[w.API.Paused])
	case 1:
		m.Paused = w.rarely(5)
	case 2:
		m.Skip = w.rarely(5)
	case 3:
		m.Remediate = w.rarely(2)
	case 4:
		n.Excluded = w.rarely(4)
	case 5:
		n.Confirmed = w.rarely(2)
	case 6:
		if w.rarely(4) && m.DeletingSince.IsZero() {
			m.DeletingSince = w.Now
			w.note(m.Name + " is being deleted by a user")
		}
	case 7:
		w.API.Deleting = w.rarely(20)
	case 8:
		w.API.Missing = w.rarely(20)
	default:
		// Somebody else's request of the very name that ours would have.
		if key := "a0/" + m.Name; w.API.Requests[key] == nil && w.rarely(4) {
			w.API.Requests[key] = &Request{Kind: "a0", Name: m.Name, Target: m.Name, Check: "somebody"}
		}
	}
}

func (w *World) createCheck(name string) {
	if w.API.Checks[name] == nil {
		c := &Check{Name: name, ForNodes: name == "n"}
		w.drawSpec(c)
		// Another check of the same name is another one.
		c.Version = 1000 * w.uid()
		w.API.Checks[name] = c
	}
}

// PauseCluster pauses the Cluster, or ends that. It is remembered when a pause was over.
func (w *World) PauseCluster(paused bool) {
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

func (w *World) editCheck(c *Check) {
	c.Version++
	switch w.draw.IntN(8) {
	case 0, 1:
		w.PauseCheck(c, w.rarely(6))
	case 2, 3:
		c.Generation++
		c.PauseRequests = nil
		if w.rarely(6) {
			c.PauseRequests = []string{"an upgrade"}
		}
	case 4:
		c.Deleting = c.Deleting || w.rarely(6)
		if c.Deleting && !c.Finalizer {
			delete(w.API.Checks, c.Name)
		}
	default:
		w.drawSpec(c)
		w.note(c.Name + " is edited")
		// Without a limit nobody needed to remember.
		w.replaced = slices.DeleteFunc(w.replaced, func(r replaced) bool { return r.check == c.Name })
		for _, m := range w.API.Machines {
			m.Counted = m.Counted && m.Author != c.Name
		}
	}
}

// move takes everything to another management cluster: status is lost, and so are UIDs; specs, annotations and owners are kept.
func (w *World) move() {
	before := w.plans()
	uids := map[int]int{}
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		uid := w.uid()
		uids[m.UID] = uid
		m.UID, m.Sick, m.Well, m.Owner, m.MarkedSince = uid, false, false, "", time.Time{}
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
	}
	w.synced()
	w.older = w.Cache
	w.Conn = Connection{Up: w.Reachable}
	w.note("everything is moved to another management cluster")
	w.auditMove(before, w.plans())
}
