// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// start is a remediation of a target that begins, or would begin.
type start struct {
	w *World
	r *run
	// c, m and n are the check, the Machine and the Node as they are in truth.
	c       *Check
	m       *Machine
	n       *Node
	judged  judged
	target  string
	step    remediation.StepID
	request bool
	tries   *tries
}

func (w *World) start(r *run, c *Check, target string, step remediation.StepID, conn Connection) *start {
	x := &start{w: w, r: r, c: c, target: target, step: step, request: true, tries: &tries{}}
	x.m, x.n = w.API.pair(c, target)
	x.judged = w.judge(w.API, conn, c, x.m, x.n)
	for _, s := range c.Policy.Steps {
		if s.ID == step {
			x.request = !s.Owner
		}
	}
	if w.log != nil {
		if t := w.log.tries[trying{c.Name, w.API.body(c, target)}]; t != nil {
			x.tries = t
		}
	}
	return x
}

// live is what a live look finds of it.
func (w *World) live() Connection {
	return Connection{Up: w.Conn.Up && w.Reachable, ReconnectingUntil: w.Conn.ReconnectingUntil}
}

func (x *start) controlPlane() bool {
	return x.n != nil && x.n.ControlPlane || x.m != nil && x.m.ControlPlane
}

// readable: what is known of the Node can be known.
func (x *start) readable() bool { return x.n != nil && x.w.live().Up }

// blocker is one reason not to start anything, by the truth.
type blocker struct {
	invariant string
	// reasons are the reasons that a check may report in this case.
	reasons []remediation.Reason
	// requests, marks: what it is about.
	requests, marks bool
	blocks          func(x *start) bool
}

func is(reasons ...remediation.Reason) []remediation.Reason { return reasons }

// blockers are all reasons not to start anything.
var blockers = []blocker{
	{"I4 not while paused", is(remediation.Paused), true, true, func(x *start) bool {
		return x.w.API.Paused || x.c.Paused || !x.c.ForNodes && x.m != nil && (x.m.Paused || x.m.Skip)
	}},
	{"I4 not while it is deleted", is(remediation.CheckDeleting), true, true, func(x *start) bool { return x.c.Deleting }},
	{"I4 not while it observes", is(remediation.ObserveMode), true, true, func(x *start) bool { return x.c.Policy.Observe }},
	{"I4 not with a pause request", is(remediation.PauseRequested), true, true, func(x *start) bool { return len(x.c.PauseRequests) > 0 }},
	{"I4 not without a Cluster", is(remediation.ClusterNotFound), true, true, func(x *start) bool { return x.w.API.Missing }},
	{"I4 not with a Cluster that goes", is(remediation.ClusterDeleting), true, true, func(x *start) bool { return x.w.API.Deleting && !x.w.API.Missing }},
	{"I4 not on what cannot be read", is(remediation.ClusterUnreachable), true, true, func(x *start) bool {
		return !x.judged.withoutNode && !x.w.live().Up && !x.w.API.NoControlPlane
	}},
	{"I4 not in a storm", is(remediation.InStorm), true, true, func(x *start) bool { return x.w.stormy(x.c.Name) }},
	{"the limit", is(remediation.TooManyUnhealthy), true, true, func(x *start) bool { l := x.w.limits(x.r); return l.sick > l.most }},
	{"the lower end of a range", is(remediation.TooFewUnhealthy), true, true, func(x *start) bool { l := x.w.limits(x.r); return l.sick < l.least }},
	{"I2 the budget", is(remediation.MaxInFlight), true, true, noPlace},
	{"I3 one at a time", is(remediation.ManagedByOtherCheck), true, true, taken},
	{"E11 nothing that is being deleted", is(remediation.Terminating, remediation.StuckDeleting), true, true, func(x *start) bool { return x.m != nil && !x.m.DeletingSince.IsZero() }},
	{"no target that is being deleted", is(remediation.Terminating), true, false, func(x *start) bool {
		return x.readable() && x.n.Terminating.Sign != "" && (x.n.Terminating.Since.IsZero() || x.w.Now.Before(x.n.Terminating.Since.Add(30*time.Minute)))
	}},
	{"no excluded target", is(remediation.Excluded), true, true, func(x *start) bool { return x.readable() && x.n.Excluded }},
	{"no mark against its owner", is(remediation.OwnerRefuses), false, true, func(x *start) bool { return x.m != nil && x.m.Owner == Refused }},
	{"a wish is granted once", is(remediation.AnnotationNotRemoved), true, false, func(x *start) bool {
		return x.judged.asked && x.tries.wished && len(x.tries.steps) == 0
	}},
	{"I9 the back-off", is(remediation.InBackoff, remediation.EscalationExhausted), true, false, func(x *start) bool {
		return !x.tries.failed.IsZero() && x.w.Now.Before(x.tries.failed.Add(x.tries.wait))
	}},
	{"I8 no step twice in an attempt", nil, true, false, func(x *start) bool {
		return slices.ContainsFunc(x.tries.steps, func(tried remediation.StepID) bool { return !after(x.step, tried) })
	}},
	{"I10 only what the check names", is(remediation.TemplateNotResolved), true, true, func(x *start) bool {
		return !slices.ContainsFunc(x.c.Policy.Steps, func(s remediation.Step) bool { return s.ID == x.step && !s.Unresolved })
	}},
	{"the name is free", is(remediation.RequestNameConflict), true, false, func(x *start) bool {
		for _, r := range x.w.API.Requests {
			if x.c.ForNodes && r.Check == x.c.Name && r.Target == x.target && r.TargetUID != x.n.uid() {
				return true
			}
		}
		r := x.w.API.Requests[x.step.Template+"/"+x.target]
		return r != nil && (r.Check != x.c.Name || r.TargetUID != x.w.API.uidOf(x.c, x.target))
	}},
	{"no target that others remediate", is(remediation.NodeLeaseHeld), true, false, func(x *start) bool {
		return x.c.ForNodes && x.n != nil && x.n.Holder != "" && x.n.Holder != x.c.Name && x.w.Now.Before(x.n.BlockedUntil.Add(remediation.LeaseMargin))
	}},
	{"I5 one at a time", is(remediation.ControlPlaneBusy), true, false, busy},
	{"I5 the quorum is known", is(remediation.QuorumUnknown), true, false, func(x *start) bool {
		return x.controlPlane() && (!x.w.live().Up || x.w.Now.Before(x.r.conn.ReconnectingUntil))
	}},
	{"I5 not the only one", is(remediation.SingleControlPlane), true, false, func(x *start) bool { return x.controlPlane() && x.members() == 1 && x.n != nil }},
	{"I5 the quorum", is(remediation.QuorumAtRisk), true, false, noQuorum},
	{"no Node with a renewed Lease", is(remediation.LeaseRenewed), true, true, func(x *start) bool {
		return x.readable() && !x.judged.dark.IsZero() && x.n.Renewed.After(x.n.Since) && x.w.Now.Before(x.judged.dark)
	}},
}

