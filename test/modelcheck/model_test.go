// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package modelcheck_test

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// The model has three Nodes and all their events in any order. A state contains no absolute time, only whether something has lasted long
// enough, so the number of states is finite.

// node is one Node with its request and its remediation history.
type node struct {
	// bad: a condition is met. overdue: it has lasted for the timeout, so the Node is unhealthy.
	bad, overdue bool
	request      bool
	second       bool // the request belongs to the second step
	late         bool // the step has timed out
	told         bool // the request has the timed-out annotation
	deleting     bool
	failed       bool
	succeeded    bool
	noted        bool // the remediation history contains the failure of this attempt
	waits        bool // the next attempt is delayed by the backoff
	tried        bool // the first step of this attempt has ended
}

// state is a state of the model.
type state struct {
	nodes  [3]node
	paused bool
	// cut: the workload cluster is unreachable.
	cut bool
	// storm: 0 is none, 1 is a storm, 2 is one whose cooldown has begun, 3 is one whose cooldown is over.
	storm uint8
}

// setting is constant while the states are visited.
type setting struct {
	name         string
	slots, limit int
	storms       bool
	controlPlane bool
	// single: there is only one step. cuts: the workload cluster can become unreachable.
	single, cuts bool
}

const tick = time.Minute

// names are the names of the Nodes by their place in an order.
var names = [3]string{"n0", "n1", "n2"}

func (c *setting) policy() remediation.Policy {
	p := remediation.Policy{
		Limits:   remediation.Limits{Default: intstr.FromString("100%")},
		Counting: remediation.CountUnhealthy,
		Backoff:  remediation.Backoff{Initial: tick, Limit: tick},
		Steps: []remediation.Step{
			{ID: remediation.StepID{Order: 1, Template: "A"}, Timeout: tick},
			{ID: remediation.StepID{Order: 2, Template: "B"}, Timeout: tick},
		},
	}
	if c.single {
		p.Steps = p.Steps[:1]
	}
	if c.slots > 0 {
		slots := intstr.FromInt32(int32(c.slots))
		p.MaxInFlight = &slots
	}
	if c.limit > 0 {
		limit := intstr.FromInt32(int32(c.limit))
		p.Limits.MaxUnhealthy = &limit
	}
	if c.storms {
		p.StormCooldown = tick
	}
	return p
}

// since returns a time that is the timeout ago, or now.
func since(longEnough bool) time.Time {
	if longEnough {
		return noon.Add(-tick)
	}
	return noon
}

// facts returns the input of the core in a state, with the Nodes named in the given order.
func (s *state) facts(c *setting, order [3]int) (remediation.Situation, health.Assessment) {
	var situation remediation.Situation
	situation.Check.Paused, situation.Check.Unreachable = s.paused, s.cut
	if s.storm > 0 {
		situation.Check.Storm.Since = noon.Add(-tick)
	}
	if s.storm >= 2 {
		situation.Check.Storm.CooldownSince = since(s.storm == 3)
	}
	if !s.cut {
		situation.ControlPlane.Etcd.State = remediation.EtcdStacked
	}
	verdicts := make([]health.Verdict, 0, len(order))
	situation.Targets = make([]remediation.Target, 0, len(order))
	situation.ControlPlane.Etcd.Members = make([]remediation.Member, 0, len(order))
	for place, i := range order {
		n := &s.nodes[i]
		target := n.target(names[place])
		target.ControlPlane = c.controlPlane
		situation.Targets = append(situation.Targets, target)
		situation.ControlPlane.Etcd.Members = append(situation.ControlPlane.Etcd.Members, remediation.Member{Node: target.Node, Healthy: !n.bad})
		verdicts = append(verdicts, n.verdict())
	}
	return situation, assessed(verdicts)
}

func (n *node) target(name string) remediation.Target {
	t := remediation.Target{Name: name, Node: name}
	if n.noted {
		t.History.Failures = 1
	}
	if n.waits {
		t.History.Failures, t.History.NotBefore = 1, noon.Add(tick)
	}
	if n.tried {
		t.History.Tried = remediation.StepID{Order: 1, Template: "A"}
	}
	if !n.request {
		return t
	}
	t.Request = &remediation.Request{
		Step: remediation.StepID{Order: 1, Template: "A"}, Attempt: 1, Started: since(n.late),
		TimedOut: n.told, Failed: n.failed, Succeeded: n.succeeded,
	}
	if n.second {
		t.Request.Step = remediation.StepID{Order: 2, Template: "B"}
	}
	if n.deleting {
		t.Request.DeletingSince = noon
	}
	return t
}

