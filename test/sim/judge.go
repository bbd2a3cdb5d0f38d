// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// What follows is the truth about health and limits, written a second time and in another way: the core is never asked.

// shape is how a target is.
type shape uint8

const (
	unknown shape = iota
	skipped
	well
	// excused: called well unseen, as others are to blame.
	excused
	soon
	ill
)

// judged is what is true about a target.
type judged struct {
	health shape
	// asked: nothing is wrong but that a person asks for it. withoutNode: there is a cause that needs no Node.
	asked, withoutNode bool
	// dark is when a Node has been silent for twice its time, if that is all that is wrong with it.
	dark time.Time
	// due is when a cause that is only about to be one will be one.
	due    time.Time
	causes int
}

// cause adds something that is wrong since then, and counts when it has lasted for so long.
func (j *judged) cause(now, since time.Time, lasting time.Duration) bool {
	due := since.Add(lasting)
	if now.Before(due) {
		if j.due.IsZero() || due.Before(j.due) {
			j.due = due
		}
		j.health = max(j.health, soon)
		return false
	}
	j.health = ill
	j.causes++
	return true
}

// judge returns the health of a target in one view.
func (w *World) judge(s *State, conn Connection, c *Check, m *Machine, n *Node) judged {
	if c.ForNodes {
		m = nil
	}
	if m == nil && n == nil {
		return judged{}
	}
	j := judged{}
	if m != nil && (m.Paused || m.Skip) {
		return judged{health: skipped}
	}
	present := n != nil && conn.Up && (m == nil || m.ProviderID == "" || n.ProviderID == "" || n.ProviderID == m.ProviderID)
	if m == nil || !m.Remediate && m.Failure == "" {
		switch {
		case w.Now.Before(conn.ReconnectingUntil), s.NoControlPlane && (m == nil || !m.ControlPlane):
			return judged{}
		case s.NoInfrastructure && present && (m == nil || m.DeletingSince.IsZero()):
			return judged{health: excused}
		case s.NoInfrastructure:
			return judged{}
		}
	}
	if m != nil {
		w.judgeMachine(&j, s, conn, c, m, n)
	}
	for _, check := range c.Health.NodeConditions {
		if present && check.Type == "Ready" && check.Status == n.Ready && j.cause(w.Now, n.Since, check.Lasting) && n.Ready == "Unknown" && j.causes == 1 {
			j.dark = n.Since.Add(2 * check.Lasting)
		}
	}
	if j.causes != 1 {
		j.asked, j.dark = false, time.Time{}
	}
	if j.health == unknown && present && (m == nil || m.DeletingSince.IsZero()) {
		j.health = well
	}
	return j
}

// judgeMachine adds what is wrong with a Machine, and with a Node that is not there.
func (w *World) judgeMachine(j *judged, s *State, conn Connection, c *Check, m *Machine, n *Node) {
	if m.Remediate {
		j.health, j.withoutNode, j.asked = ill, true, true
		j.causes++
	}
	if m.Failure != "" {
		j.health, j.withoutNode = ill, true
		j.causes++
	}
	for _, bad := range c.Health.MachineConditions {
		for i := range m.Conditions {
			is := &m.Conditions[i]
			hearsay := is.Status == "Unknown" && is.Reason == "ConnectionDown" || (is.Type == "NodeReady" || is.Type == "NodeHealthy") && !conn.Up
			if is.Type == bad.Type && string(is.Status) == bad.Status && !hearsay && j.cause(w.Now, is.LastTransitionTime.Time, bad.Lasting) {
				j.withoutNode = j.withoutNode || is.Type != "NodeReady" && is.Type != "NodeHealthy"
			}
		}
	}
	notJoined := m.Node == "" && (conn.Up || s.NoControlPlane)
	switch {
	case notJoined && c.Health.NodeStartupTimeout > 0:
		began := m.Created
		for _, since := range []time.Time{s.ControlPlaneSince, s.InfrastructureSince} {
			if since.After(began) {
				began = since
			}
		}
		j.cause(w.Now, began, c.Health.NodeStartupTimeout)
	case conn.Up && m.Node != "" && (n == nil || n.ProviderID != m.ProviderID):
		j.cause(w.Now, w.goneSince(c, m), c.Health.NodeGoneTimeout)
	}
}

// goneSince is since when the Node of a Machine does not exist.
func (w *World) goneSince(c *Check, m *Machine) time.Time {
	since := m.NodeGoneSince
	if w.log != nil {
		since = w.log.gone[m.Body]
		if w.log.sight {
			since = w.log.seenGone[trying{c.Name, m.Body}]
		}
	}
	if since.IsZero() {
		return w.Now
	}
	return since
}

// limited is how many targets of a check are unhealthy in its view, and how many may be.
type limited struct {
	expected, sick, least, most int
}

func (w *World) limits(r *run) limited {
	if r.limited == nil {
		l := w.count(r.view, r.conn, r.check)
		r.limited = &l
	}
	return *r.limited
}

func (w *World) count(s *State, conn Connection, c *Check) limited {
	l := limited{}
	counts := map[shape]int{}
	lingering, fit := 0, 0
	each := func(name string, uid int) {
		m, n := s.pair(c, name)
		is := w.judge(s, conn, c, m, n).health
		counts[is]++
		requested := requestFor(s, c, uid) != nil
		if is != skipped {
			l.expected++
		}
		if requested && is != skipped && is != ill {
			lingering++
		}
		if !requested && (is == well || is == excused) {
			fit++
		}
	}
	for name, m := range s.Machines {
		if !c.ForNodes && c.selects(m.ControlPlane, m.Name) {
			each(name, m.UID)
		}
	}
	for name, n := range s.Nodes {
		if c.ForNodes && c.selects(n.ControlPlane, n.Name) {
			each(name, n.UID)
		}
	}
	limits := &c.Policy.Limits
	l.sick = counts[ill] + lingering
	if c.Policy.Counting == remediation.CountNotHealthy || limits.MinHealthy != nil && limits.Range == nil {
		l.sick = l.expected - fit
	}
	if l.most = mostOf(limits, l.expected); limits.Range != nil {
		l.least = limits.Range.Min
	}
	return l
}

// mostOf is how many of some targets can be unhealthy.
func mostOf(limits *remediation.Limits, targets int) int {
	switch {
	case limits.Range != nil:
		return limits.Range.Max
	case limits.MinHealthy != nil:
		return targets - share(limits.MinHealthy, targets, 99)
	case limits.MaxUnhealthy != nil:
		return share(limits.MaxUnhealthy, targets, 0)
	}
	return share(&limits.Default, targets, 0)
}

// share is a number, or a percentage of another: rounded down, or up with 99 hundredths more.
func share(value *intstr.IntOrString, of, more int) int {
	percent, is := strings.CutSuffix(value.String(), "%")
	n, err := strconv.Atoi(percent)
	if err != nil {
		panic(err)
	}
	if is {
		return (n*of + more) / 100
	}
	return n
}
