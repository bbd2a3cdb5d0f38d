// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// orphans are what is left of a check at targets that do not exist, or that it does not monitor any more.
func orphans(s *State, c *Check) []remediation.Orphan {
	var all []remediation.Orphan
	for _, key := range sorted(s.Requests) {
		r := s.Requests[key]
		if selected, gone := s.target(c, r.TargetUID); r.Check == c.Name && !selected {
			request, m := r.Request, s.Machines[r.Target]
			paused := !c.ForNodes && m != nil && m.UID == r.TargetUID && m.Paused
			all = append(all, remediation.Orphan{Name: r.Target, Gone: gone, Request: &request, ControlPlane: r.ControlPlane, Paused: paused})
		}
	}
	for _, name := range sorted(s.Machines) {
		if m := s.Machines[name]; m.Author == c.Name && !c.selects(m.ControlPlane, m.Name) {
			orphan := at(&all, name)
			orphan.Marked, orphan.Paused = true, m.Paused
		}
		// Any check that reads a target without a responsible check cleans it up. A check of the other kind does not continue from it.
		if m := s.Machines[name]; !c.ForNodes && !c.selects(m.ControlPlane, m.Name) && !s.coveredAtAll(m, nil) && (m.History != (remediation.History{}) || !m.NodeGoneSince.IsZero()) {
			orphan := at(&all, name)
			orphan.History, orphan.NodeGoneSince, orphan.Paused = m.History, m.NodeGoneSince, m.Paused
		}
	}
	for _, name := range sorted(s.Nodes) {
		if n := s.Nodes[name]; n.Holder == c.Name && !c.selects(n.ControlPlane, n.Name) {
			at(&all, name).Lease = remediation.Lease{Used: true, Holder: c.Name, HeldByThis: true, Until: n.BlockedUntil}
		}
		if n := s.Nodes[name]; c.ForNodes && !c.selects(n.ControlPlane, n.Name) && !s.coveredAtAll(nil, n) && n.History != (remediation.History{}) {
			at(&all, name).History = n.History
		}
	}
	return all
}

// at is the orphan of that name, which is added if there is none.
func at(all *[]remediation.Orphan, name string) *remediation.Orphan {
	i := slices.IndexFunc(*all, func(s remediation.Orphan) bool { return s.Name == name })
	if i < 0 {
		i = len(*all)
		*all = append(*all, remediation.Orphan{Name: name})
	}
	return &(*all)[i]
}

// target reports whether a check monitors the object with that UID, and whether that does not exist.
func (s *State) target(c *Check, uid int) (selected, gone bool) {
	for _, m := range s.Machines {
		if m.UID == uid {
			return c.selects(m.ControlPlane, m.Name) && !c.ForNodes, false
		}
	}
	for _, n := range s.Nodes {
		if n.UID == uid {
			return c.selects(n.ControlPlane, n.Name) && c.ForNodes, false
		}
	}
	return false, true
}

// coveredAtAll reports whether any check monitors a Machine or its Node.
func (s *State) coveredAtAll(m *Machine, n *Node) bool {
	for _, c := range s.Checks {
		if !c.ForNodes && m != nil && c.selects(m.ControlPlane, m.Name) || c.ForNodes && n != nil && c.selects(n.ControlPlane, n.Name) {
			return true
		}
	}
	return false
}
