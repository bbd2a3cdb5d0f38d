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

// MaxTargets is the maximum number of targets in the status.
const MaxTargets = 100

// State is a label of metrics. Every target is in exactly one.
type State string

// The states.
const (
	Healthy      State = "healthy"
	Suspect      State = "suspect"      // It becomes unhealthy at a deadline.
	Unhealthy    State = "unhealthy"    // It is not being remediated.
	Undetermined State = "undetermined" // Its health is not known.
	Skipped      State = "skipped"      // An annotation excludes it, or the check no longer selects it.
	Remediating  State = "remediating"  // It is being remediated, whatever its health.
)

// States returns all states.
func States() []State {
	return []State{Healthy, Suspect, Unhealthy, Undetermined, Skipped, Remediating}
}

var states = map[health.Kind]State{
	health.Undetermined: Undetermined, health.Skipped: Skipped, health.Healthy: Healthy, health.Suspect: Suspect,
	health.Unhealthy: Unhealthy,
}

// StateOf returns the state of a target; without a verdict it is an orphaned target. It is called for every target in every reconcile, so
// it does not allocate.
func StateOf(v *health.Verdict, d *remediation.Decision) State {
	switch {
	case d.InFlight:
		return Remediating
	case v == nil:
		return Skipped
	}
	return states[v.Kind]
}

// Status returns the status of a check, except for the generation, the times of conditions, and remediations that have ended. before are
// the unhealthy targets of the last status, and request returns the request of a target, or nil if there is none.
func Status(p *Evaluation, before []remedyv1.UnhealthyTarget, request func(target int) *remedyv1.RequestReference) remedyv1.CheckStatus {
	counts, planned := &p.Assessment.Counts, p.Planned
	known := unhealthyBefore(p, before)
	targets, total := unhealthyTargets(p, known, request)
	return remedyv1.CheckStatus{
		Conditions:            Conditions(p),
		Unhealthy:             Number(counts.Unhealthy),
		Suspect:               Number(counts.Suspect),
		Undetermined:          Number(counts.Undetermined),
		Remediating:           Number(planned.Counts.Remediating),
		Blocked:               Number(planned.Counts.Blocked + keptBlocked(p, known)),
		RemediationsAllowed:   Number(planned.LimitState.Limit.Left(planned.LimitState.Unhealthy)),
		Limit:                 limit(&planned.LimitState.Limit),
		UnhealthyTargets:      targets,
		UnhealthyTargetsTotal: Number(total),
	}
}

// limit is the effective limit. It is 0 also if more healthy targets are required than exist.
func limit(l *remediation.Limit) *remedyv1.EffectiveLimit {
	effective := &remedyv1.EffectiveLimit{Source: cut(source(l), 64), MaxUnhealthy: *Number(l.Max)}
	if l.Min > 0 {
		effective.MinUnhealthy = Number(l.Min)
	}
	return effective
}

func source(l *remediation.Limit) string { return l.Field + "=" + sanitized(l.Value) }

// unhealthyTargets are the first ones by name, and their total number.
func unhealthyTargets(
	p *Evaluation, known map[string]*remedyv1.UnhealthyTarget, request func(target int) *remedyv1.RequestReference,
) ([]remedyv1.UnhealthyTarget, int) {
	var chosen []int
	for i := range p.Planned.Decisions {
		if listable(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i]) || known[p.Snapshot.Targets[i].Name] != nil {
			chosen = append(chosen, i)
		}
	}
	total := len(chosen)
	slices.SortFunc(chosen, func(a, b int) int { return cmp.Compare(p.Snapshot.Targets[a].Name, p.Snapshot.Targets[b].Name) })
	targets := make([]remedyv1.UnhealthyTarget, 0, min(total, MaxTargets))
	for _, i := range chosen[:min(total, MaxTargets)] {
		trace := p.Trace(i)
		target := trace.UnhealthyTarget()
		if earlier := known[target.Name]; earlier != nil {
			keep(p, &trace, &target, earlier)
		}
		if request != nil && p.Planned.Decisions[i].InFlight {
			target.Request = request(i)
		}
		targets = append(targets, target)
	}
	return targets, total
}

