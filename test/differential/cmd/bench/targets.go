// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// target is a goal for a value of Remedy: for the value itself, for its ratio to another system, or for what it adds to the floor.
type target struct {
	benchmark, metric string
	// of is the variant of Remedy; nil for the default.
	of *system
	// other is the system to compare with; nil for the value itself. floorMetric is subtracted from the value.
	other       *system
	floorMetric string
	limit       float64
	// worst: the highest value of all rounds, for a quantile of few samples in each.
	worst bool
}

var targets = []target{
	{benchmark: "B1", metric: "evaluations/heartbeat", limit: 0},
	{benchmark: "B1", metric: "cpu µs/heartbeat", other: inTree, limit: 0.2},
	{benchmark: "B1", metric: "cpu µs/heartbeat", other: inTreeUnlimited, limit: 0.02},
	// 0.3 times the 260 µs that it cost at first.
	{benchmark: "B1", metric: "cpu µs/heartbeat", limit: 78},
	{benchmark: "B2", metric: "decision p50 ms", floorMetric: "write p50 ms", limit: 30},
	{benchmark: "B2", metric: "decision max ms", floorMetric: "write p99 ms", limit: 100, worst: true},
	{benchmark: "B2", metric: "decision p50 ms", other: inTree, limit: 0.02},
	{benchmark: "B3", metric: "last condition s", other: inTree, limit: 0.5},
	{benchmark: "B3", metric: "writes/condition", other: inTree, limit: 1},
	{benchmark: "B4", metric: "last request s", other: inTree, limit: 0.05},
	{benchmark: "B5", metric: "heap bytes/Node", other: inTree, limit: 0.35},
	{benchmark: "B6", metric: "decision after acquired Lease s", other: inTree, limit: 0.5},
	{benchmark: "B6", metric: "decision after last renewal s", other: inTree, limit: 0.5},
	{benchmark: "B6", metric: "decision after last renewal s", of: remedyShortLease, other: inTreeShortLease, limit: 0.5},
	{benchmark: "B6", metric: "decision after last renewal s", of: remedyColdStandby, other: inTree, limit: 0.5},
	{benchmark: "B6", metric: "decision after a graceful stop s", limit: 3},
	{benchmark: "B6", metric: "decision after a graceful stop s", of: remedyColdStandby, limit: 3},
	{benchmark: "B7", metric: "API requests", other: inTree, limit: 0.6},
	{benchmark: "B7", metric: "writes while nothing happens", limit: 0},
	{benchmark: "B8", metric: "decisions before their deadline", limit: 0},
	{benchmark: "B8", metric: "lateness p50 ms", limit: 30},
	{benchmark: "B8", metric: "lateness p99 ms", limit: 150},
	{benchmark: "B9", metric: "evaluation: allocations/target", limit: 0},
	{benchmark: "B9", metric: "cpu µs/target", other: inTreeUnlimited, limit: 0.1},
	{benchmark: "B10", metric: "exponent of cpu/event by Nodes", limit: 0.2},
	{benchmark: "B10", metric: "exponent of memory by Nodes", limit: 1.1},
	{benchmark: "B10", metric: "exponent of the first decision by Nodes", limit: 1.1},
	{benchmark: "B10", metric: "exponent of cpu/change by Nodes", limit: 0.2},
	{benchmark: "B10", metric: "exponent of cpu/event by clusters", limit: 0.2},
	{benchmark: "B10", metric: "exponent of memory by clusters", limit: 1.1},
	{benchmark: "B10", metric: "exponent of the first decision by clusters", limit: 1.1},
	{benchmark: "B11", metric: "decisions before their deadline", limit: 0},
	{benchmark: "B12", metric: "300: first condition s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "300: median condition s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "300: last condition s", other: inTree, limit: 0.1},
	{benchmark: "B12", metric: "300: last condition s", limit: 3},
	{benchmark: "B12", metric: "300 with a template: first request s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "300 with a template: median request s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "300 with a template: last request s", other: inTree, limit: 0.1},
	{benchmark: "B12", metric: "300 with a template: last request s", limit: 3},
	{benchmark: "B12", metric: "5000: first condition s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "5000: median condition s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "5000: last condition s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "5000 with a template: first request s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "5000 with a template: median request s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "5000 with a template: last request s", other: inTree, limit: 1},
	{benchmark: "B12", metric: "over the limit: conditions later than 3 s", limit: 0},
	{benchmark: "B12", metric: "over the limit: longest reconcile s", limit: 10},
	{benchmark: "B12", metric: "zone of 300 of 1000: conditions", limit: 0},
	{benchmark: "B12", metric: "zone of 300 of 1000: longest reconcile s", limit: 10},
	{benchmark: "B13", metric: "protobuf: µs/update", other: inTree, limit: 0.3},
	{benchmark: "B13", metric: "protobuf: allocated bytes/update", other: inTree, limit: 0.3},
}

// longestReconciles are the targets of all kinds of a bad day.
func longestReconciles() []target {
	all := make([]target, 0, len(badDays))
	for i := range badDays {
		all = append(all, target{benchmark: "B12", metric: badDays[i].name + ": longest reconcile s", limit: 10})
	}
	return all
}

// result is a target with what was measured.
type result struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Goal     string  `json:"goal"`
	Result   string  `json:"result"`
}

// isCompared reports whether a target compares Remedy with this system.
func isCompared(benchmark string, s *system) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return t.benchmark == benchmark && t.other == s })
}

// evaluate returns the targets of the benchmarks that have run.
func (r *results) evaluate() []result {
	var all []result
	for _, t := range slices.Concat(targets, longestReconciles()) {
		if !slices.ContainsFunc(r.all, func(m measurement) bool { return m.Benchmark == t.benchmark }) {
			continue
		}
		of := cmp.Or(t.of, remedy)
		values := r.values(t.benchmark, of.name, t.metric)
		name, measured := t.benchmark+" "+t.metric, median(values)
		if t.worst && len(values) > 0 {
			name, measured = name+" of all rounds", slices.Max(values)
		}
		if t.of != nil {
			name += ", " + of.name
		}
		switch {
		case t.other != nil:
			name += ", ratio to " + t.other.name
			measured = r.ratio(t.benchmark, t.metric, of.name, t.other.name)
		case t.floorMetric != "":
			name += ", above the floor"
			measured -= median(r.values("B0", floor.name, t.floorMetric))
		}
		verdict := "met"
		switch {
		case math.IsNaN(measured):
			verdict, measured = "NOT MEASURED", 0
		case measured > t.limit:
			verdict = "MISSED"
		}
		all = append(all, result{name, measured, fmt.Sprintf("<= %s", number(t.limit)), verdict})
	}
	return all
}
