// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

const (
	// preflightTime is how long a reconcile begins preflight checks and cleans up orphaned targets. The next one does the rest. With
	// freshTime and the report, that is less than ten seconds, unless the API server is slow or remediations were ended before.
	preflightTime = 5 * time.Second
	// passTime is when the calls after the first action end, counted from the start of the reconcile. Each has at least leastTime.
	passTime = 10 * time.Second
	// progressTime is the time between two reports while a reconcile starts or ends remediations.
	progressTime = time.Second
	// recordTime is how long a reconcile writes annotations before it reports.
	recordTime = time.Second
	// callTime is how long one call of the API server may take, and listTime one of the preflight check, which may list thousands of objects.
	callTime, listTime = 10 * time.Second, 30 * time.Second
	// leastTime is how long a call can take at least, after the first action: what remains of passTime, or this.
	leastTime = 2 * time.Second
	// fewTargets are written to one after the other, with a live read of the check in between. More are written to in groups.
	fewTargets, groupSize = 5, 20
	// fruitlessTime is how long other targets are planned while none can be started, unless the reconcile is late. The rest is tried after
	// RetryTime, and not at once.
	fruitlessTime = 3 * time.Second
)

// late reports whether a preflight check is left to the next reconcile. A reconcile always runs one, however slow the API server is.
func (p *run) late() bool {
	return !p.preflightAt.IsZero() && p.clock.Now().Sub(p.now) >= preflightTime
}

// limit gives a call a timeout. The calls that lead to the first action of each phase may take long, so a slow API server allows that one.
// All others end with the reconcile.
func (p *run) limit(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if p.acted {
		most = min(most, max(leastTime, passTime-p.clock.Now().Sub(p.now)))
	}
	return context.WithTimeout(ctx, most)
}

// unwritten blocks what depends on a write that has failed.
func unwritten(err error) *remediation.PreflightCheck {
	check := &remediation.PreflightCheck{Failed: true, Unwritten: true}
	var write *WriteError
	if errors.As(err, &write) {
		check.Cause = write.Cause
	}
	return check
}

// act reports the plan, then ends remediations, and then starts others.
func (p *run) act(ctx context.Context) {
	if len(p.writing()) > 0 {
		p.announce(ctx)
	}
	obstacle := p.confirmAndWrite(ctx, p.targetsWhere((*remediation.Decision).Ends))
	p.cleanUpOrphans(ctx)
	starts := p.targetsWhere((*remediation.Decision).Starts)
	if obstacle != nil && !obstacle.Late {
		p.confirm(starts, obstacle)
		return
	}
	// A reconcile always runs one preflight check of starts, too, even if what ends takes all of its time.
	p.preflightAt, p.acted = time.Time{}, false
	p.start(ctx, starts)
}

// announce reports before anything is started or ended: health, and what waits for its preflight check.
func (p *run) announce(ctx context.Context) {
	announced := p.plan.Announced(&p.facts.Situation, &p.assessment, p.now)
	p.record(ctx, &announced)
	announced.Conclude(&p.assessment, p.now)
	p.unreported = append(p.unreported, p.c.Announce(ctx, p.evaluation(&announced)))
	p.reportedAt = p.clock.Now()
}

// progress reports what was started or ended since the last report, at most once per progressTime. It returns whether it has.
func (p *run) progress(ctx context.Context) bool {
	if !p.unseen || p.clock.Now().Sub(p.reportedAt) < progressTime {
		return false
	}
	ctx, done := p.limit(ctx, leastTime)
	defer done()
	plan := p.plan.Announced(&p.facts.Situation, &p.assessment, p.now)
	plan.Conclude(&p.assessment, p.now)
	p.unreported = append(p.unreported, p.c.Progress(ctx, p.evaluation(&plan)))
	p.reportedAt, p.unseen = p.clock.Now(), false
	return true
}

// record writes annotations of targets for which nothing is started or ended now. They need no preflight check: a write to a target that
// has changed since it was read fails.
func (p *run) record(ctx context.Context, announced *remediation.Planned) {
	var targets []int
	for i := range announced.Decisions {
		d := &announced.Decisions[i]
		if !d.Starts() && !p.plan.Decisions[i].Ends() && len(d.Writes(&p.facts.Situation.Targets[i])) > 0 {
			targets = append(targets, i)
		}
	}
	for done := 0; done < len(targets); {
		group := targets[done:]
		if done > 0 && p.clock.Now().Sub(p.now) >= recordTime {
			p.postpone(announced, group)
		} else {
			group = group[:min(len(group), p.groupSize)]
			p.writeTargets(ctx, announced, group)
		}
		done += len(group)
	}
	for _, i := range targets {
		if d := &p.plan.Decisions[i]; !d.Starts() {
			*d = announced.Decisions[i]
		}
	}
}

