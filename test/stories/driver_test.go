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

// midday is when every story begins.
var midday = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// story is a scenario, told turn by turn.
type story struct {
	// name is that of its file, and title the first line in it.
	name, title string
	// trace is a target and a word, such as "workers/w-1 RequestOwnerRemediation": the decision trace from when that was told of it is kept
	// beside the story.
	trace string
	steps []step
}

// step is something that somebody does, or time that passes.
type step func(d *driver)

// driver lets a story happen in a small world, and writes down what is decided in it.
//
// A check looks when something has happened, and when it wanted to be woken up, and at no other time. So a story stands still if a wake-up
// is missing.
type driver struct {
	t    *testing.T
	w    *sim.World
	text strings.Builder
	// told is what was said last of each target, and stated of each condition, by check.
	told   map[string]map[string]heard
	stated map[string]map[string]string
	// wakes is when each check wants to look again.
	wakes map[string]time.Time
	// unseen: caches do not show yet what has happened.
	unseen bool
	uids   int
	// kept are requests that their remediators do not let go of.
	kept map[string]bool
	// traces are those of everything that was told, by target and word.
	traces map[string]string
	// reached is everything that was told of, for the test of coverage.
	reached map[string]bool
}

// play tells a story.
func (s *story) play(t *testing.T) *driver {
	t.Helper()
	d := &driver{
		t: t, w: sim.Empty(midday), told: map[string]map[string]heard{}, stated: map[string]map[string]string{}, wakes: map[string]time.Time{},
		kept: map[string]bool{}, traces: map[string]string{}, reached: map[string]bool{},
	}
	d.text.WriteString("# " + s.title + "\n\n")
	for _, step := range s.steps {
		step(d)
	}
	NewWithT(t).Expect(d.w.Violations).To(BeEmpty(), "the world keeps its invariants:\n%s", d.text.String())
	return d
}

// tell adds a line.
func (d *driver) tell(actor, format string, args ...any) {
	fmt.Fprintf(&d.text, "%s %-12s %s\n", d.w.Now.Format(time.TimeOnly), "["+actor+"]", fmt.Sprintf(format, args...))
}

// at lets time pass until then, and something happen. Afterwards every check looks until there is nothing left to do.
func at(clock string, events ...step) step {
	return func(d *driver) {
		d.passUntil(d.clock(clock))
		for _, event := range events {
			event(d)
		}
		if !d.unseen {
			d.settle()
		}
	}
}

// unseen is what has happened, and no cache shows it when a check looks next.
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
	then := midday.Add(t.Sub(time.Date(0, time.January, 1, 12, 0, 0, 0, time.UTC)))
	NewWithT(d.t).Expect(then).ToNot(BeTemporally("<", d.w.Now), "a story goes on, never back")
	return then
}

// passUntil lets time pass. Checks look when they wanted to be woken up; a moment before, there must be nothing to decide yet.
func (d *driver) passUntil(then time.Time) {
	for {
		next := earliest(slices.Collect(maps.Values(d.wakes)))
		if next.IsZero() || next.After(then) {
			break
		}
		d.nothingNew(next.Add(-time.Second))
		d.w.Now = next
		d.settle()
	}
	d.nothingNew(then)
	d.w.Now = then
}

// nothingNew looks at that time, on a copy of the world: whatever would be decided anew has missed its wake-up.
func (d *driver) nothingNew(then time.Time) {
	if !then.After(d.w.Now) {
		return
	}
	for _, name := range d.checks() {
		w := *d.w
		w.Now, w.API, w.Cache = then, d.w.API.Copy(), d.w.Cache.Copy()
		if !d.unseen {
			w.Cache = d.w.API.Copy()
		}
		look := seen{check: w.Cache.Checks[name]}
		pass, err := w.Reconcile(name)
		look.pass = pass
		NewWithT(d.t).Expect(err).ToNot(HaveOccurred())
		NewWithT(d.t).Expect(d.hear(&look)).To(Equal(d.told[name]), "%s should have looked at %s:\n%s", name, then.Format(time.TimeOnly), d.text.String())
		NewWithT(d.t).Expect(pass.Writes).To(BeZero(), "%s should have looked at %s:\n%s", name, then.Format(time.TimeOnly), d.text.String())
	}
}

func (d *driver) checks() []string { return slices.Sorted(maps.Keys(d.w.API.Checks)) }

// settle lets every check look until nobody has anything left to do.
func (d *driver) settle() {
	for range 20 {
		busy := false
		for _, name := range d.checks() {
			if !d.unseen {
				d.w.Cache = d.w.API.Copy()
			}
			d.unseen = false
			busy = d.look(name) || busy
		}
		if !d.letGo() && !busy {
			return
		}
	}
	d.t.Fatalf("it never comes to rest:\n%s", d.text.String())
}

// look is one pass of one check. It says whether that has changed anything.
func (d *driver) look(name string) bool {
	s := seen{check: d.w.Cache.Checks[name], before: d.w.API.Copy()}
	pass, err := d.w.Reconcile(name)
	s.pass = pass
	before := d.text.Len()
	d.tellPass(name, &s)
	if err != nil {
		d.tell("Check", "%sa write fails: %v", d.prefix(name), err)
	}
	d.wakes[name] = s.wakeUp(d.w.Now)
	if d.w.API.Checks[name] == nil {
		d.tell("Check", "%sis gone", d.prefix(name))
		delete(d.wakes, name)
		delete(d.told, name)
	}
	return d.text.Len() > before || pass.Writes > 0
}

// wakeUp is when a check looks again, though nothing has happened. What was found at the last look counts as well.
func (s *seen) wakeUp(now time.Time) time.Time {
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

// letGo removes requests that were deleted and that nobody keeps.
func (d *driver) letGo() bool {
	let := false
	for _, key := range slices.Sorted(maps.Keys(d.w.API.Requests)) {
		if r := d.w.API.Requests[key]; !r.DeletingSince.IsZero() && !d.kept[key] {
			delete(d.w.API.Requests, key)
			d.tell("Remediator", "lets go of %s for %s", r.Kind, r.Target)
			let = true
		}
	}
	return let
}
