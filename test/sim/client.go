// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// ControlPlane implements pipeline.Client.
func (r *run) ControlPlane(context.Context) remediation.ControlPlane {
	return controlPlane(r.view, r.name, "", r.conn, r.w.Now)
}

// Obstacle implements pipeline.Client.
func (r *run) Obstacle(context.Context) (*remediation.PreflightCheck, error) {
	began := r.elapsed
	if r.call(); r.crashed {
		return nil, errCrashed
	}
	r.order.read(began)
	obstacle := r.obstacle()
	r.halted = r.halted || obstacle != nil && !r.order.announced
	return obstacle, nil
}

func (r *run) obstacle() *remediation.PreflightCheck {
	live := r.w.API.Checks[r.name]
	r.frozen = live == nil || live.Paused || r.w.API.Paused
	switch {
	case live == nil, live.UID() != r.check.UID():
		return &remediation.PreflightCheck{Changed: true}
	case r.frozen:
		return &remediation.PreflightCheck{Paused: true}
	case live.Generation != r.check.Generation || live.Deleting != r.check.Deleting:
		return &remediation.PreflightCheck{Changed: true}
	}
	return nil
}

// Preflight implements pipeline.Client.
func (r *run) Preflight(_ context.Context, targets []int, all bool) (*pipeline.Preflight, error) {
	w := r.w
	began := r.elapsed
	if r.call(); r.crashed {
		return nil, errCrashed
	}
	if w.Slow {
		r.elapsed += slowCall
	}
	if name := r.facts.Situation.Targets[targets[w.draw.IntN(len(targets))]].Name; !w.calm && w.rarely(6) {
		w.surprise(r.name, name)
	}
	now := w.API.Checks[r.name]
	r.frozen = now == nil || now.Paused || w.API.Paused
	if now == nil {
		// A check whose pause cannot be read must not write.
		return nil, errConflict
	}
	r.leaseSeen = w.API.Turn.Version
	r.order.preflight(w, targets, began)
	conn := w.Conn
	conn.Up = conn.Up && w.Reachable
	if conn.AtPreflight != nil {
		conn.Observation = *conn.AtPreflight
	}
	fresh := r.readAgain(now, conn, targets, all)
	read := &pipeline.Preflight{Facts: fresh.facts, Checks: make([]remediation.PreflightCheck, len(targets))}
	for n, i := range targets {
		read.Checks[n] = r.preflightCheck(fresh, now, conn, i)
	}
	return read, nil
}

// preflightCheck is what was read live of one target besides its facts.
func (r *run) preflightCheck(fresh *fresh, now *Check, conn Connection, i int) remediation.PreflightCheck {
	name := r.facts.Situation.Targets[i].Name
	if fresh.lost[i] {
		return remediation.PreflightCheck{Failed: true}
	}
	r.pausedNow[name] = fresh.facts.Snapshot.Targets[i].Annotations.Paused
	return remediation.PreflightCheck{
		Paused: r.frozen || r.pausedNow[name],
		// Nothing is started without the finalizer, which keeps the check until everything is cleaned up.
		Changed: now.Generation != r.check.Generation || now.Deleting != r.check.Deleting || now.Finalizer != r.own.Finalizer ||
			now.Storm != r.own.Storm || fresh.facts.Situation.Check.Cluster != r.facts.Situation.Check.Cluster,
		ControlPlane: controlPlane(r.w.API, r.name, name, conn, r.w.Now),
	}
}

// fresh is what a preflight check has read, and the targets that are not there any more.
type fresh struct {
	facts *pipeline.Facts
	lost  map[int]bool
}

// readAgain reads some targets live, or all. The others stay as they were.
func (r *run) readAgain(now *Check, conn Connection, targets []int, all bool) *fresh {
	live := r.w.API
	snapshot, situation := Facts(live, now, conn, r.w.Now)
	planned := &r.facts.Situation
	member := func(i int) bool { return planned.Targets[i].ControlPlane }
	everything := all || r.check.Policy.MaxInFlight != nil || slices.ContainsFunc(targets, member)
	f := &fresh{lost: map[int]bool{}, facts: &pipeline.Facts{
		Check: r.name, Finalizer: now.Finalizer, Health: now.Health, Policy: now.Policy,
		Snapshot: health.Snapshot{Cluster: snapshot.Cluster, Targets: slices.Clone(r.facts.Snapshot.Targets)},
	}}
	at := map[string]int{}
	for n := range situation.Targets {
		at[situation.Targets[n].Name] = n
	}
	present := slices.Clone(planned.Targets)
	for i := range present {
		asked := slices.Contains(targets, i)
		if !asked && !everything {
			continue
		}
		name := present[i].Name
		n, found := at[name]
		if !found || live.uidOf(now, name) != r.view.uidOf(r.check, name) {
			f.lost[i] = true
			continue
		}
		node := f.facts.Snapshot.Targets[i].Node
		f.facts.Snapshot.Targets[i], present[i] = snapshot.Targets[n], situation.Targets[n]
		if !asked && !all && !r.check.ForNodes {
			// The Nodes of Machines are read only for the targets of the preflight check.
			f.facts.Snapshot.Targets[i].Node = node
		}
	}
	situation.Targets = present
	f.facts.Situation = situation
	return f
}

// NodeLeases implements pipeline.Client. It is the end of a preflight check: nothing happens before it.
func (r *run) NodeLeases(_ context.Context, nodes []string) []pipeline.NodeLease {
	leases := make([]pipeline.NodeLease, len(nodes))
	for i, name := range nodes {
		n := r.w.API.Nodes[name]
		switch {
		case r.crashed:
			leases[i].Err = errCrashed
		case !r.w.live().Up:
			leases[i].Err = errUnreachable
		case n != nil:
			leases[i].Renewed = n.Renewed
		}
	}
	return leases
}

// uidOf is the UID of a target of that name; 0 if there is none.
func (s *State) uidOf(c *Check, name string) int {
	if c.ForNodes {
		return s.Nodes[name].uid()
	}
	return s.Machines[name].uid()
}

func (n *Node) uid() int {
	if n == nil {
		return 0
	}
	return n.UID
}

func (m *Machine) uid() int {
	if m == nil {
		return 0
	}
	return m.UID
}
