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
	w.Premises[invariant]++
	if !holds {
		w.Violations = append(w.Violations, invariant+": "+fmt.Sprintf(format, args...))
	}
}

// both are the Machine and the Node of a target, of which either may be missing.
func (w *World) both(c *Check, target string) (*Machine, *Node) {
	if c.ForNodes {
		return w.API.machineOf(target), w.API.Nodes[target]
	}
	m := w.API.Machines[target]
	return m, w.API.Nodes[m.Node]
}

// sick is the truth about a target, found without asking the core: is there a cause now that has lasted for long enough? The second
// answer is whether there is one that needs no Node.
func (w *World) sick(c *Check, m *Machine, n *Node) (sick, withoutNode bool) {
	if m != nil && !c.ForNodes {
		withoutNode = m.Remediate || m.Failure != "" || w.badCondition(c, m)
	}
	// What bears the name of its Node may be another server.
	if n != nil && m != nil && !c.ForNodes && n.ProviderID != m.ProviderID {
		n = nil
	}
	switch {
	case withoutNode:
		sick = true
	case n != nil:
		sick = n.Ready != "True" && !w.Now.Before(n.Since.Add(5*time.Minute))
	case m != nil && m.Node != "":
		sick = c.Health.NodeGoneTimeout == 0 || !m.NodeGoneSince.IsZero() && !w.Now.Before(m.NodeGoneSince.Add(c.Health.NodeGoneTimeout))
	case m != nil:
		sick = !w.Now.Before(m.Created.Add(10 * time.Minute))
	}
	return sick, withoutNode
}

// badCondition says whether a condition of a Machine has been bad for too long.
func (w *World) badCondition(c *Check, m *Machine) bool {
	for _, bad := range c.Health.MachineConditions {
		for i := range m.Conditions {
			is := &m.Conditions[i]
			if is.Type == bad.Type && string(is.Status) == bad.Status && !w.Now.Before(is.LastTransitionTime.Add(bad.Lasting)) {
				return true
			}
		}
	}
	return false
}

// auditStart holds every start against the truth.
func (w *World) auditStart(seen *Check, target string, d *remediation.Decision) {
	c := w.API.Checks[seen.Name]
	m, n := w.both(c, target)
	sick, withoutNode := w.sick(c, m, n)
	w.must(sick, "I1 only the sick", "%s acts on %s", c.Name, target)
	w.must(m == nil || m.DeletingSince.IsZero(), "E11 nothing that is being deleted", "%s acts on %s", c.Name, target)
	w.must(!w.API.Paused && !c.Paused && (m == nil || c.ForNodes || !m.Paused && !m.Skip), "I4 not while paused", "%s acts on %s", c.Name, target)
	w.must(!c.Deleting && !c.Policy.Observe && len(c.PauseRequests) == 0, "I4 not while told not to", "%s acts on %s", c.Name, target)
	w.must(!w.API.Deleting && !w.API.Missing, "I4 not without a Cluster", "%s acts on %s", c.Name, target)
	w.must(w.Reachable || withoutNode, "I4 not on what cannot be read", "%s acts on %s", c.Name, target)
	w.must(c.Storm.Since.IsZero(), "I4 not in a storm", "%s acts on %s", c.Name, target)
	w.must(slices.ContainsFunc(c.Policy.Steps, func(s remediation.Step) bool { return s.ID == d.Step }), "I10 only what the check names", "%s does %v", c.Name, d.Step)
	if c.Policy.MaxInFlight != nil && d.Budgeted {
		if inFlight, slots := w.inFlight(c), c.Policy.MaxInFlight.IntValue(); inFlight > slots {
			w.must(false, "I2 the budget", "%s has %d in flight, %d are allowed", c.Name, inFlight, slots)
		}
		w.Premises["I2 the budget"]++
	}
	if d.Action == remediation.MakeRequest {
		ledger := w.ledger(c, m, n)
		w.must(!w.Now.Before(ledger.NotBefore), "I9 not before its time", "%s acts on %s before %v", c.Name, target, ledger.NotBefore)
		w.must(ledger.Tried == remediation.StepID{} || d.Step.Order >= ledger.Tried.Order && d.Step != ledger.Tried, "I8 no step twice in an attempt", "%s does %v after %v", c.Name, d.Step, ledger.Tried)
		if n != nil && n.ControlPlane || m != nil && m.ControlPlane {
			w.auditQuorum(c, m, n)
		}
	}
	w.auditTargets()
}

func (w *World) ledger(c *Check, m *Machine, n *Node) remediation.Ledger {
	if c.ForNodes {
		return n.Ledger
	}
	return m.Ledger
}

