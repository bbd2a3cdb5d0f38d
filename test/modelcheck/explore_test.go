// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package modelcheck_test visits every state of a model with three Nodes, and checks the invariants of internal/remediation in each.
// Random histories of more Nodes are in test/sim. Start reading at TestModel_EveryState_IsSafe.
package modelcheck_test

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var settings = []setting{
	{name: "one at a time", slots: 1, cuts: true},
	{name: "one at a time, maxUnhealthy 2, storms", slots: 1, limit: 2, storms: true, single: true, cuts: true},
	{name: "one at a time, maxUnhealthy 2, storms, two steps", slots: 1, limit: 2, storms: true},
	{name: "two at a time", slots: 2, single: true},
	{name: "no maxInFlight, maxUnhealthy 1", limit: 1, cuts: true},
	{name: "a control plane", controlPlane: true, cuts: true},
}

// orders are the orders that the three Nodes can have. The order must not matter.
var orders = [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// sorted returns the same state with its Nodes in a fixed order, because permutations of a state are equivalent.
func (s state) sorted() state {
	slices.SortFunc(s.nodes[:], func(a, b node) int { return int(a.bits()) - int(b.bits()) })
	return s
}

func (n *node) bits() uint16 {
	var bits uint16
	for _, set := range []bool{
		n.bad, n.overdue, n.request, n.second, n.late, n.told, n.deleting, n.failed, n.succeeded, n.noted, n.waits, n.tried,
	} {
		if bits <<= 1; set {
			bits |= 1
		}
	}
	return bits
}

// explorer visits every state that can be reached from the state in which all Nodes are healthy.
type explorer struct {
	t        *testing.T
	setting  *setting
	places   map[state]int32
	states   []state
	before   [][]int32 // from which states a state can be reached
	premises map[string]int
	// counted is the state in which a premise was counted last. at is the state that is checked now.
	counted map[string]int32
	at      int32
}

func TestModel_EveryState_IsSafe(t *testing.T) {
	// Nearly all memory that a state allocates is garbage when the next state is visited.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	premises := map[string]int{}
	for i := range settings {
		t.Run(settings[i].name, func(t *testing.T) {
			e := &explorer{t: t, setting: &settings[i], places: map[state]int32{}, premises: premises, counted: map[string]int32{}}
			e.visit(state{}, -1)
			for at := 0; at < len(e.states); at++ { //nolint:intrange // the list grows meanwhile
				e.expand(int32(at))
			}
			e.allCanRecover()
			t.Logf("%d states", len(e.states))
		})
	}
	for _, name := range []string{
		"I1 only unhealthy Nodes", "I2 the budget", "I2 the limit", "I3 one request for each", "I4 not while paused", "I4 not in a storm",
		"I4 not what cannot be read", "I5 the control plane", "I6 each unhealthy Node has an action or a block", "I6 all Nodes can recover",
		"I7 nothing is written twice", "I8 a crash changes nothing", "I9 not before its time", "a storm is noticed", "a storm is over",
		"timed out before deletion", "a step ends in time", "preflight: paused", "preflight: healthy again", "preflight: maxInFlight",
		"preflight: request exists", "preflight: the control plane", "preflight: a storm", "preflight: unreachable",
	} {
		t.Logf("%9d states: %s", premises[name], name)
		if premises[name] == 0 {
			t.Errorf("no state reaches the premise of %q", name)
		}
	}
}

// visit records that a state can be reached from another.
func (e *explorer) visit(s state, from int32) {
	s = s.sorted()
	place, known := e.places[s]
	if !known {
		place = int32(len(e.states))
		e.places[s] = place
		e.states, e.before = append(e.states, s), append(e.before, nil)
	}
	if from >= 0 && from != place {
		e.before[place] = append(e.before[place], from)
	}
}

// premise counts a state to which an invariant applies, once.
func (e *explorer) premise(invariant string) {
	if e.counted[invariant] != e.at+1 {
		e.counted[invariant] = e.at + 1
		e.premises[invariant]++
	}
}

func (e *explorer) must(holds bool, invariant string, s *state, detail any) {
	if !holds {
		e.t.Fatalf("%s is violated in %+v: %+v", invariant, *s, detail)
	}
}

// expand visits all successors of a state: after each event, and after a reconcile that stops after any of its writes.
func (e *explorer) expand(at int32) {
	s := e.states[at]
	e.at = at
	e.countPremises(&s)
	events := s.events(e.setting)
	for _, after := range events {
		e.visit(after, at)
	}
	for _, order := range orders {
		plan, steps := s.reconcile(e.setting, order)
		e.audit(&s, order, &plan, steps)
		for _, step := range steps {
			e.visit(step.after, at)
		}
		if order == orders[0] {
			// Another leader may have made any of these writes in the meantime.
			for _, step := range steps {
				events = append(events, step.after)
			}
			e.preflights(&s, &plan, order, append(events, s.byOthers()...))
			e.settles(&s, steps)
		}
	}
}

// countPremises counts the states in which an invariant blocks a remediation.
func (e *explorer) countPremises(s *state) {
	requests, healthy, unhealthy := 0, 0, s.unhealthy()
	for i := range s.nodes {
		if s.nodes[i].request {
			requests++
		}
		if !s.nodes[i].bad {
			healthy++
		}
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.request {
			e.premise("I3 one request for each")
		}
		if !n.bad || !n.overdue {
			e.premise("I1 only unhealthy Nodes")
		}
		if n.request || !n.bad || !n.overdue {
			continue
		}
		for name, is := range map[string]bool{
			"I2 the budget": e.setting.slots > 0 && requests >= e.setting.slots, "I2 the limit": e.setting.limit > 0 && unhealthy > e.setting.limit,
			"I4 not while paused": s.paused, "I4 not in a storm": s.storm > 0, "I4 not what cannot be read": s.cut,
			"I5 the control plane": e.setting.controlPlane && (requests > 0 || healthy < 2), "I9 not before its time": n.waits,
		} {
			if is {
				e.premise(name)
			}
		}
	}
}

// audit checks the writes of a reconcile against the invariants.
func (e *explorer) audit(s *state, order [3]int, plan *remediation.Planned, steps []step) {
	if s.paused {
		e.must(len(steps) == 0, "I4 not while paused", s, steps)
	}
	for place, i := range order {
		d, n := &plan.Decisions[place], &s.nodes[i]
		if n.bad && n.overdue {
			e.premise("I6 each unhealthy Node has an action or a block")
			e.must((d.Action != remediation.None) != (d.Block.Reason != ""), "I6 each unhealthy Node has an action or a block", s, d)
		}
		if n.bad && n.overdue && n.request && !n.deleting && (n.late || n.failed) && !s.paused {
			e.premise("a step ends in time")
			e.must(d.Action == remediation.GiveUp || n.told, "a step ends in time", s, d)
		}
	}
	now := *s
	for _, step := range steps {
		if step.create >= 0 {
			e.auditCreate(&now, step)
		}
		if step.node >= 0 && step.write == remediation.DeleteRequest {
			n := &now.nodes[step.node]
			e.premise("timed out before deletion")
			e.must(n.told || n.succeeded || !n.bad, "timed out before deletion", s, step)
		}
		now = step.after
	}
}

// unhealthy returns how many Nodes count towards maxUnhealthy.
func (s *state) unhealthy() int {
	unhealthy := 0
	for i := range s.nodes {
		if s.nodes[i].bad && s.nodes[i].overdue || s.nodes[i].request {
			unhealthy++
		}
	}
	return unhealthy
}

func (e *explorer) auditCreate(s *state, step step) {
	n := &s.nodes[step.create]
	requests, unhealthy, healthy := 0, s.unhealthy(), 0
	for i := range s.nodes {
		other := &step.after.nodes[i]
		if other.request {
			requests++
		}
		if i != step.create && !other.bad {
			healthy++
		}
	}
	e.must(n.bad && n.overdue, "I1 only unhealthy Nodes", s, step)
	if e.setting.slots > 0 {
		e.must(requests <= e.setting.slots, "I2 the budget", s, step)
	}
	if e.setting.limit > 0 {
		// The requests that the same reconcile has created before are for Nodes that were unhealthy already.
		e.must(unhealthy <= e.setting.limit, "I2 the limit", s, step)
	}
	e.must(!n.request, "I3 one request for each", s, step)
	e.must(s.storm == 0, "I4 not in a storm", s, step)
	e.must(!s.cut, "I4 not what cannot be read", s, step)
	if e.setting.controlPlane {
		e.must(requests == 1 && healthy == 2, "I5 the control plane", s, step)
	}
	e.must(!n.waits, "I9 not before its time", s, step)
}

// settles checks that without events, reconciles stop to write; and that after a reconcile that stops half-way through these steps, the
// next ones reach the same state as the complete reconcile.
func (e *explorer) settles(s *state, steps []step) {
	end := *s
	if len(steps) > 0 {
		end = e.settled(&steps[len(steps)-1].after)
	}
	if e.setting.storms && !s.paused && !s.cut && s.unhealthy() > e.setting.limit {
		e.premise("a storm is noticed")
		e.must(end.storm == 1, "a storm is noticed", s, end)
	}
	if s.storm == 3 && !s.paused && !s.cut && s.unhealthy() <= e.setting.limit {
		e.premise("a storm is over")
		e.must(end.storm == 0, "a storm is over", s, end)
	}
	if s.storm == 1 && (s.cut || s.paused) {
		e.must(end.storm == 1, "a storm is noticed", s, end)
	}
	for i := range max(0, len(steps)-1) {
		e.premise("I8 a crash changes nothing")
		e.must(e.settled(&steps[i].after) == end, "I8 a crash changes nothing", s, steps[i])
	}
}

func (e *explorer) settled(s *state) state {
	now := *s
	for range 8 {
		_, steps := now.reconcile(e.setting, orders[0])
		if len(steps) == 0 {
			e.premise("I7 nothing is written twice")
			return now
		}
		now = steps[len(steps)-1].after
	}
	e.t.Fatalf("I7: reconciles do not stop to write in %+v", *s)
	return now
}

// allCanRecover checks that from every state a state can be reached in which all Nodes are healthy and no request is left.
func (e *explorer) allCanRecover() {
	can := make([]bool, len(e.states))
	var todo []int32
	for i := range e.states {
		if e.states[i] == (state{}) {
			can[i], todo = true, append(todo, int32(i))
		}
	}
	for len(todo) > 0 {
		last := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, from := range e.before[last] {
			if !can[from] {
				can[from], todo = true, append(todo, from)
			}
		}
	}
	for i := range e.states {
		e.at = int32(i)
		e.premise("I6 all Nodes can recover")
		e.must(can[i], "I6 all Nodes can recover", &e.states[i], "the initial state cannot be reached")
	}
}
