// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

func typesUID(uid string) types.UID { return types.UID(uid) }

// move is one thing that happens, and the world after it.
type move struct {
	what string
	to   world
	// fair: it happens by itself at some time. Persons and faults are not fair.
	fair bool
}

// explorer explores all worlds of a premise.
type explorer struct {
	*WithT
	p     *premise
	trace func() string
	// used are the names of the premises' events that happened, so that none is vacuous.
	used map[string]bool
}

// decide is a reconcile: the record is written, and then the effect follows, or the manager crashes before it.
func (e *explorer) decide(w *world, now time.Time, what string) (_ []move, waits bool) {
	record, o := w.status(), e.p.observe(w)
	out := lifecycle.Step(record, o, now)
	e.verify(w, record, o, &out)
	next := *w
	next.store(&out.Record)
	if a := out.Record.Action; a != nil && !a.Ended && (record.Action == nil || record.Action.Ended) {
		// The Job of the next number does not exist yet.
		next.job = job{}
	}
	moves, waits := []move(nil), !out.Wake.IsZero()
	if out.Effect == lifecycle.NoEffect {
		return []move{{what, next, true}}, waits
	}
	if next != *w {
		moves = append(moves, move{what + ", crash", next, false})
	}
	e.perform(&next, &out)
	return append(moves, move{what, next, true}), waits
}

// perform performs an effect.
func (e *explorer) perform(w *world, out *lifecycle.Outcome) {
	w.performWorkload(out.Effect)
	switch out.Effect { //nolint:exhaustive // Others change the Pod only.
	case lifecycle.AddFinalizer:
		w.finalizer, w.blockMove = true, true
	case lifecycle.AddTaint:
		w.taint = ours
	case lifecycle.RemoveTaint:
		w.taint = ""
	case lifecycle.Finish:
		w.finished, w.finalizer, w.blockMove = string(out.Record.Result), false, false
	case lifecycle.RunJob:
		a := out.Record.Action
		if !w.job.exists {
			w.job = job{
				exists: true, method: a.Method, action: a.Action, neighbor: (w.changed || e.p.neighbors) && a.Method == bmc,
				proves: w.pod.terminating || !w.pod.object,
			}
		}
	case lifecycle.DeleteJob:
		w.job.deleted = true
	case lifecycle.Unblock:
		w.finalizer, w.blockMove = false, false
	}
}

// execute is what the device does.
func (e *explorer) execute(w *world) {
	d, j := w.device(w.job.method), &w.job
	if j.neighbor {
		d = &w.neighbor
	}
	j.executed, j.result = true, fencingv1.JobFailed
	hadPower := w.hasPower()
	defer func() {
		if hadPower && !w.hasPower() {
			w.losePower()
		}
		dumps := e.p.dumps && j.method == bmc && j.result == fencingv1.JobSucceeded
		w.pod.proven = j.proves && (j.result == fencingv1.JobOff || dumps)
	}()
	if e.p.dead[j.method] {
		return
	}
	if e.p.dumps && j.method == bmc {
		if w.pod.crashed {
			j.result = fencingv1.JobSucceeded
		}
		return
	}
	switch j.action {
	case fencingv1.ActionStatus:
		j.result, d.answer = fencingv1.JobSucceeded, fencingv1.PowerOn
		if d.off {
			j.result, d.answer = fencingv1.JobOff, fencingv1.PowerOff
		}
		return
	case fencingv1.ActionOff:
		d.off = d.off || !e.p.ignoresOff[j.method]
	case fencingv1.ActionOn:
		d.off = false
	case fencingv1.ActionRun:
	}
	j.result, d.answer = fencingv1.JobSucceeded, ""
}

