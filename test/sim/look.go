// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// look reads live again what a decision depends on.
func (r *run) look(i int) remediation.PreflightCheck {
	w, c, pass := r.w, r.check, &r.pass
	live, name := w.API, pass.Situation.Targets[i].Name
	r.turnSeen, r.uidSeen = live.Turn.Version, live.uidOf(c, name)
	r.readPause()
	now := live.Checks[c.Name]
	if now == nil {
		// A check whose pause cannot be read must not write.
		return remediation.PreflightCheck{Failed: true, Paused: true}
	}
	conn := w.Conn
	conn.Up = w.Reachable && conn.Up
	snapshot, situation := Facts(live, now, conn, w.Now)
	at := slices.IndexFunc(situation.Targets, func(t remediation.Target) bool { return t.Name == name })
	if at < 0 || r.uidSeen != r.view.uidOf(c, name) {
		return remediation.PreflightCheck{Failed: true, Paused: r.frozen}
	}
	t := &situation.Targets[at]
	one := health.Snapshot{Cluster: snapshot.Cluster, Targets: snapshot.Targets[at : at+1]}
	look := remediation.PreflightCheck{
		Paused: r.frozen || snapshot.Targets[at].Annotations.Paused, Verdict: health.Evaluate(&one, &now.Health, w.Now).Verdicts[0],
		Changed: now.Generation != c.Generation || now.Deleting != c.Deleting || pass.Plan.Finalizer && !now.Finalizer ||
			!now.Storm.Since.Equal(pass.Plan.Storm.Since) || situation.Check.Cluster != pass.Situation.Check.Cluster,
		Target:       *t,
		ControlPlane: controlPlane(live, c.Name, name, conn),
	}
	// Nothing is begun, and nothing noted down, without what makes the check wait until it is cleaned up.
	look.Changed = look.Changed || pass.Plan.Finalizer && !now.Finalizer
	r.frozen = look.Paused
	if n := live.Nodes[t.Node]; n != nil && conn.Up {
		look.LeaseRenewed = n.Renewed
	}
	all := health.Evaluate(&snapshot, &now.Health, w.Now)
	look.LimitState = remediation.Plan(&situation, &all, &now.Policy, w.Now).LimitState
	look.Others = remediation.Plan(&remediation.Situation{
		Check: remediation.Check{Paused: true}, Targets: slices.Delete(slices.Clone(situation.Targets), at, at+1), Orphans: situation.Orphans,
	}, &health.Assessment{Verdicts: slices.Delete(slices.Clone(all.Verdicts), at, at+1)}, &now.Policy, w.Now).Counts.InFlight + replacing(live, now)
	return look
}

func replacing(s *State, c *Check) int {
	n := 0
	for _, r := range c.Replacing {
		if s.Machines[r.Target] == nil {
			n++
		}
	}
	return n
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
