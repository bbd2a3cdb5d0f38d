// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checkup

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

func (p *pass) fresh() bool { return p.clock.Now().Sub(p.preflightAt) < freshTime }

// passTime is how long a reconcile may look for targets that are not blocked or rejected.
const passTime = 30 * time.Second

func (p *pass) late() bool { return p.clock.Now().Sub(p.now) >= passTime }

// preflight reads live what the decisions about the first of these targets are based on, and evaluates it.
func (p *pass) preflight(ctx context.Context, targets []int) ([]remediation.PreflightCheck, error) {
	p.preflightAt = p.clock.Now()
	read, err := p.c.Preflight(ctx, targets)
	if err != nil {
		return nil, err
	}
	assessment := health.Evaluate(&read.Facts.Snapshot, &read.Facts.Health, p.now)
	others := p.othersInFlight(read.All)
	for n := range read.Checks {
		look := &read.Checks[n]
		look.Verdict, look.Target = assessment.Verdicts[n], read.Facts.Situation.Targets[n]
		look.Others = others(targets[n])
	}
	return read.Checks, nil
}

// readLease reads the Lease of the kubelet live, if Ready=Unknown is the only cause.
func (p *pass) readLease(ctx context.Context, look *remediation.PreflightCheck) {
	if look.Failed || !remediation.OnlyReadyUnknown(&look.Verdict) {
		return
	}
	renewed, err := p.c.LeaseRenewed(ctx, look.Target.Node)
	look.LeaseRenewed, look.LeaseUnread = renewed, err != nil
	if err != nil {
		look.Cause = cmp.Or(look.Cause, err.Error())
	}
}

// othersInFlight counts, for a target, how many others are in flight by live reads. Without maxInFlight, no decision depends on it.
func (p *pass) othersInFlight(all *Facts) func(target int) int {
	if all == nil {
		return func(int) int { return 0 }
	}
	assessment := health.Evaluate(&all.Snapshot, &all.Health, p.now)
	paused := all.Situation
	paused.Check = remediation.Check{Paused: true}
	plan := remediation.Plan(&paused, &assessment, &all.Policy, p.now)
	count := plan.Counts.InFlight
	for _, gone := range paused.Replacing {
		if !slices.ContainsFunc(paused.Targets, func(t remediation.Target) bool { return t.Name == gone.Target }) {
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