// inFlight counts by the truth what takes up a place.
func (w *World) inFlight(c *Check) int {
	targets := map[int]bool{}
	for _, r := range w.API.Requests {
		if r.Check == c.Name {
			targets[r.TargetUID] = true
		}
	}
	for _, m := range w.API.Machines {
		n := w.API.Nodes[m.Node]
		well := n != nil && n.Ready == "True" && m.Failure == "" && !m.Remediate
		if !c.ForNodes && c.selects(m.ControlPlane) && !m.ControlPlane && (m.Author == c.Name || m.Author == "") && m.Sick && m.Owner != "" && m.Owner != Refused && !well {
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

// joinedAll forgets about Machines that have taken the place of others for good, or are gone themselves.
func (w *World) joinedAll() {
	w.replaced = slices.DeleteFunc(w.replaced, func(r replaced) bool {
		for _, m := range w.API.Machines {
			if m.UID == r.by {
				return m.Node != "" || !m.DeletingSince.IsZero()
			}
		}
		return true
	})
}

// auditQuorum: no control plane loses its quorum by our doing.
func (w *World) auditQuorum(c *Check, m *Machine, n *Node) {
	members, others, lost := 0, 0, false
	for _, other := range w.API.Nodes {
		if !other.ControlPlane {
			continue
		}
		members++
		if other == n {
			lost = other.Ready == "False"
		} else if other.Ready == "True" {
			others++
		}
	}
	w.must(lost || 2*others > members, "I5 the quorum", "%s acts on a Node of a control plane of %d with %d healthy others", c.Name, members, others)
	for _, r := range w.API.Requests {
		for _, other := range w.API.Machines {
			node := w.API.Nodes[other.Node]
			if other.ControlPlane && other != m && (r.TargetUID == other.UID || node != nil && node.UID == r.TargetUID) {
				w.must(false, "I5 one at a time", "%s acts while %s/%s is there", c.Name, r.Kind, r.Name)
			}
		}
	}
	w.Premises["I5 one at a time"]++
}

// auditTargets: nobody is worked on by two.
func (w *World) auditTargets() {
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		n := w.API.Nodes[m.Node]
		var working []string
		for _, key := range sorted(w.API.Requests) {
			if r := w.API.Requests[key]; r.DeletingSince.IsZero() && (r.TargetUID == m.UID || n != nil && r.TargetUID == n.UID) {
				working = append(working, key)
			}
		}
		if len(working) > 0 {
			w.must(len(working) == 1, "I3 one at a time", "%s is worked on by %v", name, working)
		}
	}
}

// auditDelete: a remediator is told to stop before its request goes, unless it has succeeded or is not needed any more.
func (w *World) auditDelete(r *Request, d *remediation.Decision) {
	w.must(r.TimedOut || r.Succeeded || d.Why == remediation.Recovered, "told to stop first", "%s/%s goes (%s)", r.Kind, r.Name, d.Why)
	w.must(!w.API.Paused, "frozen means frozen", "%s/%s goes", r.Kind, r.Name)
}

// audit is what always holds.
func (w *World) audit() {
	w.joinedAll()
	w.auditTargets()
	for _, name := range sorted(w.API.Machines) {
		m := w.API.Machines[name]
		if m.Owner == Waiting {
			w.must(m.Author != "", "every mark has an author", "%s has none", name)
			w.must(!m.Orphan || m.Author == "", "no mark without an owner", "%s has no owner", name)
		}
	}
}

// plans are what every check would decide with everything up to date and nothing paused.
func (w *World) plans() map[string]Pass {
	plans := map[string]Pass{}
	for _, name := range sorted(w.API.Checks) {
		live := w.API.Copy()
		live.Paused = false
		c := live.Checks[name]
		c.Paused = false
		pass := Pass{Check: name}
		pass.Snapshot, pass.Situation = Facts(live, c, Connection{Up: w.Reachable}, w.Now)
		pass.Assessment = health.Evaluate(&pass.Snapshot, &c.Health, w.Now)
		pass.Plan = remediation.Plan(&pass.Situation, &pass.Assessment, &c.Policy, w.Now)
		plans[name] = pass
	}
	return plans
}

// auditMove: after a move, what is under way is gone on with as before. What the remediators themselves had said is lost with the status.
func (w *World) auditMove(before, after map[string]Pass) {
	for name, was := range before {
		is := after[name]
		for i := range was.Plan.Decisions {
			a, b := &was.Plan.Decisions[i], &is.Plan.Decisions[i]
			request := was.Situation.Targets[i].Request
			if request == nil || request.Failed || request.Succeeded || was.Situation.Targets[i].CoveredBy != is.Situation.Targets[i].CoveredBy {
				continue
			}
			w.must(a.Action == b.Action && a.Why == b.Why && a.Hold.Reason == b.Hold.Reason && a.Ledger == b.Ledger && a.HealthySince.Equal(b.HealthySince),
				"I8 a move changes nothing", "%s of %s: %+v, and then %+v", was.Situation.Targets[i].Name, name, a, b)
		}
	}
}
