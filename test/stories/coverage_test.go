// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stories_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// reach notes down what a line has told of.
func (d *driver) reach(what string, words ...string) {
	for _, word := range words {
		d.reached[what+" "+word] = true
	}
}

func (d *driver) reachVerdict(trace *explain.Trace) {
	d.reach("verdict", trace.Verdict.Kind)
	d.reach(string(explain.Rule), trace.Verdict.Reason)
	d.reach(string(explain.Unknown), trace.Verdict.Reason)
	for _, line := range trace.Gates {
		if line.Answer == explain.Closed || line.Answer == explain.LetThrough {
			d.reach(string(explain.Gate), line.Name)
		}
	}
}

func (d *driver) reachDecision(trace *explain.Trace) {
	decision := &trace.Decision
	d.reach("action", decision.Action)
	d.reach(string(explain.Ending), decision.Why)
	if decision.Action == none {
		d.reach(string(explain.Hold), string(decision.HoldReason))
	}
	for kind, lines := range map[explain.Kind][]explain.Line{explain.Guard: trace.Guards, explain.Preflight: trace.Preflight} {
		for _, line := range lines {
			if line.Answer == explain.Blocks {
				d.reach(string(kind), line.Name)
			}
		}
	}
}

// Whoever adds a reason tells a story about it.
func TestEveryReasonHasAStory(t *testing.T) {
	reached := map[string]bool{}
	for i := range stories {
		for what := range stories[i].play(t).reached {
			reached[what] = true
		}
	}
	for _, what := range everything(t) {
		if !reached[what] {
			t.Errorf("there is no story with: %s", what)
		}
	}
}

// everything is what there is to tell of, as the core itself has it in its tables.
func everything(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	var all []string
	told := []explain.Kind{explain.Gate, explain.Rule, explain.Unknown, explain.Guard, explain.Preflight, explain.Hold, explain.Ending}
	for _, word := range explain.Reasons() {
		if slices.Contains(told, word.Kind) {
			all = append(all, string(word.Kind)+" "+word.Name)
		}
	}
	// The words must not lack what the core has.
	for _, gate := range health.Gates() {
		g.Expect(all).To(ContainElement("gate " + string(gate)))
	}
	for _, rule := range health.Rules() {
		g.Expect(all).To(ContainElement("rule " + string(rule)))
	}
	for _, guard := range remediation.Guards() {
		g.Expect(all).To(ContainElement("guard " + string(guard)))
	}
	// A guard that is asked twice is told of twice.
	for _, look := range remediation.PreflightGuards() {
		if what := string(explain.Preflight) + " " + string(look); !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	for kind := health.Undetermined; kind <= health.Unhealthy; kind++ {
		trace := explain.NewTrace(&explain.Facts{Verdict: &health.Verdict{Kind: kind}, Decision: &remediation.Decision{}})
		all = append(all, "verdict "+trace.Verdict.Kind)
	}
	// The first number without a word is behind the last action.
	for action := remediation.None; ; action++ {
		trace := explain.NewTrace(&explain.Facts{Decision: &remediation.Decision{Action: action}})
		if trace.Decision.Action == "" {
			break
		}
		all = append(all, "action "+trace.Decision.Action)
	}
	for _, words := range [][]string{writeWords, checkWriteWords} {
		for _, word := range words {
			all = append(all, "write "+word)
		}
	}
	return all
}
