// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/sim"
)

// start is when every story starts.
var start = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// story is a scenario: a list of steps.
type story struct {
	// name is the name of its file, and title the first line of the file.
	name, title string
	// trace is a target and a reason or an action, such as "workers/w-1 RequestOwnerRemediation". The last decision trace of the target with
	// it is written to a file.
	trace string
	steps []step
}

// step is an event, or time that passes.
type step func(d *driver)

// driver replays a story in a simulated cluster, and writes the decisions.
//
// It reconciles a check after an event and when the check has requested it, and at no other time. So a missing requeue stops a story.
type driver struct {
	t    *testing.T
	w    *sim.World
	text strings.Builder
	// reported has the last report of each target, and conditions the last status of each condition, by check.
	reported   map[string]map[string]report
	conditions map[string]map[string]string
	// wakes is when each check is reconciled next.
	wakes map[string]time.Time
	// unseen: the caches do not have the last events yet.
	unseen bool
	uids   int
	// kept are requests with a finalizer of the remediator.
	kept map[string]bool
	// traces are the decision traces of all lines, by target and reason or action.
	traces map[string]string
	// covered has all reasons, actions and writes of the story.
	covered map[string]bool
}

// replay runs the steps of a story.
func (s *story) replay(t *testing.T) *driver {
	t.Helper()
	d := &driver{
		t: t, w: sim.Empty(start), reported: map[string]map[string]report{}, conditions: map[string]map[string]string{}, wakes: map[string]time.Time{},
		kept: map[string]bool{}, traces: map[string]string{}, covered: map[string]bool{},
	}
	d.text.WriteString("# " + s.title + "\n\n")
	for _, step := range s.steps {
		step(d)
	}
	NewWithT(t).Expect(d.w.Violations).To(BeEmpty(), "invariants are violated:\n%s", d.text.String())
	return d
}

// write adds a line.
func (d *driver) write(actor, format string, args ...any) {
	fmt.Fprintf(&d.text, "%s %-12s %s\n", d.w.Now.Format(time.TimeOnly), "["+actor+"]", fmt.Sprintf(format, args...))
}

// at advances the time, and applies events. Then it reconciles every check until nothing changes.
func at(clock string, events ...step) step {
	return func(d *driver) {
		d.advance(d.clock(clock))
		for _, event := range events {
			event(d)
			d.w.FollowOwners()
		}
		if !d.unseen {
			d.settle()
		}
	}
}

// unseen applies events that are not in the caches during the next reconcile.
func unseen(events ...step) step {
	return func(d *driver) {
		d.unseen = true
		for _, event := range events {
			event(d)
		}
	}
}

func (d *driver) clock(text string) time.Time {
	t, err := time.Parse(time.TimeOnly, text)
	NewWithT(d.t).Expect(err).ToNot(HaveOccurred())
	then := start.Add(t.Sub(time.Date(0, time.January, 1, 12, 0, 0, 0, time.UTC)))
	NewWithT(d.t).Expect(then).ToNot(BeTemporally("<", d.w.Now), "the times of steps must not decrease")
	return then
}

// advance lets time pass, and reconciles checks when they have requested it.
func (d *driver) advance(then time.Time) {
	for {
		next := earliest(slices.Collect(maps.Values(d.wakes)))
		if next.IsZero() || next.After(then) {
			break
		}
		d.noMissedWakeUp(next.Add(-time.Second))
		d.w.Now = next
		d.settle()
	}
	d.noMissedWakeUp(then)
	d.w.Now = then
}

// noMissedWakeUp reconciles a copy at a time before the next requeue. A new decision means that a requeue is missing.
func (d *driver) noMissedWakeUp(then time.Time) {
	if !then.After(d.w.Now) {
		return
	}
	for _, name := range d.checks() {
		w := d.w.Fork()
		w.Now = then
		if !d.unseen {
			w.Cache = d.w.API.Copy()
		}
		r := reconcile{check: w.Cache.Checks[name]}
		pass, err := w.Reconcile(name)
		r.pass = pass
		NewWithT(d.t).Expect(err).ToNot(HaveOccurred())
		NewWithT(d.t).Expect(d.reports(&r)).To(Equal(d.reported[name]), "%s needs a requeue at %s:\n%s", name, then.Format(time.TimeOnly), d.text.String())
		NewWithT(d.t).Expect(pass.Writes).To(BeZero(), "%s needs a requeue at %s:\n%s", name, then.Format(time.TimeOnly), d.text.String())
	}
}

func (d *driver) checks() []string { return slices.Sorted(maps.Keys(d.w.API.Checks)) }

// settle reconciles every check until nothing changes.
func (d *driver) settle() {
	for range 20 {
		busy := false
		for _, name := range d.checks() {
			if !d.unseen {
				d.w.Cache = d.w.API.Copy()
			}
			d.unseen = false
			busy = d.reconcile(name) || busy
		}
		if !d.removeFinalizers() && !busy {
			return
		}
	}
	d.t.Fatalf("the checks still change after 20 reconciles:\n%s", d.text.String())
}

// reconcile reconciles a check once. It reports whether that has changed something.
func (d *driver) reconcile(name string) bool {
	s := reconcile{check: d.w.Cache.Checks[name], before: d.w.API.Copy()}
	pass, err := d.w.Reconcile(name)
	s.pass = pass
	before := d.text.Len()
	d.writeReconcile(name, &s)
	if err != nil {
		d.write("Check", "%swrite failed: %v", d.prefix(name), err)
	}
	d.wakes[name] = s.wakeUp(d.w.Now)
	if d.w.API.Checks[name] == nil {
		d.write("Check", "%sno longer exists", d.prefix(name))
		delete(d.wakes, name)
		delete(d.reported, name)
	}
	return d.text.Len() > before || pass.Writes > 0
}

// wakeUp returns when the check is reconciled without an event. That includes the times of blocks that the preflight check has found.
func (s *reconcile) wakeUp(now time.Time) time.Time {
	times := []time.Time{s.pass.Plan.WakeUp}
	for i := range s.pass.Plan.Decisions {
		if until := s.pass.Plan.Decisions[i].Until; until.After(now) {
			times = append(times, until)
		}
	}
	return earliest(times)
}

func earliest(times []time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// removeFinalizers removes deleted requests, unless a story keeps their finalizer.
func (d *driver) removeFinalizers() bool {
	removed := false
	for _, key := range slices.Sorted(maps.Keys(d.w.API.Requests)) {
		if r := d.w.API.Requests[key]; !r.DeletingSince.IsZero() && !d.kept[key] {
			delete(d.w.API.Requests, key)
			d.write("Remediator", "removes its finalizer from %s for %s", r.Kind, r.Target)
			removed = true
		}
	}
	return removed
}