func (n *node) verdict() health.Verdict {
	switch {
	case !n.bad:
		return health.Verdict{Kind: health.Healthy}
	case !n.overdue:
		return health.Verdict{Kind: health.Suspect, Reason: health.UnhealthyNode, Since: noon, Until: noon.Add(tick)}
	default:
		f := health.Finding{
			Rule: health.UnhealthyNode, Met: true, Since: since(true), Due: noon, Lasting: tick, Condition: "Ready", Status: "False",
		}
		return health.Verdict{Kind: health.Unhealthy, Reason: health.UnhealthyNode, Since: f.Since, Findings: []health.Finding{f}}
	}
}

// step is one write of a reconcile and the state after it.
type step struct {
	create int // the Node that a request is created for, or -1
	node   int
	write  remediation.Write
	after  state
}

// reconcile returns the writes of the controller in a state, in their order.
func (s *state) reconcile(c *setting, order [3]int) (remediation.Planned, []step) {
	situation, a := s.facts(c, order)
	policy := c.policy()
	plan := remediation.Plan(&situation, &a, &policy, noon)
	var steps []step
	now := *s
	for _, write := range plan.CheckWrites(&situation, plan.Finalizer) {
		if write == remediation.WriteStorm {
			now.storm = 0
			if !plan.Storm.Since.IsZero() {
				now.storm = 1
			}
			if !plan.Storm.CooldownSince.IsZero() {
				now.storm = 2
			}
			steps = append(steps, step{create: -1, node: -1, after: now})
		}
	}
	for place, i := range order {
		d := &plan.Decisions[place]
		for _, write := range d.Writes(&situation.Targets[place]) {
			now.nodes[i].write(write, d)
			create := -1
			if write == remediation.CreateRequest {
				create = i
			}
			steps = append(steps, step{create: create, node: i, write: write, after: now})
		}
	}
	return plan, steps
}

func (n *node) write(write remediation.Write, d *remediation.Decision) {
	switch write { //nolint:exhaustive // the model has no owner remediation and no Leases
	case remediation.WriteHistory:
		n.waits = d.History.NotBefore.After(noon)
		n.noted = d.History.Failures > 0 && n.request
		n.tried = d.History.Tried != remediation.StepID{}
	case remediation.CreateRequest:
		*n = node{bad: n.bad, overdue: n.overdue, tried: n.tried, request: true, second: d.Step.Order == 2}
	case remediation.StopRemediator:
		n.told = true
	case remediation.DeleteRequest:
		n.deleting = true
	default:
		panic(fmt.Sprintf("the model does not contain write %d", write))
	}
}

// events returns the states after each event that can happen in a state.
func (s *state) events(c *setting) []state {
	var next []state
	add := func(change func(*state)) {
		after := *s
		if change(&after); after != *s {
			next = append(next, after)
		}
	}
	// Time passes.
	add(func(s *state) {
		for i := range s.nodes {
			n := &s.nodes[i]
			n.overdue, n.late, n.waits = n.bad, n.request, false
		}
		if s.storm == 2 {
			s.storm = 3
		}
	})
	add(func(s *state) { s.paused = !s.paused })
	if c.cuts {
		add(func(s *state) { s.cut = !s.cut })
	}
	for i := range s.nodes {
		add(func(s *state) { s.nodes[i].bad = true })
		add(func(s *state) { s.nodes[i].bad, s.nodes[i].overdue = false, false })
		if n := s.nodes[i]; n.request {
			if n.deleting {
				add(func(s *state) { s.nodes[i].gone() })
			}
			if !n.told && !n.succeeded {
				add(func(s *state) { s.nodes[i].failed = true })
			}
			if !n.told && !n.failed {
				add(func(s *state) { s.nodes[i].succeeded, s.nodes[i].bad, s.nodes[i].overdue = true, false, false })
			}
		}
	}
	return next
}

// gone removes the request of a Node.
func (n *node) gone() {
	*n = node{bad: n.bad, overdue: n.overdue, waits: n.waits, tried: n.tried}
}

func assessed(verdicts []health.Verdict) health.Assessment {
	a := health.Assessment{Verdicts: verdicts, Counts: health.Counts{Expected: len(verdicts)}}
	for i := range verdicts {
		switch verdicts[i].Kind { //nolint:exhaustive // there are only these three here
		case health.Healthy:
			a.Counts.Healthy++
		case health.Unhealthy:
			a.Counts.Unhealthy++
		default:
			a.Counts.Suspect++
		}
	}
	return a
}
