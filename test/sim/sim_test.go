// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// number is the value of an environment variable. SIM_STEPS is how long the histories are, all together; SIM_SEED is the first of them.
func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s must be a number: %v", name, err)
	}
	return n
}

const perHistory = 400

// Whatever happens, in whatever order, no invariant is broken; and in the end all targets are healthy and there are no writes any more.
func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	// What is made is thrown away at once: there is nothing to gain from looking for it often.
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	premises := map[string]int{}
	histories, start := number(t, "SIM_STEPS", 100_000)/perHistory, number(t, "SIM_SEED", 0)
	for seed := start; seed < start+histories; seed++ {
		w := New(uint64(seed))
		for w.Steps < perHistory && len(w.Violations) == 0 {
			w.Step()
		}
		reportViolation(t, w, seed)
		for name, n := range w.Premises {
			premises[name] += n
		}
		settled := w.Settle()
		reportViolation(t, w, seed)
		if !settled {
			t.Fatalf("history %d never comes to rest:\n%s", seed, tail(w))
		}
		if missing := w.Unrecorded(); len(missing) > 0 {
			t.Fatalf("history %d breaks records are complete: no record of %v\n%s", seed, missing, tail(w))
		}
		if wrong := w.Miscounted(); len(wrong) > 0 {
			t.Fatalf("history %d breaks counts are true: %v\n%s", seed, wrong, tail(w))
		}
		if left := w.Leftovers(); len(left) > 0 {
			t.Fatalf("history %d leaves %v:\n%s", seed, left, tail(w))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(premises)) {
		t.Logf("%8d states: %s", premises[name], name)
	}
	for _, name := range invariants() {
		if premises[name] == 0 {
			t.Errorf("%s never applied", name)
		}
	}
}

// Other clients delete requests, again and again. Each target gets the next request of a step only after a backoff.
func TestRequests_DeletedByOthers_AreNotRepeatedAtOnce(t *testing.T) {
	const premise = "requests are not repeated at once"
	again := 0
	for seed := range max(50, number(t, "SIM_STEPS", 100_000)/perHistory/20) {
		w := New(uint64(seed))
		w.DeleteRequests()
		for w.Steps < perHistory && len(w.Violations) == 0 {
			w.Step()
		}
		reportViolation(t, w, seed)
		again += w.Premises[premise]
	}
	if again == 0 {
		t.Error("no request was created again")
	}
}

// invariants are all that a history is held against.
func invariants() []string {
	all := make([]string, 0, len(always)+len(blockers))
	all = append(all, always...)
	for i := range blockers {
		all = append(all, blockers[i].invariant)
	}
	return all
}

var always = []string{
	"I1 only unhealthy targets", "I2 the budget", "I3 one at a time", "I3 who works on a Node holds its Lease", "I3 who has finished gives the Lease back",
	"I4 a storm begins", "I4 a storm cools down", "I4 a storm is over", "a storm is noticed",
	"I6 no target is forgotten", "I6 every reason is true", "I6 a waiting target is woken up", "I6 a step ends when its time is over",
	"I6 a request goes when its target is well", "I7 an extra reconcile finds nothing to do", "I8 a move changes nothing",
	"I9 no step is given up before its time", "I9 the healthy delay", "a person has to confirm", "a confirmation counts at once", "a confirmation is used up",
	"only the well have recovered", "no healthy target is given up", "stopped first", "frozen means frozen", "a wake-up is ahead",
	"no request goes without need", "no owner remediation is canceled without need", "no mark is cleared without need", "nothing is forgotten too early", "who is well has no past",
	"an owner remediation without an actor is canceled", "every mark has an author", "who leaves something cleans up", "a control-plane lease is released",
	"what is not wanted goes", "an orphaned request is deleted", "a step that is not named goes", "a remediator without a target is stopped", "who deletes the Node may finish",
	"an act follows its preflight check", "a pause is read before every act", "health is reported before an act", "what ends comes before what starts",
	"a Lease is kept from step to step", "a check that is deleted goes", "nothing is left over", "records are true", "records of owners are true", "events are true", "no request counts as deleted by others", "the status is true", "metrics are true",
}

func reportViolation(t *testing.T, w *World, seed int) {
	t.Helper()
	if len(w.Violations) > 0 {
		t.Fatalf("history %d breaks %s\n%s", seed, w.Violations[0], tail(w))
	}
}

func tail(w *World) string {
	return strings.Join(w.Story[max(0, len(w.Story)-90):], "\n")
}
