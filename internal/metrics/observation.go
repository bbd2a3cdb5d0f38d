// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
)

// Observation is what one pass over a check has found. What it does not say has no series, or is 0 where there always is one.
type Observation struct {
	// States say how many targets are in which state.
	States map[explain.State]int
	// Blocked says how many targets are held, by the reason.
	Blocked map[string]int
	// Gate is nil where nothing could be counted, as when the Cluster does not exist.
	Gate *Gate
	// Conditions are those of the check.
	Conditions []metav1.Condition
	// Strategies are those that the check may use.
	Strategies []Strategy
}

// Gate is how many targets are sick, and what follows.
type Gate struct {
	Sick, Limit int
	Storm       bool
}

// ObservationOf sums a pass up. The conditions are those that were written into status. It allocates nothing for a target.
func ObservationOf(p *explain.Pass, conditions []metav1.Condition) Observation {
	o := Observation{States: map[explain.State]int{}, Blocked: map[string]int{}, Conditions: conditions}
	if p == nil || p.Planned == nil {
		return o
	}
	for i := range p.Planned.Decisions {
		d := &p.Planned.Decisions[i]
		o.States[explain.StateOf(&p.Assessment.Verdicts[i], d)]++
		if reason := explain.BlockedBy(d); reason != "" {
			o.Blocked[reason]++
		}
	}
	for i := range p.Planned.Strays {
		d := &p.Planned.Strays[i]
		o.States[explain.StateOf(nil, d)]++
		if reason := explain.BlockedBy(d); reason != "" {
			o.Blocked[reason]++
		}
	}
	gate := &p.Planned.Gate
	o.Gate = &Gate{Sick: gate.Sick, Limit: gate.Limit.Most, Storm: !p.Planned.Storm.Since.IsZero()}
	if p.Policy != nil {
		for i := range p.Policy.Steps {
			if s := StrategyOf(&p.Policy.Steps[i]); !slices.Contains(o.Strategies, s) {
				o.Strategies = append(o.Strategies, s)
			}
		}
	}
	return o
}

// clone keeps an observation apart from whoever made it.
func (o *Observation) clone() *Observation {
	kept := &Observation{
		States: maps.Clone(o.States), Blocked: maps.Clone(o.Blocked),
		Conditions: slices.Clone(o.Conditions), Strategies: slices.Clone(o.Strategies),
	}
	if o.Gate != nil {
		gate := *o.Gate
		kept.Gate = &gate
	}
	return kept
}

func states() []explain.State { return explain.States() }
