// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Settle heals the world, lets nothing more happen but what checks, owners and remediators do by themselves, and waits until there is no write
// any more. It returns false if that never comes.
func (w *World) Settle() bool {
	w.calm = true
	w.healEverything()
	quiet := 0
	for range 60 {
		did := w.obey()
		if !w.drain() {
			return false
		}
		w.auditRest()
		// Nothing happens before the next reconcile.
		name, next := w.nextWake()
		if quiet++; did {
			quiet = 0
		}
		if quiet < 3 && (did || name == "") {
			continue
		}
		if name == "" {
			w.poll(w.Now.Add(24 * time.Hour))
			return len(w.Violations) == 0
		}
		w.poll(next.Add(-time.Second))
		w.wakeUp(next)
		for _, n := range w.API.Nodes {
			n.Renewed = w.Now
		}
	}
	w.violated("I7 there is always a next reconcile: %v", w.wakes)
	return false
}

func (w *World) healEverything() {
	w.changed()
	w.PauseCluster(false)
	w.API.Deleting, w.API.Missing, w.API.NoInfrastructure = false, false, false
	w.Reachable, w.Conn = true, Connection{Up: true}
	for _, c := range w.API.Checks {
		c.Version++
		c.Generation++
		w.PauseCheck(c, false)
		c.PauseRequests, c.Policy.Observe = nil, false
		if c.Deleting && !c.Finalizer {
			w.removeCheck(c)
		}
	}
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		m.Version++
		w.pauseMachine(m, false)
		w.wish(m, false)
		m.Skip, m.Failure, m.Conditions = false, "", nil
		if m.DeletingSince.IsZero() {
			m.Node = map[bool]string{true: m.Node}[w.API.Nodes[m.Node] != nil]
			w.join(m)
		}
	}
	for _, n := range w.API.Nodes {
		n.Version++
		n.Excluded, n.Confirmed, n.Terminating = false, true, remediation.Departure{}
		if n.Holder == stranger {
			n.Holder, n.BlockedUntil = "", time.Time{}
		}
		w.ready(n, "True")
	}
	for key, r := range w.API.Requests {
		r.Stuck = false
		if r.Check == stranger {
			delete(w.API.Requests, key)
		}
	}
}

// obey lets owners and remediators do what they are expected to, and reports whether they did anything.
func (w *World) obey() bool {
	did := false
	for key, r := range w.API.Requests {
		// A deleted check has no requests any more, because of its owner references.
		if !r.DeletingSince.IsZero() && w.letsGo(r) || w.API.Checks[r.Check] == nil {
			delete(w.API.Requests, key)
			did = true
		}
	}
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		switch {
		case !m.DeletingSince.IsZero():
			delete(w.API.Machines, name)
			delete(w.API.Nodes, m.Node)
			w.join(w.addMachine(map[bool]string{true: name}[m.ControlPlane], m.ControlPlane))
			w.note(name + " no longer exists")
		case m.Owner != "" && m.Healthy:
			m.Version++
			m.Owner = ""
		case m.Owner == Waiting:
			m.Version++
			m.Owner, m.DeletingSince = Deleting, w.Now
		default:
			continue
		}
		did = true
	}
	if did {
		w.changed()
		w.observe()
	}
	return did
}

// Leftovers are what should not exist in a world where all targets are healthy.
func (w *World) Leftovers() []string {
	var left []string
	for _, key := range sorted(w.API.Requests) {
		left = append(left, "request "+key)
	}
	for _, name := range sorted(w.API.Machines) {
		if m := w.API.Machines[name]; m.Owner != "" && m.Author != "" || m.Unhealthy {
			left = append(left, "marks of "+name)
		}
		if m := w.API.Machines[name]; m.Author != "" && m.History != (remediation.History{}) {
			left = append(left, "history of "+name)
		}
	}
	for _, name := range sorted(w.API.Nodes) {
		if n := w.API.Nodes[name]; n.Holder != "" && w.API.Checks[n.Holder] != nil {
			left = append(left, "lease of "+name)
		}
	}
	for _, name := range sorted(w.API.Checks) {
		c := w.API.Checks[name]
		// Where more must be healthy than there are, a storm never ends.
		if l := w.count(w.API, w.Conn, c); !c.Storm.Since.IsZero() && !c.Deleting && l.sick <= l.most {
			left = append(left, "storm of "+name)
		}
		if c.Deleting {
			left = append(left, "check "+name)
		}
	}
	return left
}
