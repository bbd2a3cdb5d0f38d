// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var (
	errCrashed  = errors.New("the controller has crashed")
	errConflict = errors.New("the object has been changed by somebody else")
)

// Pass is one reconcile of a check: what it saw, what it decided, and what became of that.
type Pass struct {
	Check      string
	Snapshot   health.Snapshot
	Situation  remediation.Situation
	Assessment health.Assessment
	Plan       remediation.Planned
	// Writes is how many have landed. CheckWrote and Wrote say which they were: on the check, and for a target or a stray, by its name.
	Writes     int
	CheckWrote []remediation.CheckWrite
	Wrote      map[string][]remediation.Write
}

func (p *Pass) wrote(target string, write remediation.Write) {
	if p.Wrote == nil {
		p.Wrote = map[string][]remediation.Write{}
	}
	p.Wrote[target] = append(p.Wrote[target], write)
}

// Reconcile does for one check what the shell does: look, decide, act, report.
func (w *World) Reconcile(check string) (pass Pass, err error) {
	view := w.Cache
	c := view.Checks[check]
	if c == nil {
		return Pass{}, nil
	}
	before := w.landed
	w.written = map[string]int{}
	defer func() { pass.Writes, w.written = w.landed-before, nil }()
	pass = Pass{Check: check}
	pass.Snapshot, pass.Situation = Facts(view, c, w.Conn, w.Now)
	pass.Assessment = health.Evaluate(&pass.Snapshot, &c.Health, w.Now)
	pass.Plan = remediation.Plan(&pass.Situation, &pass.Assessment, &c.Policy, w.Now)
	// Freeze is read live before every act, also on the check itself.
	live := w.API.Checks[check]
	if w.frozen = live == nil || live.Paused || w.API.Paused; w.frozen {
		pass.Plan.Finalizer = c.Finalizer
	}
	for _, write := range pass.Plan.CheckWrites(&pass.Situation, c.Finalizer) {
		if w.frozen || write >= remediation.ReleaseTurn {
			continue
		}
		if err := w.writeCheck(c, write, &pass.Plan); err != nil {
			return pass, err
		}
		pass.CheckWrote = append(pass.CheckWrote, write)
	}
	failed := w.actAll(c, &pass, func(int) bool { return true })
	for again := true; again && failed == nil; {
		again, failed = w.actAgain(c, &pass)
	}
	if errors.Is(failed, errCrashed) {
		return pass, failed
	}
	pass.Plan.Conclude(&pass.Assessment, w.Now)
	for i := range pass.Plan.Strays {
		if err := w.clear(c, &pass, i); err != nil {
			return pass, err
		}
	}
	if err := w.report(c, &pass); err != nil {
		return pass, err
	}
	for _, write := range pass.Plan.CheckWrites(&pass.Situation, c.Finalizer) {
		if w.frozen || write < remediation.ReleaseTurn {
			continue
		}
		if err := w.writeCheck(c, write, &pass.Plan); err != nil {
			return pass, err
		}
		pass.CheckWrote = append(pass.CheckWrote, write)
	}
	return pass, failed
}

func (w *World) actAll(c *Check, pass *Pass, which func(i int) bool) (failed error) {
	for i := range pass.Plan.Decisions {
		if !which(i) {
			continue
		}
		if err := w.act(c, pass, i); err != nil {
			failed = err
		}
		if errors.Is(failed, errCrashed) {
			return failed
		}
	}
	return failed
}

// actAgain gives the places of those that were held at the last look to others.
func (w *World) actAgain(c *Check, pass *Pass) (bool, error) {
	remembered := pass.Plan.Replacing
	news := remediation.Again(&pass.Plan, &pass.Situation, &pass.Assessment, &c.Policy, w.Now)
	if len(news) == 0 {
		return false, nil
	}
	if !slices.Equal(remembered, pass.Plan.Replacing) {
		if err := w.writeCheck(c, remediation.NoteReplacing, &pass.Plan); err != nil {
			return false, err
		}
	}
	return true, w.actAll(c, pass, func(i int) bool { return slices.Contains(news, i) })
}