// moves are all that can happen in a world.
func (e *explorer) moves(w *world) []move {
	all, waits := e.decide(w, start, "reconcile")
	if waits {
		afterDeadline, _ := e.decide(w, late, "deadline")
		for _, m := range afterDeadline {
			// A Job that ends does so before its deadline.
			m.fair = m.fair && (e.p.jobsHang || !w.job.exists || w.job.finished)
			all = append(all, m)
		}
	}
	add := func(what string, when, fair bool, change func(*world)) {
		if !when {
			return
		}
		next := *w
		change(&next)
		e.used[what] = true
		all = append(all, move{what, next, fair})
	}
	p, j := e.p, w.job
	add("device acts", j.exists && !j.executed && !j.finished, true, func(n *world) { e.execute(n) })
	add("Job ends", j.exists && j.executed && !j.finished, !p.jobsHang, func(n *world) { n.job.finished, n.job.deleted = true, false })
	add("Job ends unknown", j.exists && !j.finished && w.flips < 1, false, func(n *world) {
		n.job.finished, n.job.deleted, n.job.result, n.flips = true, false, fencingv1.JobUnknown, n.flips+1
	})
	add("deleted Job ends", j.deleted && !p.jobsHang, true, func(n *world) { n.job = job{} })
	add("Job deleted", j.exists && w.flips < 1, false, func(n *world) { n.job, n.flips = job{}, n.flips+1 })
	add("kubelet stops", !p.workload && !w.hasPower() && w.ready != corev1.ConditionUnknown, true,
		func(n *world) { n.ready = corev1.ConditionUnknown })
	booted := !p.workload && w.taint == ours && w.boot < 1 && e.cycled(w)
	add("machine boots", booted, true, func(n *world) { n.boot, n.ready = n.boot+1, corev1.ConditionTrue })
	add("Node recovers", !p.workload && p.nodeRecovers && w.hasPower() && w.ready != corev1.ConditionTrue && w.flips < 1, false,
		func(n *world) { n.ready, n.flips = corev1.ConditionTrue, n.flips+1 })
	add("person switches", p.person && w.switches < 2, false, func(n *world) {
		if n.bmc.off, n.switches = !n.bmc.off, n.switches+1; n.bmc.off {
			n.losePower()
		}
	})
	add("request deleted", p.deletes && !w.deleting, false, func(n *world) { n.deleting = true })
	add("request canceled", p.cancels && !w.canceled, false, func(n *world) { n.canceled = true })
	add("paused", p.pauses && w.flips < 1, false, func(n *world) { n.paused, n.flips = !n.paused, n.flips+1 })
	add("unpaused", p.pauses && w.paused, true, func(n *world) { n.paused = false })
	add("Machine deleted", p.targetGoes && !w.targets, false, func(n *world) { n.targets, n.deleting = true, true })
	add("Node replaced", p.replaces && !w.replaced, false, func(n *world) { n.replaced, n.taint = true, "" })
	add("taint removed", p.untaints && w.taint == ours && w.flips < 1, false, func(n *world) { n.taint, n.flips = "", n.flips+1 })
	add("other fence", p.otherFence && w.taint == "" && w.flips < 1, false, func(n *world) { n.taint, n.flips = others, n.flips+1 })
	add("other fence ends", p.otherFence && w.taint == others, true, func(n *world) { n.taint = "" })
	add("limit exceeded", p.limits && !w.overLimit && w.flips < 1, false, func(n *world) { n.overLimit, n.flips = true, n.flips+1 })
	add("limit kept", p.limits && w.overLimit, true, func(n *world) { n.overLimit = false })
	add("profile deleted", p.profileGoes && !w.noProfile, false, func(n *world) { n.noProfile = true })
	add("row changed", p.rowChanges && !w.changed && offRequested(w), false, func(n *world) { n.changed = true })
	add("row corrected", p.rowChanges && w.changed && w.flips < 1, false, func(n *world) { n.changed, n.flips = false, n.flips+1 })
	add("smaller fence", p.parallel && w.others == "" && w.flips < 1, false, func(n *world) { n.others, n.flips = "smaller", n.flips+1 })
	add("larger fence", p.parallel && w.others == "" && w.flips < 1, false, func(n *world) { n.others, n.flips = "larger", n.flips+1 })
	add("smaller fence ends", w.others == "smaller" && w.taint != ours, true, func(n *world) { n.others = "" })
	add("larger fence steps back", w.others == "larger", true, func(n *world) { n.others = "" })
	add("unreadable", p.unreadable && !w.unreadable && w.flips < 1, false, func(n *world) { n.unreadable, n.flips = true, n.flips+1 })
	add("readable", p.unreadable && w.unreadable, true, func(n *world) { n.unreadable = false })
	e.workloadMoves(w, add)
	return all
}

