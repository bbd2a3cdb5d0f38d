// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// keptTime is how long a remediator may keep a deleted request before the owner of its Machine follows.
const keptTime = 5 * time.Minute

// kept reports whether a remediator keeps a deleted request for longer than that.
func kept(r *remediation.Request, now time.Time) bool {
	return r != nil && !r.DeletingSince.IsZero() && !now.Before(r.DeletingSince.Add(keptTime))
}

// isOver reports whether a request that is kept is no remediation any more: its target does not exist, or its owner is to replace that.
func (w *World) isOver(s *State, conn Connection, c *Check, r *Request) bool {
	selected, gone := s.target(c, r.TargetUID)
	if !kept(&r.Request, w.Now) || !selected {
		return kept(&r.Request, w.Now) && gone
	}
	m, n := s.pair(c, r.Target)
	return w.ownersTurn(s, c, r.Target, w.judge(s, conn, c, m, n).health)
}

// ownersTurn reports whether the owner of a Machine was asked to remediate it, or is to be asked next.
func (w *World) ownersTurn(s *State, c *Check, target string, health shape) bool {
	m := s.Machines[target]
	// A pause changes nothing.
	if c.ForNodes || !m.Paused && (health == skipped || w.lets(s, c, target)) {
		return false
	}
	return m.asked() || health == ill && w.ownerNext(s, c, m)
}

// asked reports whether the owner of a Machine was asked to remediate it, and does not refuse.
func (m *Machine) asked() bool { return m.Unhealthy && m.Owner != "" && m.Owner != Refused }

// ownerNext reports whether all steps that come before that of the owner were tried, and there is one. That of a request that is kept was
// tried, also if another client has deleted it.
func (w *World) ownerNext(s *State, c *Check, m *Machine) bool {
	tried := m.History.Tried
	for _, key := range sorted(s.Requests) {
		r := s.Requests[key]
		if r.Check == c.Name && r.TargetUID == m.UID && kept(&r.Request, w.Now) && m.History.Failures < r.Attempt {
			tried = r.Step
		}
	}
	next, found := remediation.Step{}, false
	for _, step := range c.Policy.Steps {
		untried := tried == remediation.StepID{} || after(step.ID, tried)
		if untried && (!found || step.ID.Order < next.ID.Order) {
			next, found = step, true
		}
	}
	return found && next.Owner
}
