// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// must breaks an invariant unless it holds. Its premise is counted, so that an invariant about nothing is noticed.
func (w *World) must(holds bool, invariant, format string, args ...any) {
	w.premise(invariant)
	if !holds && !w.disturbed && w.deletions == nil {
		w.note(fmt.Sprint("VIOLATED conn ", w.Conn, w.Reachable, w.wakes, w.queue, invariant, fmt.Sprintf(format, args...)))
		w.Violations = append(w.Violations, invariant+": "+fmt.Sprintf(format, args...))
	}
}

// premise counts a state to which an invariant applies: each state once, however often it is evaluated there.
func (w *World) premise(invariant string) {
	if last, known := w.counted[invariant]; !known || last != w.moments {
		w.counted[invariant] = w.moments
		w.Premises[invariant]++
	}
}

// moment is now, in the order of everything that happens. changed records that something has happened.
func (w *World) moment() int { w.moments++; return w.moments }
func (w *World) changed()    { w.moments++; w.changes++ }

// inFlight counts by the truth what takes up a place, but for one target.
func (w *World) inFlight(c *Check, except string) int {
	targets := map[int]bool{}
	for _, r := range w.API.Requests {
		// A request whose deletion is stuck takes no place.
		stuck := !r.DeletingSince.IsZero() && !w.Now.Before(r.DeletingSince.Add(remediation.DeletionTimeout))
		if r.Check == c.Name && r.TargetUID != w.API.uidOf(c, except) && !stuck && !w.isOver(w.API, w.live(), c, r) {
			targets[r.TargetUID] = true
		}
	}
	for name, m := range w.API.Machines {
		if c.ForNodes || name == except || m.ControlPlane || m.Orphan || !c.selects(false, name) {
			continue
		}
		if (m.Author == c.Name || m.Author == "") && m.Unhealthy && m.Owner != "" && m.Owner != Refused && w.judge(w.API, w.live(), c, m, w.API.Nodes[m.Node]).health != well {
			targets[m.UID] = true
		}
	}
	n := len(targets)
	for _, r := range w.replaced {
		if r.check == c.Name && w.Now.Before(r.at.Add(c.Policy.ReplacementTimeout)) {
			n++
		}
	}
	return n
}

// joinedAll forgets about Machines that have taken the place of others for good, or do not exist any more.
func (w *World) joinedAll() {
	w.replaced = slices.DeleteFunc(w.replaced, func(r replaced) bool {
		for _, m := range w.API.Machines {
			if m.Body == r.by {
				return m.Node != "" || !m.DeletingSince.IsZero()
			}
		}
		return true
	})
}

// audit is what always holds.
func (w *World) audit() {
	w.joinedAll()
	for _, m := range w.API.Machines {
		w.auditWork(m)
		if m.Owner == Waiting {
			w.must(m.Author != "", "every mark has an author", "%s has none", m.Name)
		}
		if author := w.API.Checks[m.Author]; m.Author != "" && w.log != nil {
			w.must(author != nil && author.Finalizer, "who leaves something cleans up", "%s is marked by %s", m.Name, m.Author)
		}
	}
	for key, r := range w.API.Requests {
		if c := w.API.Checks[r.Check]; r.Check != stranger && w.log != nil && r.Serial > 0 {
			w.must(c != nil && c.Finalizer, "who leaves something cleans up", "%s is there", key)
		}
	}
}

// auditWork: no target is remediated by two. If both ran the preflight check before the other began, neither could detect that.
func (w *World) auditWork(m *Machine) {
	n := w.API.Nodes[m.Node]
	var working [8]*Request
	found := working[:0]
	for _, r := range w.API.Requests {
		if r.Check != stranger && (r.TargetUID == m.UID || n != nil && r.TargetUID == n.UID) {
			found = append(found, r)
		}
	}
	for i, a := range found {
		w.premise("I3 one at a time")
		for _, b := range found[i+1:] {
			if a.Serial > b.Serial && a.Looked > b.Serial || b.Serial > a.Serial && b.Looked > a.Serial {
				w.must(false, "I3 one at a time", "%s is worked on by %s of %s and %s of %s", m.Name, a.Kind, a.Check, b.Kind, b.Check)
			}
		}
	}
}

// auditCreate: two checks never work on two Nodes of one control plane, even if they look at the same moment.
func (w *World) auditCreate(r *run, made *Request) {
	if !made.ControlPlane {
		return
	}
	own, _ := w.API.pair(r.check, made.Target)
	for _, m := range w.API.Machines {
		if !m.ControlPlane || m == own {
			continue
		}
		if other := w.requested(m); other != nil {
			w.must(other.Check == r.name && other.Serial > made.Looked, "I5 one at a time", "%s begins with %s while %s/%s of %s is there", r.name, made.Target, other.Kind, other.Name, other.Check)
		}
	}
	w.premise("I5 one at a time")
}

// plans are what every check would decide with everything up to date, and a pause that has just ended.
func (w *World) plans() map[string]Pass {
	plans := map[string]Pass{}
	for _, name := range sorted(w.API.Checks) {
		live := w.API.Copy()
		live.Paused = false
		c := live.Checks[name]
		c.Paused, c.ThawedAt = false, w.Now
		pass := Pass{Check: name}
		pass.Snapshot, pass.Situation = Facts(live, c, Connection{Up: w.Reachable}, w.Now)
		pass.Assessment = health.Evaluate(&pass.Snapshot, &c.Health, w.Now)
		pass.Plan = remediation.Plan(&pass.Situation, &pass.Assessment, &c.Policy, w.Now)
		plans[name] = pass
	}
	return plans
}

// auditMove: after a move, remediations continue as before. What the remediators themselves had reported is lost with the status.
func (w *World) auditMove(before, after map[string]Pass) {
	for name, was := range before {
		is := after[name]
		for i := range was.Plan.Decisions {
			a, b := &was.Plan.Decisions[i], &is.Plan.Decisions[i]
			request := was.Situation.Targets[i].Request
			// Whether its owner was asked is in the status, too.
			byOwner := kept(request, w.Now) && a.Step != request.Step
			if request == nil || byOwner || request.Failed || request.Succeeded || was.Situation.Targets[i].CoveredBy != is.Situation.Targets[i].CoveredBy {
				continue
			}
			w.must(a.Action == b.Action && a.Why == b.Why && a.Block.Reason == b.Block.Reason && a.History == b.History && a.HealthySince.Equal(b.HealthySince) && a.Until.Equal(b.Until),
				"I8 a move changes nothing", "%s of %s: %+v, and then %+v", was.Situation.Targets[i].Name, name, a, b)
		}
	}
}

// replaced is a Machine that takes the place of another.
type replaced struct {
	check string
	by    int
	at    time.Time
}

// leaves reports whether a Machine has the responsible-check annotation of a check, or a request of it.
func (w *World) leaves(check string) bool {
	for _, m := range w.API.Machines {
		if m.Author == check {
			return true
		}
	}
	for _, request := range w.API.Requests {
		if request.Check == check {
			return true
		}
	}
	return false
}