// noPlace: maxInFlight is reached. Members of a control plane with owner remediation, and targets without an owner, do not count.
func noPlace(x *start) bool {
	most := x.c.Policy.MaxInFlight
	if most == nil || !x.request && (x.controlPlane() || x.m != nil && x.m.Orphan) {
		return false
	}
	return x.w.inFlight(x.c, x.target) >= max(1, share(most, x.w.limits(x.r).expected, 99))
}

// taken: another check or remediator works on the target already, as a Machine or as a Node.
func taken(x *start) bool {
	for _, r := range x.w.API.Requests {
		// An owner does not wait for the remediator before it.
		waits := x.request || r.Check != x.c.Name || !kept(&r.Request, x.w.Now)
		if waits && r.Check != stranger && (x.m != nil && (r.TargetUID == x.m.UID || r.Target == x.m.Node) || x.n != nil && r.TargetUID == x.n.UID) {
			return true
		}
	}
	return x.m != nil && x.m.Author != "" && x.m.Author != x.c.Name && x.m.Unhealthy && x.m.Owner != ""
}

// busy: another Node of the control plane is worked on.
func busy(x *start) bool {
	if !x.controlPlane() {
		return false
	}
	for _, m := range x.w.API.Machines {
		if !m.ControlPlane || m == x.m {
			continue
		}
		if m.Unhealthy && m.Owner != "" && m.Owner != Refused || x.w.requested(m) != nil {
			return true
		}
	}
	// The label of a request names a Node that does not exist any more.
	for _, r := range x.w.API.Requests {
		over := kept(&r.Request, x.w.Now) && !x.w.API.exists(r.TargetUID)
		if r.ControlPlane && !over && r.Target != x.target && (x.m == nil || r.TargetUID != x.m.UID && r.Target != x.m.Node) && (x.n == nil || r.TargetUID != x.n.UID) {
			return true
		}
	}
	turn := &x.w.API.Turn
	return turn.Holder != "" && turn.Holder != x.c.Name && x.w.Now.Before(turn.Until)
}

// requested is a request for a Machine or its Node.
func (w *World) requested(m *Machine) *Request {
	n := w.API.Nodes[m.Node]
	for _, r := range w.API.Requests {
		if r.Check != stranger && (r.TargetUID == m.UID || n != nil && r.TargetUID == n.UID) {
			return r
		}
	}
	return nil
}

func (x *start) members() int {
	members := 0
	for _, n := range x.w.API.Nodes {
		if m := x.w.API.machineOf(n.Name); n.ControlPlane && m != nil {
			members++
		}
	}
	return members
}

// noQuorum: the others would be too few. What is known to be lost cannot be taken away any more.
func noQuorum(x *start) bool {
	if !x.controlPlane() || !x.w.live().Up {
		return false
	}
	others := 0
	for _, n := range x.w.API.Nodes {
		if n.ControlPlane && n != x.n && n.Ready == "True" {
			others++
		}
	}
	return (x.n == nil || x.n.Ready != "False") && 2*others <= x.members()
}
