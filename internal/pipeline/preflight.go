// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// freshTime is how long a preflight check is valid. The API server, or an admission webhook, may be slow.
const freshTime = 3 * time.Second

func (p *run) fresh() bool { return p.clock.Now().Sub(p.preflightAt) < freshTime }

// preflight reads live what the decisions about these targets are based on, and evaluates it. Targets are read one by one if they are few,
// and all are listed if they are many, or if the facts of the others are out of date: the limit depends on them.
func (p *run) preflight(ctx context.Context, targets []int) ([]remediation.PreflightCheck, error) {
	p.preflightAt = p.clock.Now()
	all := len(targets) > fewTargets || p.preflightAt.Sub(p.now) >= freshTime
	ctx, done := p.limit(ctx, listTime)
	defer done()
	read, err := p.c.Preflight(ctx, targets, all)
	if err != nil {
		return nil, err
	}
	assessment := health.Evaluate(&read.Facts.Snapshot, &read.Facts.Health, p.now)
	paused, observed := read.Facts.Situation, read.Facts.Situation.Check.Observation
	paused.Check = remediation.Check{Paused: true}
	now := remediation.Plan(&paused, &assessment, &read.Facts.Policy, p.now)
	p.limited = !now.LimitState.Allowed
	others := othersInFlight(&now, &paused)
	for n, i := range targets {
		check := &read.Checks[n]
		check.Verdict, check.Target = assessment.Verdicts[i], paused.Targets[i]
		check.Others, check.LimitState, check.Observation = others(i), now.LimitState, observed
	}
	p.readLeases(ctx, targets, read.Checks)
	return read.Checks, nil
}

// readLeases reads the Leases of kubelets live where Ready=Unknown is the only cause.
func (p *run) readLeases(ctx context.Context, targets []int, checks []remediation.PreflightCheck) {
	var silent []*remediation.PreflightCheck
	var nodes []string
	for n, i := range targets {
		check := &checks[n]
		if !check.Failed && p.plan.Decisions[i].Starts() && remediation.NotByKubelet(&check.Verdict) {
			silent, nodes = append(silent, check), append(nodes, check.Target.Node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	for n, lease := range p.c.NodeLeases(ctx, nodes) {
		silent[n].LeaseRenewed, silent[n].LeaseUnread = lease.Renewed, lease.Err != nil
		if lease.Err != nil {
			silent[n].Cause = cmp.Or(silent[n].Cause, lease.Err.Error())
		}
	}
}

// othersInFlight counts, for a target, how many others are in flight.
func othersInFlight(plan *remediation.Planned, s *remediation.Situation) func(target int) int {
	count := plan.Counts.InFlight
	for _, gone := range s.Replacing {
		if !slices.ContainsFunc(s.Targets, func(t remediation.Target) bool { return t.Name == gone.Target }) {
			count++
		}
	}
	return func(target int) int {
		if plan.Decisions[target].Budgeted {
			return count - 1
		}
		return count
	}
}