// unhealthyBefore are the targets of the last status that were unhealthy, and that cannot be evaluated because the connection to the
// cluster failed, or was just restored.
func unhealthyBefore(p *Evaluation, before []remedyv1.UnhealthyTarget) map[string]*remedyv1.UnhealthyTarget {
	if check := &p.Situation.Check; !check.Unreachable && !check.Reconnecting {
		return nil
	}
	earlier := map[string]*remedyv1.UnhealthyTarget{}
	for i := range before {
		if before[i].Health != remedyv1.SuspectTargetHealth && slices.Contains(health.Rules(), health.Reason(before[i].Reason)) {
			earlier[before[i].Name] = &before[i]
		}
	}
	for i := range p.Assessment.Verdicts {
		v, name := &p.Assessment.Verdicts[i], p.Snapshot.Targets[i].Name
		unknown := v.Kind == health.Undetermined && (v.Reason == health.NodeUnreadable || v.Reason == health.ReconnectGracePeriod)
		// The remediation of a target began after a preflight check, so the target was unhealthy.
		if !unknown || p.Context.Unseen[name] && !p.Planned.Decisions[i].InFlight {
			delete(earlier, name)
		}
	}
	return earlier
}

// keptBlocked counts the targets that were unhealthy before, and that nothing but the connection blocks.
func keptBlocked(p *Evaluation, known map[string]*remedyv1.UnhealthyTarget) int {
	n := 0
	for i := range p.Planned.Decisions {
		if d := &p.Planned.Decisions[i]; known[p.Snapshot.Targets[i].Name] != nil && d.Block.Reason == "" && !d.InFlight {
			n++
		}
	}
	return n
}

// keep completes a target that was unhealthy before, and cannot be evaluated.
func keep(p *Evaluation, trace *Trace, target, before *remedyv1.UnhealthyTarget) {
	target.Health, target.SinceTime, target.Reason = before.Health, before.SinceTime, before.Reason
	target.Message = sentences("Not evaluated: "+trace.Verdict.Message, "The target was unhealthy before", trace.Decision.Message)
	if target.Decision == "" {
		target.Decision, target.BlockedReason = remedyv1.Blocked, KeptReason(p)
		if p.Policy.Observe {
			target.Decision = remedyv1.Observed
		}
	}
}

// KeptReason is what blocks the targets that were unhealthy before, and that cannot be evaluated.
func KeptReason(p *Evaluation) remedyv1.BlockedReason {
	switch {
	case p.Policy.Observe:
		return remedyv1.BlockedObserveMode
	case cutOff(p):
		return remedyv1.BlockedClusterUnreachable
	}
	return remedyv1.BlockedReconnectGracePeriod
}

// listable reports whether the status lists a target: an unhealthy or suspect one, or another one that is blocked, such as one whose
// recovery has to be confirmed.
func listable(v *health.Verdict, d *remediation.Decision) bool {
	return v.Kind == health.Unhealthy || v.Kind == health.Suspect || v.Kind != health.Skipped && d.Block.Reason != ""
}

var listedHealth = map[string]remedyv1.TargetHealth{
	KindUnhealthy: remedyv1.UnhealthyTargetHealth, kinds[health.Suspect]: remedyv1.SuspectTargetHealth,
	KindHealthy: remedyv1.RecoveringTargetHealth,
}

// UnhealthyTarget returns the target as the status lists it.
func (t *Trace) UnhealthyTarget() remedyv1.UnhealthyTarget {
	target := remedyv1.UnhealthyTarget{
		Name: t.Target, Node: t.Node, Health: listedHealth[t.Verdict.Kind], SinceTime: t.Verdict.Since,
		Reason:   remedyv1.TargetReason(cmp.Or(t.Verdict.Reason, t.Decision.reason())),
		Message:  sentences(cut(t.Verdict.Message, maxCauses), t.Decision.Message),
		Decision: t.Decision.Outcome, BlockedReason: t.Decision.BlockedReason, NextCheckTime: cmp.Or(t.Decision.Until, t.Verdict.Until),
	}
	if t.Decision.InFlight {
		target.Step = t.Decision.Step
	}
	return target
}

// Number returns a count in the type of the API.
func Number(n int) *int32 {
	bounded := int32(max(0, min(n, math.MaxInt32)))
	return &bounded
}