// offRequested reports whether the Node is being switched off.
func offRequested(w *world) bool {
	return slices.ContainsFunc(w.status().Methods, func(m fencingv1.MethodRecord) bool { return m.OffRequested != nil })
}

// cycled reports whether the machine has lost its power and has it again.
func (e *explorer) cycled(w *world) bool {
	s := w.status()
	requested := false
	for _, m := range s.Methods {
		requested = requested || m.Step == fencingv1.StepPowerManagement && m.OffRequested != nil && !e.p.ignoresOff[m.Name] && !e.p.dead[m.Name]
	}
	return requested && w.hasPower() && w.ready == corev1.ConditionUnknown
}

// ended reports whether the fence waits for persons only.
func ended(w *world) bool {
	s := w.status()
	if s.Phase == fencingv1.PhaseFinal {
		return w.finished != "" && !w.finalizer
	}
	if s.Phase == fencingv1.PhaseError {
		return s.Result == fencingv1.ResultFailed && !w.deleting && !w.canceled && !w.targets
	}
	// A Node that was off before stays off; one that is Ready again is not fenced; without a profile nothing begins.
	kept := s.Result == fencingv1.ResultSucceeded && !w.deleting && !w.canceled
	idle := s.Step == fencingv1.StepIsolation && s.Phase == fencingv1.PhaseNew && !w.deleting && !w.canceled && !w.targets
	return kept || idle || w.noProfile && !w.deleting && !w.canceled && !w.targets
}

func (e *explorer) explore() (states int) {
	type origin struct {
		from world
		what string
	}
	begin := e.p.begin()
	seen := map[world]origin{begin: {}}
	reverse := map[world][]world{}
	queue, good := []world{begin}, []world{}
	for len(queue) > 0 {
		w := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		e.trace = func() string {
			text, at := "", w
			for seen[at].what != "" {
				text = seen[at].what + " > " + text
				at = seen[at].from
			}
			return fmt.Sprintf("%s\n%+v", text, *w.status())
		}
		if ended(&w) {
			good = append(good, w)
		}
		for _, m := range e.moves(&w) {
			if m.fair {
				reverse[m.to] = append(reverse[m.to], w)
			}
			if _, known := seen[m.to]; !known {
				seen[m.to] = origin{w, m.what}
				queue = append(queue, m.to)
			}
		}
	}
	reaches := map[world]bool{}
	for _, w := range good {
		reaches[w] = true
	}
	for len(good) > 0 {
		w := good[len(good)-1]
		good = good[:len(good)-1]
		for _, from := range reverse[w] {
			if !reaches[from] {
				reaches[from] = true
				good = append(good, from)
			}
		}
	}
	for w := range seen {
		if !reaches[w] {
			text, at := "", w
			for seen[at].what != "" {
				text = seen[at].what + " > " + text
				at = seen[at].from
			}
			e.Expect(reaches[w]).To(BeTrue(), "the fence never ends after: %s\n%+v", text, w)
		}
	}
	return len(seen)
}

func TestStep_EveryWorld_KeepsInvariants(t *testing.T) {
	for _, p := range premises() {
		t.Run(p.name, func(t *testing.T) {
			e := &explorer{WithT: NewWithT(t), p: &p, used: map[string]bool{}}
			states := e.explore()
			for _, event := range p.mustHappen() {
				e.Expect(e.used[event]).To(BeTrue(), "no world in which: %s", event)
			}
			t.Log(states, "states")
		})
	}
}
