// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// number is what an environment variable says. SIM_STEPS is how long the histories are, all together; SIM_SEED is the first of them.
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

// Whatever happens, in whatever order, no invariant is broken; and when it is over, everybody is well and nobody writes any more.
func TestNoHistoryBreaksAnInvariant(t *testing.T) {
	premises := map[string]int{}
	histories, start := number(t, "SIM_STEPS", 100_000)/perHistory, number(t, "SIM_SEED", 0)
	for seed := start; seed < start+histories; seed++ {
		w := New(uint64(seed))
		for range perHistory {
			if w.Step(); len(w.Violations) > 0 {
				break
			}
		}
		report(t, w, seed)
		for name, n := range w.Premises {
			premises[name] += n
		}
		if !w.Settle() {
			t.Fatalf("history %d never comes to rest:\n%s", seed, tail(w))
		}
		report(t, w, seed)
		if left := w.Leftovers(); len(left) > 0 {
			t.Fatalf("history %d leaves %v:\n%s", seed, left, tail(w))
		}
	}
	names := make([]string, 0, len(premises))
	for name := range premises {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Logf("%8d %s", premises[name], name)
	}
	for _, name := range invariants {
		if premises[name] == 0 {
			t.Errorf("%s never had anything to say", name)
		}
	}
}

// invariants are all that a history is held against.
var invariants = []string{
	"I1 only the sick", "I2 the budget", "I3 one at a time", "I4 not while paused", "I4 not while told not to", "I4 not without a Cluster",
	"I4 not on what cannot be read", "I4 not in a storm", "I5 the quorum", "I5 one at a time", "I8 a move changes nothing", "I8 no step twice in an attempt",
	"I9 not before its time", "I10 only what the check names", "E11 nothing that is being deleted", "told to stop first", "frozen means frozen",
	"every mark has an author", "no mark without an owner",
}

func report(t *testing.T, w *World, seed int) {
	t.Helper()
	if len(w.Violations) > 0 {
		t.Fatalf("history %d breaks %s\n%s", seed, w.Violations[0], tail(w))
	}
}

func tail(w *World) string {
	return strings.Join(w.Story[max(0, len(w.Story)-60):], "\n")
}
