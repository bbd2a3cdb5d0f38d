// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checkup

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// unwritten blocks all actions: something could not be written that has to be written first.
var unwritten = remediation.PreflightCheck{Failed: true, Unwritten: true}

// act does what was planned for the targets. A target that the preflight check blocks, or whose request is rejected, leaves its place to
// others, each time after a preflight check of those, until the reconcile has run out of time.
func (p *pass) act(ctx context.Context) {
	targets := make([]int, 0, len(p.plan.Decisions))
	for i := range p.plan.Decisions {
		targets = append(targets, i)
	}
	for round := 0; len(targets) > 0; round++ {
		if round > 0 && p.late() {
			p.postpone(targets)
			return
		}
		if !p.confirmAndWrite(ctx, targets) {
			return
		}
		remembered := p.plan.Replacing
		targets = remediation.PlanAgain(&p.plan, &p.facts.Situation, &p.assessment, &p.facts.Policy, p.now)
		if len(targets) == 0 || slices.Equal(remembered, p.plan.Replacing) {
			continue
		}
		if p.failed(p.c.WriteCheck(ctx, &p.plan, remediation.WriteReplacing)) {
			p.confirm(targets, &unwritten)
			return
		}
	}
}

// postpone leaves targets to another reconcile.
func (p *pass) postpone(targets []int) {
	for _, i := range targets {
		p.confirm([]int{i}, &remediation.PreflightCheck{Late: true, Verdict: p.assessment.Verdicts[i], Target: p.facts.Situation.Targets[i]})
	}
}

// hold blocks all decisions for the same reason.
func (p *pass) hold(obstacle *remediation.PreflightCheck) {
	for i := range p.plan.Decisions {
		if len(p.plan.Decisions[i].Writes(&p.facts.Situation.Targets[i])) > 0 {
			p.confirm([]int{i}, obstacle)
		}
	}
}

func (p *pass) confirm(targets []int, look *remediation.PreflightCheck) {
	for _, i := range targets {
		t, d := &p.facts.Situation.Targets[i], &p.plan.Decisions[i]
		*d = remediation.Confirm(&p.plan, t, d, &p.assessment.Verdicts[i], look, p.now)
	}
}

// confirmAndWrite runs preflight checks of the targets for which something is to be written, of some at a time, and writes for one after
// the other. It reports whether anything can be read.
func (p *pass) confirmAndWrite(ctx context.Context, targets []int) bool {
	var writing []int
	for _, i := range targets {
		if len(p.plan.Decisions[i].Writes(&p.facts.Situation.Targets[i])) > 0 {
			writing = append(writing, i)
		}
	}
	for len(writing) > 0 {
		looks, err := p.preflight(ctx, writing)
		if err != nil {
			// Another preflight check would fail, too.
			p.confirm(writing, &remediation.PreflightCheck{Failed: true, Cause: err.Error()})
			return false
		}
		done, obstacle := p.writeLooked(ctx, writing, looks)
		writing = writing[done:]
		if obstacle != nil {
			p.confirm(writing, obstacle)
			return !obstacle.Failed
		}
	}
	return true
}

// writeLooked does the writes for the targets that the preflight check confirms. It returns the number of finished targets, and what blocks
// the others, or nil.
func (p *pass) writeLooked(
	ctx context.Context,
	writing []int,
	looks []remediation.PreflightCheck,
) (done int, obstacle *remediation.PreflightCheck) {
	started := 0
	for n := range looks {
		look, i := &looks[n], writing[n]
		p.readLease(ctx, look)
		// The first action follows its preflight check at once, if that was quick. Before any other, the check may have been paused.
		fresh := p.fresh()
		if n > 0 && !fresh {
			return n, nil
		}
		if n > 0 || !fresh {
			if obstacle = p.obstacle(ctx); obstacle != nil {
				return n, obstacle
			}
		}
		// What was started after the preflight check is in flight as well.
		look.Others += started
		p.confirm([]int{i}, look)
		d := &p.plan.Decisions[i]
		if d.Budgeted && (d.Action == remediation.StartRequest || d.Action == remediation.RequestOwnerRemediation) {
			started++
		}
		p.writeTarget(ctx, i)
	}
	return len(looks), nil
}

// obstacle is what blocks every write now; nil if nothing does.
func (p *pass) obstacle(ctx context.Context) *remediation.PreflightCheck {
	obstacle, err := p.c.Obstacle(ctx)
	if p.failed(err) {
		return &remediation.PreflightCheck{Failed: true}
	}
	return obstacle
}

// writeTarget does the writes for one target, in order. After one has failed, the others are left to another reconcile.
func (p *pass) writeTarget(ctx context.Context, i int) {
	t, d := &p.facts.Situation.Targets[i], &p.plan.Decisions[i]
	for _, write := range d.Writes(t) {
		err := p.c.WriteTarget(ctx, i, &p.assessment.Verdicts[i], d, write)
		var rejected *RejectedError
		if errors.As(err, &rejected) {
			*d = remediation.Rejected(d, t, rejected.Message)
			return
		}
		if err != nil {
			p.failed(errors.Wrap(err, t.Name))
			if write <= remediation.CreateRequest || write == remediation.SetOwnerRemediated {
				// Nothing was started, as far as is known. The next reconcile reads whether the write has succeeded all the same.
				p.confirm([]int{i}, &unwritten)
			}
			return
		}
	}
}

// clear removes what is left on targets that the check no longer selects.
func (p *pass) clear(ctx context.Context) {
	for i := range p.plan.Orphans {
		stray, d := &p.facts.Situation.Orphans[i], &p.plan.Orphans[i]
		writes := d.OrphanWrites(stray)
		if len(writes) == 0 {
			continue
		}
		if p.obstacle(ctx) != nil {
			return
		}
		for _, write := range writes {
			if err := p.c.WriteOrphan(ctx, i, d, write); err != nil {
				p.failed(errors.Wrap(err, stray.Name))
				break
			}
		}
	}
}
