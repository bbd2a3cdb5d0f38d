// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// fleet is how many targets there are of each kind, and how many of them have a request as well.
type fleet struct {
	healthy, suspect, unhealthy, undetermined, skipped             int
	healthyWith, suspectWith, unhealthyWith, unreadable, leftAlone int
}

func (f fleet) count(p Policy) (LimitState, int) {
	var s Situation
	var verdicts []health.Verdict
	add := func(n int, kind health.Kind, request *Request) {
		for range n {
			s.Targets, verdicts = append(s.Targets, Target{Request: request}), append(verdicts, health.Verdict{Kind: kind})
		}
	}
	r := &Request{}
	add(f.healthy, health.Healthy, nil)
	add(f.suspect, health.Suspect, nil)
	add(f.unhealthy, health.Unhealthy, nil)
	add(f.undetermined, health.Undetermined, nil)
	add(f.skipped, health.Skipped, nil)
	add(f.healthyWith, health.Healthy, r)
	add(f.suspectWith, health.Suspect, r)
	add(f.unhealthyWith, health.Unhealthy, r)
	add(f.unreadable, health.Undetermined, r)
	add(f.leftAlone, health.Skipped, r)
	a := assessed(verdicts)
	return limitState(&s, &a, &p)
}

func TestGate_Verdicts_AreCounted(t *testing.T) {
	upTo := func(value string) Limits { return Limits{MaxUnhealthy: percent(value)} }
	type gateRow struct {
		why    string
		kind   Counting
		limits Limits
		fleet  fleet
		gate   LimitState
	}
	counts := func(why string, kind Counting, limits Limits, of fleet, gate LimitState) gateRow {
		return gateRow{why, kind, limits, of, gate}
	}
	most := func(value string, most, unhealthy int, allowed bool) LimitState {
		return LimitState{Limit{Field: "maxUnhealthy", Value: value, Max: most}, unhealthy, allowed}
	}
	ranged := func(unhealthy int, allowed bool) LimitState {
		return LimitState{Limit{Field: "unhealthyRange", Value: "[3-5]", Min: 3, Max: 5}, unhealthy, allowed}
	}
	tests := []gateRow{
		// 003 counts Machines.
		counts("003: maxUnhealthy 2, 2 are unhealthy", CountNotHealthy, Limits{MaxUnhealthy: number(2)}, fleet{healthy: 98, unhealthy: 2},
			most("2", 2, 2, true)),
		counts("003: maxUnhealthy 2, 3 are unhealthy", CountNotHealthy, Limits{MaxUnhealthy: number(2)}, fleet{healthy: 97, unhealthy: 3},
			most("2", 2, 3, false)),
		counts("003: 40% of 25, 10 are unhealthy", CountNotHealthy, upTo("40%"), fleet{healthy: 15, unhealthy: 10}, most("40%", 10, 10, true)),
		counts("003: 40% of 25, 11 are unhealthy", CountNotHealthy, upTo("40%"), fleet{healthy: 14, unhealthy: 11}, most("40%", 10, 11, false)),
		counts("003: 40% of 6, 2 are unhealthy", CountNotHealthy, upTo("40%"), fleet{healthy: 4, unhealthy: 2}, most("40%", 2, 2, true)),
		counts("003: 40% of 6, 3 are unhealthy", CountNotHealthy, upTo("40%"), fleet{healthy: 3, unhealthy: 3}, most("40%", 2, 3, false)),
		counts("003: [3-5] of 10, 2 are unhealthy", CountNotHealthy, Limits{Range: &Range{3, 5}}, fleet{healthy: 8, unhealthy: 2},
			ranged(2, false)),
		counts("003: [3-5] of 10, 3 are unhealthy", CountNotHealthy, Limits{Range: &Range{3, 5}}, fleet{healthy: 7, unhealthy: 3},
			ranged(3, true)),
		counts("003: [3-5] of 10, 6 are unhealthy", CountNotHealthy, Limits{Range: &Range{3, 5}}, fleet{healthy: 4, unhealthy: 6},
			ranged(6, false)),
		counts("003: skipped Machines are not checked: 40% of 25, and 5 more", CountNotHealthy, upTo("40%"),
			fleet{healthy: 15, unhealthy: 10, skipped: 5}, most("40%", 10, 10, true)),
		counts("targets that are not healthy count", CountNotHealthy, upTo("40%"), fleet{healthy: 15, unhealthy: 1, suspect: 4, undetermined: 6},
			most("40%", 10, 11, false)),
		counts("healthy targets whose request exists count", CountNotHealthy, upTo("40%"), fleet{healthy: 7, unhealthy: 2, healthyWith: 1},
			most("40%", 4, 3, true)),
		counts("each target counts once", CountNotHealthy, upTo("40%"),
			fleet{healthy: 6, unhealthyWith: 2, suspectWith: 1, unreadable: 1, leftAlone: 3}, most("40%", 4, 4, true)),
		counts("minHealthy 51% of 10, 6 are healthy", CountNotHealthy, Limits{MinHealthy: percent("51%")},
			fleet{healthy: 6, unhealthy: 3, suspect: 1}, LimitState{Limit{Field: "minHealthy", Value: "51%", Max: 4}, 4, true}),

		// 001 and 002 count Nodes.
		counts("001: 30% of 10, 3 are unhealthy", CountUnhealthy, upTo("30%"), fleet{healthy: 7, unhealthy: 3}, most("30%", 3, 3, true)),
		counts("001: 30% of 10, 4 are unhealthy", CountUnhealthy, upTo("30%"), fleet{healthy: 6, unhealthy: 4}, most("30%", 3, 4, false)),
		counts("001, 002: 49% of 100, 49 are unhealthy: at most as many as that", CountUnhealthy, Limits{Default: *percent("49%")},
			fleet{healthy: 51, unhealthy: 49}, most("49%", 49, 49, true)),
		counts("001, 002: 49% of 100, 50 are unhealthy", CountUnhealthy, Limits{Default: *percent("49%")}, fleet{healthy: 50, unhealthy: 50},
			most("49%", 49, 50, false)),
		counts("suspects are neither healthy nor unhealthy, and of the others nothing is known", CountUnhealthy, upTo("30%"),
			fleet{healthy: 2, unhealthy: 3, suspect: 4, undetermined: 1}, most("30%", 3, 3, true)),
		counts("10 Nodes, 2 of them unhealthy and a third one whose request is still there", CountUnhealthy, upTo("30%"),
			fleet{healthy: 7, unhealthy: 1, unhealthyWith: 1, healthyWith: 1}, most("30%", 3, 3, true)),
		counts("whatever is known of it", CountUnhealthy, upTo("30%"),
			fleet{healthy: 6, unhealthy: 1, suspectWith: 1, unreadable: 1, healthyWith: 1}, most("30%", 3, 4, false)),
		counts("but not if it is to be left alone", CountUnhealthy, upTo("30%"), fleet{healthy: 7, unhealthy: 3, leftAlone: 1, skipped: 1},
			most("30%", 3, 3, true)),
		counts("a minHealthy is about the healthy ones, with Nodes, too", CountUnhealthy, Limits{MinHealthy: percent("51%")},
			fleet{healthy: 5, unhealthy: 1, suspect: 4}, LimitState{Limit{Field: "minHealthy", Value: "51%", Max: 4}, 5, false}),
		counts("a range counts unhealthy targets", CountUnhealthy, Limits{Range: &Range{1, 2}, MinHealthy: percent("51%")},
			fleet{healthy: 5, unhealthy: 1, suspect: 4}, LimitState{Limit{Field: "unhealthyRange", Value: "[1-2]", Min: 1, Max: 2}, 1, true}),
		counts("no Nodes at all", CountUnhealthy, upTo("30%"), fleet{}, LimitState{Limit{Field: "maxUnhealthy", Value: "30%"}, 0, true}),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			gate, healthy := test.fleet.count(Policy{Limits: test.limits, Counting: test.kind})
			g.Expect(gate).To(Equal(test.gate))
			g.Expect(healthy).To(Equal(test.fleet.healthy))
		})
	}
}

// 003, end to end: with 40% of 6 Machines two unhealthy ones are remediated, and of three none.
func TestGate_UnhealthyCount_OpensAndCloses(t *testing.T) {
	for sick, started := range map[int]int{0: 0, 1: 1, 2: 2, 3: 0, 6: 0} {
		g := NewWithT(t)
		x := usual(is(well), policy(func(p *Policy) { p.Limits.MaxUnhealthy = percent("40%") }))
		for len(x.verdicts) < 6 {
			also(Target{Name: "more"}, well)(x)
		}
		for i := range sick {
			x.verdicts[i] = sickFor(time.Hour)
		}
		plan := x.plan()
		g.Expect(plan.Counts).To(
			Equal(Counts{Healthy: 6 - sick, Remediating: started, InFlight: started, Blocked: sick - started}), "%d are unhealthy", sick,
		)
	}
}
