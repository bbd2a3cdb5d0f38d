// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Observation is the result of one reconcile of a check. A missing value has no series, or is 0 if there always is a series.
type Observation struct {
	// States has the number of targets in each state.
	States map[explain.State]int
	// Blocked has the number of blocked targets for each reason.
	Blocked map[string]int
	// LimitState is nil if the targets could not be counted, for example if the Cluster does not exist.
	LimitState *LimitState
	// Conditions are those of the check.
	Conditions []metav1.Condition
	// Strategies are those of the steps of the check.
	Strategies []Strategy
}

// LimitState has the number of unhealthy targets and the limit.
type LimitState struct {
	Unhealthy, Limit int
	Storm            bool
}

// ObservationOf returns the observation of a reconcile. The conditions are those in the status. It allocates nothing for a target.
func ObservationOf(p *explain.Evaluation, conditions []metav1.Condition) Observation {
	o := Observation{States: map[explain.State]int{}, Blocked: map[string]int{}, Conditions: conditions}
	if p == nil || p.Planned == nil {
		return o
	}
	add := func(v *health.Verdict, d *remediation.Decision) {
		o.States[explain.StateOf(v, d)]++
		if d.Block.Reason != "" {
			o.Blocked[string(d.Block.Reason)]++
		}
	}
	for i := range p.Planned.Decisions {
		add(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i])
	}
	for i := range p.Planned.Orphans {
		add(nil, &p.Planned.Orphans[i])
	}
	state := &p.Planned.LimitState
	o.LimitState = &LimitState{Unhealthy: state.Unhealthy, Limit: state.Limit.Max, Storm: !p.Planned.Storm.Since.IsZero()}
	if p.Policy != nil {
		for i := range p.Policy.Steps {
			if s := StrategyOf(&p.Policy.Steps[i]); !slices.Contains(o.Strategies, s) {
				o.Strategies = append(o.Strategies, s)
			}
		}
	}
	return o
}