// start starts remediations. A target that the preflight check blocks, or whose request is rejected, leaves its place to others, each time
// after a preflight check of those. A write that has failed otherwise may have been executed, so that target keeps its place.
func (p *run) start(ctx context.Context, targets []int) {
	for began := p.clock.Now(); len(targets) > 0; {
		failed := len(p.errs)
		if p.confirmAndWrite(ctx, targets) != nil || p.limited || len(p.errs) > failed {
			return
		}
		switch {
		case slices.ContainsFunc(targets, func(i int) bool { return p.plan.Decisions[i].Starts() }):
			began = p.clock.Now()
		case p.clock.Now().Sub(began) >= fruitlessTime, p.late():
			p.fruitless = true
			return
		}
		remembered := p.plan.Replacing
		targets = remediation.PlanAgain(&p.plan, &p.facts.Situation, &p.assessment, &p.facts.Policy, p.now)
		if len(targets) == 0 || slices.Equal(remembered, p.plan.Replacing) {
			continue
		}
		if obstacle := p.obstacle(ctx); obstacle != nil {
			p.confirm(targets, obstacle)
			return
		}
		if err := p.writeCheck(ctx, remediation.WriteReplacing); p.failed(err) {
			p.confirm(targets, unwritten(err))
			return
		}
	}
}

// writeCheck does one write to the check.
func (p *run) writeCheck(ctx context.Context, write remediation.CheckWrite) error {
	ctx, done := p.limit(ctx, callTime)
	defer done()
	return p.c.WriteCheck(ctx, &p.plan, write)
}

// postpone leaves targets to the next reconcile, which follows at once.
func (p *run) postpone(plan *remediation.Planned, targets []int) {
	p.outOfTime.Store(true)
	for _, i := range targets {
		p.confirmIn(plan, i, &remediation.PreflightCheck{Late: true, Verdict: p.assessment.Verdicts[i], Target: p.facts.Situation.Targets[i]})
	}
}

// blockAll blocks all decisions for the same reason.
func (p *run) blockAll(obstacle *remediation.PreflightCheck) { p.confirm(p.writing(), obstacle) }

// writing returns the targets with writes.
func (p *run) writing() []int {
	var targets []int
	for i := range p.plan.Decisions {
		if len(p.plan.Decisions[i].Writes(&p.facts.Situation.Targets[i])) > 0 {
			targets = append(targets, i)
		}
	}
	return targets
}

