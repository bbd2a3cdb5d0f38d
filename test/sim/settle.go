// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Settle heals the world, lets nothing more happen but what checks, owners and remediators do by themselves, and waits until nobody writes
// any more. False if that never comes.
func (w *World) Settle() bool {
	w.calm = true
	w.healEverything()
	quiet := 0
	for round := 0; round < 300 && quiet < 3; round++ {
		w.synced()
		wrote := w.obey()
		w.synced()
		next := time.Time{}
		for _, name := range sorted(w.API.Checks) {
			pass := w.reconcileOrRestart(name)
			wrote = wrote || pass.Writes > 0
			if wake := pass.Plan.WakeUp; !wake.IsZero() && (next.IsZero() || wake.Before(next)) {
				next = wake
			}
		}
		if wrote {
			quiet = 0
			w.Now = w.Now.Add(time.Second)
			continue
		}
		if quiet++; next.IsZero() {
			next = w.Now.Add(24 * time.Hour)
		}
		// Nothing happens before the time at which somebody wants to look again.
		w.Now = next
		for _, n := range w.API.Nodes {
			n.Renewed = w.Now
		}
	}
	return quiet == 3
}

func (w *World) healEverything() {
	w.PauseCluster(false)
	w.API.Deleting, w.API.Missing = false, false
	w.Reachable, w.Conn = true, Connection{Up: true}
	for _, c := range w.API.Checks {
		c.Version++
		c.Generation++
		w.PauseCheck(c, false)
		c.PauseRequests, c.Policy.Observe = nil, false
		if c.Deleting && !c.Finalizer {
			delete(w.API.Checks, c.Name)
		}
	}
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		m.Version++
		m.Paused, m.Skip, m.Remediate, m.Failure = false, false, false, ""
		if m.DeletingSince.IsZero() {
			m.Node = map[bool]string{true: m.Node}[w.API.Nodes[m.Node] != nil]
			w.join(m)
		}
	}
	for _, n := range w.API.Nodes {
		n.Version++
		n.Excluded, n.Confirmed, n.Leaving = false, true, remediation.Departure{}
		w.ready(n, "True")
	}
	for key, r := range w.API.Requests {
		r.Stuck = false
		if r.Check == "somebody" {
			delete(w.API.Requests, key)
		}
	}
}

// obey lets owners and remediators do what they are expected to, and says whether they did anything.
func (w *World) obey() bool {
	did := false
	for key, r := range w.API.Requests {
		// A check that is gone has no requests any more: its owner reference sees to that.
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
		case m.Owner != "" && m.Well:
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
	return did
}

// Leftovers are what should not be there in a world where everybody is well.
func (w *World) Leftovers() []string {
	var left []string
	for _, key := range sorted(w.API.Requests) {
		left = append(left, "request "+key)
	}
	for _, name := range sorted(w.API.Machines) {
		if m := w.API.Machines[name]; m.Owner != "" && m.Author != "" || m.Sick {
			left = append(left, "marks of "+name)
		}
		if m := w.API.Machines[name]; m.Author != "" && m.Ledger != (remediation.Ledger{}) {
			left = append(left, "ledger of "+name)
		}
	}
	for _, name := range sorted(w.API.Nodes) {
		if n := w.API.Nodes[name]; n.Holder != "" && w.API.Checks[n.Holder] != nil {
			left = append(left, "lease of "+name)
		}
	}
	for _, name := range sorted(w.API.Checks) {
		c := w.API.Checks[name]
		if !c.Storm.Since.IsZero() && !c.Deleting {
			left = append(left, "storm of "+name)
		}
		if c.Deleting {
			left = append(left, "check "+name)
		}
	}
	return left
}
