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

// cover records the reasons and writes of a line.
func (d *driver) cover(what string, words ...string) {
	for _, word := range words {
		d.covered[what+" "+word] = true
	}
}

func (d *driver) coverVerdict(trace *explain.Trace) {
	d.cover("verdict", trace.Verdict.Kind)
	d.cover(string(explain.Rule), trace.Verdict.Reason)
	d.cover(string(explain.Unknown), trace.Verdict.Reason)
	for _, line := range trace.Gates {
		if line.Answer == explain.Closed || line.Answer == explain.LetThrough {
			d.cover(string(explain.Gate), line.Name)
		}
	}
}

func (d *driver) coverDecision(trace *explain.Trace) {
	decision := &trace.Decision
	d.cover("action", decision.Action)
	d.cover(string(explain.Ending), decision.Why)
	if decision.Action == none {
		d.cover(string(explain.Unfinished), string(decision.BlockedReason))
	}
	for kind, lines := range map[explain.Kind][]explain.Line{explain.Guard: trace.Guards, explain.Preflight: trace.Preflight} {
		for _, line := range lines {
			if line.Answer == explain.Blocks {
				d.cover(string(kind), line.Name)
			}
		}
	}
}

// A new reason needs a story.
func TestStories_Together_CoverEveryReason(t *testing.T) {
	covered := map[string]bool{}
	for i := range stories {
		for what := range stories[i].replay(t).covered {
			covered[what] = true
		}
	}
	for _, what := range allReasons(t) {
		if !covered[what] {
			t.Errorf("no story has: %s", what)
		}
	}
}

// allReasons returns what stories have to cover, from the tables of the product.
func allReasons(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	var all []string
	kinds := []explain.Kind{explain.Gate, explain.Rule, explain.Unknown, explain.Guard, explain.Preflight, explain.Unfinished, explain.Ending}
	for _, word := range explain.Reasons() {
		if slices.Contains(kinds, word.Kind) {
			all = append(all, string(word.Kind)+" "+word.Name)
		}
	}
	// The reasons of internal/explain must be complete.
	for _, gate := range health.Gates() {
		g.Expect(all).To(ContainElement("gate " + string(gate)))
	}
	for _, rule := range health.Rules() {
		g.Expect(all).To(ContainElement("rule " + string(rule)))
	}
	for _, guard := range remediation.Guards() {
		g.Expect(all).To(ContainElement("guard " + string(guard)))
	}
	// A guard that also belongs to the preflight check needs a story for each of the two.
	for _, guard := range remediation.PreflightGuards() {
		if what := string(explain.Preflight) + " " + string(guard); !slices.Contains(all, what) {
			all = append(all, what)
		}
	}
	for kind := health.Undetermined; kind <= health.Unhealthy; kind++ {
		trace := explain.NewTrace(&explain.Facts{Verdict: &health.Verdict{Kind: kind}, Decision: &remediation.Decision{}})
		all = append(all, "verdict "+trace.Verdict.Kind)
	}
	// The number after the last action has no name.
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