// act looks once more, and writes what a decision needs.
func (w *World) act(c *Check, pass *Pass, i int) error {
	t, d := &pass.Situation.Targets[i], &pass.Plan.Decisions[i]
	if len(d.Writes(t)) == 0 {
		return nil
	}
	w.meanwhile()
	look := w.look(c, pass, i)
	confirmed := remediation.Confirm(&pass.Plan, t, d, &pass.Assessment.Verdicts[i], &look, w.Now)
	pass.Plan.Decisions[i] = confirmed
	for _, write := range confirmed.Writes(t) {
		if write == remediation.CreateRequest && w.Refuses != "" {
			pass.Plan.Decisions[i] = remediation.Refused(&confirmed, t, w.Refuses)
			return nil
		}
		if err := w.writeTarget(c, t, &confirmed, write, &pass.Snapshot.Targets[i]); err != nil {
			return err
		}
		pass.wrote(t.Name, write)
	}
	return nil
}

// look reads again, past the cache, what a decision rests on.
func (w *World) look(c *Check, pass *Pass, i int) remediation.Look {
	w.turnSeen = w.API.Turn.Version
	live, name := w.API, pass.Situation.Targets[i].Name
	now := live.Checks[c.Name]
	if now == nil {
		return remediation.Look{Failed: true}
	}
	conn := w.Conn
	conn.Up = w.Reachable && conn.Up
	snapshot, situation := Facts(live, now, conn, w.Now)
	at := slices.IndexFunc(situation.Targets, func(t remediation.Target) bool { return t.Name == name })
	if at < 0 || w.uidOf(live, c, name) != w.uidOf(w.Cache, c, name) {
		return remediation.Look{Failed: true}
	}
	t := &situation.Targets[at]
	one := health.Snapshot{Cluster: snapshot.Cluster, Targets: snapshot.Targets[at : at+1]}
	look := remediation.Look{
		Frozen: situation.Check.Frozen || w.frozen, Verdict: health.Evaluate(&one, &now.Health, w.Now).Verdicts[0],
		Changed: now.Generation != c.Generation || now.Deleting != c.Deleting ||
			!now.Storm.Since.Equal(pass.Plan.Storm.Since) || situation.Check.Cluster != pass.Situation.Check.Cluster,
		Target:       *t,
		ControlPlane: controlPlane(live, c.Name, name, conn),
	}
	look.Frozen = look.Frozen || snapshot.Targets[at].Wishes.Paused
	if n := live.Nodes[t.Node]; n != nil && conn.Up {
		look.LeaseRenewed = n.Renewed
	}
	all := health.Evaluate(&snapshot, &now.Health, w.Now)
	look.Others = remediation.Plan(&remediation.Situation{
		Check: remediation.Check{Frozen: true}, Targets: slices.Delete(slices.Clone(situation.Targets), at, at+1), Strays: situation.Strays,
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

func (w *World) uidOf(s *State, c *Check, name string) int {
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

// clear writes what a stray needs.
func (w *World) clear(c *Check, pass *Pass, i int) error {
	stray, d := &pass.Situation.Strays[i], &pass.Plan.Strays[i]
	w.meanwhile()
	// Freeze is read live before every act.
	if now := w.API.Checks[c.Name]; now == nil || w.frozen || now.Paused || w.API.Paused || now.Generation != c.Generation || now.Deleting != c.Deleting {
		return nil
	}
	for _, write := range d.StrayWrites(stray) {
		if err := w.writeStray(c, stray, d, write); err != nil {
			return err
		}
		pass.wrote(stray.Name, write)
	}
	return nil
}

// report tells about health, truthfully and at once.
func (w *World) report(c *Check, pass *Pass) error {
	if c.ForNodes || pass.Situation.Check.Frozen || c.Deleting || c.Policy.Observe {
		return nil
	}
	for i := range pass.Situation.Targets {
		m, v := w.Cache.Machines[pass.Situation.Targets[i].Name], &pass.Assessment.Verdicts[i]
		if m == nil || v.Kind == health.Skipped || pass.Situation.Targets[i].CoveredBy != "" || pass.Plan.Decisions[i].Unconfirmed {
			continue
		}
		sick, well := m.Sick, m.Well
		if live := w.API.Machines[m.Name]; v.Kind == health.Unhealthy && (live == nil || live.Author != c.Name) {
			continue
		}
		switch v.Kind {
		case health.Unhealthy:
			sick, well = true, false
		case health.Healthy:
			sick, well = false, true
		case health.Undetermined, health.Suspect, health.Skipped:
		}
		if sick == m.Sick && well == m.Well {
			continue
		}
		err := w.write(fmt.Sprintf("%s: health of %s is sick=%v well=%v", c.Name, m.Name, sick, well), func() error {
			live, err := w.machine(m)
			if err == nil {
				live.Sick, live.Well = sick, well
			}
			return err
		})
		if errors.Is(err, errCrashed) {
			return err
		}
	}
	return nil
}