// targetsWhere returns the targets whose decisions have a property: first those whose action was not blocked last time. Among those,
// members of a control plane are at the end, because these are written to one by one.
func (p *run) targetsWhere(property func(*remediation.Decision) bool) []int {
	var targets []int
	for i := range p.plan.Decisions {
		if property(&p.plan.Decisions[i]) {
			targets = append(targets, i)
		}
	}
	all := p.facts.Situation.Targets
	order := func(i int) int {
		if all[i].ControlPlane {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(targets, func(a, b int) int {
		return cmp.Or(all[a].BlockedAt.Compare(all[b].BlockedAt), order(a)-order(b))
	})
	return targets
}

func (p *run) confirm(targets []int, check *remediation.PreflightCheck) {
	if check.Late {
		p.postpone(&p.plan, targets)
		return
	}
	for _, i := range targets {
		p.confirmIn(&p.plan, i, check)
	}
}

func (p *run) confirmIn(plan *remediation.Planned, i int, check *remediation.PreflightCheck) {
	d := &plan.Decisions[i]
	*d = remediation.Confirm(plan, &p.facts.Situation.Targets[i], d, &p.assessment.Verdicts[i], check, p.now)
}

// confirmAndWrite runs preflight checks of targets and writes to those that are confirmed. It returns what blocks every other write now;
// nil if nothing does.
func (p *run) confirmAndWrite(ctx context.Context, targets []int) *remediation.PreflightCheck {
	for len(targets) > 0 {
		if p.late() {
			// A pause forbids also the report, and what the next phase starts.
			obstacle := p.obstacle(ctx)
			if obstacle == nil {
				obstacle = &remediation.PreflightCheck{Late: true}
			}
			p.confirm(targets, obstacle)
			return obstacle
		}
		checks, err := p.preflight(ctx, targets)
		if err != nil {
			// Another preflight check would fail, too.
			obstacle := &remediation.PreflightCheck{Failed: true, Cause: err.Error()}
			p.confirm(targets, obstacle)
			return obstacle
		}
		done, obstacle := p.writeConfirmed(ctx, targets, checks)
		targets = targets[done:]
		if obstacle != nil {
			p.confirm(targets, obstacle)
			return obstacle
		}
	}
	return nil
}

// writeConfirmed writes to the targets that the preflight check confirms, as long as that is valid. It returns the number of finished
// targets, and what blocks the others, or nil.
func (p *run) writeConfirmed(
	ctx context.Context,
	targets []int,
	checks []remediation.PreflightCheck,
) (done int, obstacle *remediation.PreflightCheck) {
	started, few := 0, len(targets) <= fewTargets
	for done < len(targets) {
		// The first action follows its preflight check at once, if that was quick. Before any other, the check may have been paused.
		fresh := p.fresh()
		if done > 0 && !fresh {
			return done, nil
		}
		if done > 0 || !fresh {
			if obstacle = p.obstacle(ctx); obstacle != nil {
				return done, obstacle
			}
		}
		if p.progress(ctx) {
			// The facts may be out of date now, and the check may be paused.
			continue
		}
		group := targets[done : done+1]
		if fresh && !few {
			group = p.group(targets[done:])
		}
		for n, i := range group {
			// What was started after the preflight check is in flight as well.
			checks[done+n].Others += started
			p.confirmIn(&p.plan, i, &checks[done+n])
			if d := &p.plan.Decisions[i]; d.Budgeted && d.Starts() {
				started++
			}
		}
		p.writeTargets(ctx, &p.plan, group)
		done += len(group)
		p.acted = true
		p.unseen = p.unseen || slices.ContainsFunc(group, func(i int) bool { return p.plan.Decisions[i].Action != remediation.None })
	}
	return done, nil
}

// group returns the first targets, which are written to at the same time. Members of a control plane are remediated one after the other.
func (p *run) group(targets []int) []int {
	member := slices.IndexFunc(targets, func(i int) bool { return p.facts.Situation.Targets[i].ControlPlane })
	if member < 0 {
		member = len(targets)
	}
	return targets[:max(1, min(member, p.groupSize))]
}

// obstacle is what blocks every write now; nil if nothing does.
func (p *run) obstacle(ctx context.Context) *remediation.PreflightCheck {
	ctx, done := p.limit(ctx, callTime)
	defer done()
	obstacle, err := p.c.Obstacle(ctx)
	if p.failed(err) {
		return &remediation.PreflightCheck{Failed: true}
	}
	return obstacle
}

// writeTargets writes to several targets at the same time.
func (p *run) writeTargets(ctx context.Context, plan *remediation.Planned, targets []int) {
	var all sync.WaitGroup
	for _, i := range targets[1:] {
		all.Go(func() { p.writeTarget(ctx, plan, i) })
	}
	p.writeTarget(ctx, plan, targets[0])
	all.Wait()
}

// writeTarget does the writes for one target, in order. After one has failed, the others are left to another reconcile; so is an action
// that slow writes of annotations have delayed.
func (p *run) writeTarget(ctx context.Context, plan *remediation.Planned, i int) {
	t, d := &p.facts.Situation.Targets[i], &plan.Decisions[i]
	begun, acted := p.clock.Now(), false
	for _, write := range d.Writes(t) {
		if write.Acts() && !acted && p.clock.Now().Sub(begun) >= freshTime {
			p.confirmIn(plan, i, &remediation.PreflightCheck{Late: true, Verdict: p.assessment.Verdicts[i], Target: *t})
			p.outOfTime.Store(true)
			return
		}
		err := p.writeOnce(ctx, i, d, write)
		var rejected *RejectedError
		if errors.As(err, &rejected) {
			*d = remediation.Rejected(d, t, rejected.Message)
			return
		}
		if err != nil {
			p.failed(err)
			if !acted && write <= remediation.ClearConditions {
				// Nothing was started or ended, as far as is known. The next reconcile reads whether the write has succeeded all the same.
				p.confirmIn(plan, i, unwritten(err))
			}
			return
		}
		acted = acted || write.Acts()
	}
}

func (p *run) writeOnce(ctx context.Context, i int, d *remediation.Decision, write remediation.Write) error {
	ctx, done := p.limit(ctx, callTime)
	defer done()
	return p.c.WriteTarget(ctx, i, &p.assessment.Verdicts[i], d, write)
}

// cleanUpOrphans removes what is left on targets that the check no longer selects. It starts with another one each time, so that one whose
// writes time out does not block the others.
func (p *run) cleanUpOrphans(ctx context.Context) {
	cleared := 0
	p.acted = false
	first := int(uint64(p.now.Unix()) * 0x9e3779b97f4a7c15 >> 33) //nolint:gosec // a hash: the times of reconciles can have a common divisor.
	for n := range p.plan.Orphans {
		i := (first + n) % len(p.plan.Orphans)
		orphan, d := &p.facts.Situation.Orphans[i], &p.plan.Orphans[i]
		writes := d.OrphanWrites(orphan)
		if len(writes) == 0 {
			continue
		}
		if cleared > 0 && p.clock.Now().Sub(p.now) >= preflightTime {
			p.outOfTime.Store(true)
			return
		}
		if p.obstacle(ctx) != nil {
			return
		}
		cleared++
		for _, write := range writes {
			if err := p.writeOrphan(ctx, i, d, write); err != nil {
				p.failed(err)
				break
			}
		}
		p.acted = true
	}
}

func (p *run) writeOrphan(ctx context.Context, i int, d *remediation.Decision, write remediation.Write) error {
	ctx, done := p.limit(ctx, callTime)
	defer done()
	return p.c.WriteOrphan(ctx, i, d, write)
}
