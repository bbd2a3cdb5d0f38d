// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"math"
	"slices"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// MaxTargets is how many targets status lists.
const MaxTargets = 100

// Status is what a check reports of a pass, without what only its reconciler knows: the generation, and remediations that have ended.
// Conditions have no times yet. request names the request of a target, or is nil where there is none.
func Status(p *Pass, request func(target int) *remedyv1.RequestReference) remedyv1.CheckStatus {
	counts, planned := &p.Assessment.Counts, p.Planned
	targets, total := unhealthyTargets(p, request)
	return remedyv1.CheckStatus{
		Conditions:            Conditions(p),
		Unhealthy:             Number(counts.Unhealthy),
		Suspect:               Number(counts.Suspect),
		Undetermined:          Number(counts.Undetermined),
		Remediating:           Number(planned.Counts.Remediating),
		Held:                  Number(planned.Counts.Held),
		RemediationsAllowed:   Number(planned.Gate.Limit.Left(planned.Gate.Sick)),
		Limit:                 limit(&planned.Gate.Limit),
		UnhealthyTargets:      targets,
		UnhealthyTargetsTotal: Number(total),
	}
}

// limit is the effective one. That no target may be sick, and that more must be healthy than there are, come to the same.
func limit(l *remediation.Limit) *remedyv1.EffectiveLimit {
	effective := &remedyv1.EffectiveLimit{Source: cut(source(l), 64), MaxUnhealthy: *Number(l.Most)}
	if l.Least > 0 {
		effective.MinUnhealthy = Number(l.Least)
	}
	return effective
}

func source(l *remediation.Limit) string { return l.Field + "=" + foreign(l.Value) }

// unhealthyTargets are the first by name, and how many there are altogether.
func unhealthyTargets(p *Pass, request func(target int) *remedyv1.RequestReference) ([]remedyv1.UnhealthyTarget, int) {
	var chosen []int
	for i := range p.Planned.Decisions {
		if listable(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i]) {
			chosen = append(chosen, i)
		}
	}
	total := len(chosen)
	slices.SortFunc(chosen, func(a, b int) int { return cmp.Compare(p.Snapshot.Targets[a].Name, p.Snapshot.Targets[b].Name) })
	targets := make([]remedyv1.UnhealthyTarget, 0, min(total, MaxTargets))
	for _, i := range chosen[:min(total, MaxTargets)] {
		trace := p.Trace(i)
		target := trace.UnhealthyTarget()
		if request != nil && p.Planned.Decisions[i].InFlight {
			target.Request = request(i)
		}
		targets = append(targets, target)
	}
	return targets, total
}

// listable are targets that are unhealthy or about to be, and any other that is held: one that waits for a person to confirm that it
// is healthy is to be seen somewhere.
func listable(v *health.Verdict, d *remediation.Decision) bool {
	switch v.Kind {
	case health.Unhealthy, health.Suspect:
		return true
	case health.Skipped:
		return false
	case health.Healthy, health.Undetermined:
	}
	return d.Hold.Reason != ""
}

// UnhealthyTarget is what status says of a target.
func (t *Trace) UnhealthyTarget() remedyv1.UnhealthyTarget {
	target := remedyv1.UnhealthyTarget{
		Name: t.Target, Node: t.Node, Since: t.Verdict.Since, Reason: remedyv1.TargetReason(cmp.Or(t.Verdict.Reason, t.reason())),
		Message:  sentences(cut(t.Verdict.Message, maxCauses), t.Decision.Message),
		Decision: t.Decision.Outcome, HoldReason: t.Decision.HoldReason, Until: t.Decision.Until,
	}
	if target.Until == nil {
		target.Until = t.Verdict.Until
	}
	if t.Decision.InFlight {
		target.Step = t.Decision.Step
	}
	return target
}

// Number is a count as the API has it.
func Number(n int) *int32 {
	bounded := int32(max(0, min(n, math.MaxInt32)))
	return &bounded
}
