// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Facts are what was read of a check and its targets, from caches, at one moment.
type Facts struct {
	// Check names it, as kind and namespace/name.
	Check string
	// Finalizer: it is on the check.
	Finalizer bool
	Snapshot  health.Snapshot
	Situation remediation.Situation
	Health    health.Policy
	Policy    remediation.Policy
	Context   explain.ConditionFacts
}

// Client reads and writes one check with its targets.
type Client interface {
	// ControlPlane reads the control plane of the workload cluster. It is called only if a decision depends on it.
	ControlPlane(ctx context.Context) remediation.ControlPlane
	// Obstacle reads live whether every write is blocked: by a pause, or because the check has changed since the plan. Nil if it is not.
	Obstacle(ctx context.Context) (*remediation.PreflightCheck, error)
	// Preflight reads live what the decisions about some targets are based on: those targets, or all of the check. An error means that nothing
	// can be read.
	Preflight(ctx context.Context, targets []int, all bool) (*Preflight, error)
	// NodeLeases reads live when the kubelets of Nodes renewed their Leases, in the order of the names.
	NodeLeases(ctx context.Context, nodes []string) []NodeLease
	// WriteCheck, WriteTarget and WriteOrphan are one write each. Their errors name the object. WriteTarget is called for several targets at
	// the same time.
	WriteCheck(ctx context.Context, plan *remediation.Planned, write remediation.CheckWrite) error
	WriteTarget(ctx context.Context, target int, v *health.Verdict, d *remediation.Decision, write remediation.Write) error
	WriteOrphan(ctx context.Context, orphan int, d *remediation.Decision, write remediation.Write) error
	// Announce reports the verdicts and the decisions before anything is started or ended, Progress meanwhile, and Report after that.
	Announce(ctx context.Context, evaluation *explain.Evaluation) error
	Progress(ctx context.Context, evaluation *explain.Evaluation) error
	Report(ctx context.Context, evaluation *explain.Evaluation) error
}

// Preflight is what was read live.
type Preflight struct {
	// Facts are those of all targets. What was not read live is as in the plan.
	Facts *Facts
	// Checks are the other results for each target that was asked for. A read error of a target fails its preflight check.
	Checks []remediation.PreflightCheck
}

// NodeLease is the Lease that the kubelet of a Node renews.
type NodeLease struct {
	// Renewed is zero without a Lease.
	Renewed time.Time
	// Err contains no address and no secret.
	Err error
}

// RejectedError means that the API server rejects a request because of its content.
type RejectedError struct {
	Message string
	Cause   error
}

func (r *RejectedError) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *RejectedError) Unwrap() error { return r.Cause }

// WriteError is a failed write. Cause names the object and the cause for the status: without addresses and secrets.
type WriteError struct {
	Cause string
	Err   error
}

func (w *WriteError) Error() string { return w.Err.Error() }

// Unwrap returns the error itself.
func (w *WriteError) Unwrap() error { return w.Err }

// Run is one reconcile. It returns when the next one is due; zero if nothing changes without a watch event. The facts were read at now; the
// clock only measures how long the reconcile takes.
//
// A failure for one target does not stop the others or the report. If a write to the check that has to come first fails, such as a
// finalizer, nothing is done.
func Run(ctx context.Context, facts *Facts, c Client, timer clock.PassiveClock, now time.Time) (time.Time, error) {
	p := &run{facts: facts, c: c, clock: timer, now: now, groupSize: groupSize}
	return p.reconcile(ctx)
}

// RunOneByOne is Run for a client that does one write at a time, such as a simulation that has to be repeatable.
func RunOneByOne(ctx context.Context, facts *Facts, c Client, timer clock.PassiveClock, now time.Time) (time.Time, error) {
	p := &run{facts: facts, c: c, clock: timer, now: now, groupSize: 1}
	return p.reconcile(ctx)
}

func (p *run) reconcile(ctx context.Context) (time.Time, error) {
	p.decide(ctx)
	switch obstacle := p.prepare(ctx); {
	case obstacle == nil:
		p.act(ctx)
	case slices.ContainsFunc(p.errs, apierrors.IsConflict):
		// The facts are out of date, and must not be reported. A watch event will follow.
		return time.Time{}, utilerrors.NewAggregate(p.errs)
	default:
		p.blockAll(obstacle)
	}
	p.plan.Conclude(&p.assessment, p.now)
	if p.fruitless {
		p.plan.WakeUp = health.Earliest(p.plan.WakeUp, p.now.Add(remediation.RetryTime))
	}
	if p.outOfTime.Load() {
		p.plan.WakeUp = p.now
	}
	p.unreported = append(p.unreported, p.c.Report(ctx, p.evaluation(&p.plan)))
	p.release(ctx)
	return p.plan.WakeUp, utilerrors.NewAggregate(append(p.errs, p.unreported...))
}

// decide evaluates the health of all targets and plans their remediation.
func (p *run) decide(ctx context.Context) {
	p.assessment = health.Evaluate(&p.facts.Snapshot, &p.facts.Health, p.now)
	if p.needsControlPlane() {
		p.facts.Situation.ControlPlane = p.c.ControlPlane(ctx)
	}
	p.plan = remediation.Plan(&p.facts.Situation, &p.assessment, &p.facts.Policy, p.now)
}

// Evaluate returns what Run would decide before its preflight checks. It writes nothing.
func Evaluate(ctx context.Context, facts *Facts, c Client, now time.Time) *explain.Evaluation {
	p := &run{facts: facts, c: c, now: now}
	p.decide(ctx)
	p.plan.Conclude(&p.assessment, now)
	return p.evaluation(&p.plan)
}

// evaluation is what is reported of a plan.
func (p *run) evaluation(plan *remediation.Planned) *explain.Evaluation {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.facts.Context
	for _, err := range p.errs {
		var write *WriteError
		if known.ForbiddenWrite == "" && errors.As(err, &write) && apierrors.IsForbidden(write.Err) {
			known.ForbiddenWrite = write.Cause
		}
	}
	return &explain.Evaluation{
		Check: p.facts.Check, Snapshot: &p.facts.Snapshot, Assessment: &p.assessment, Situation: &p.facts.Situation,
		Policy: &p.facts.Policy, Planned: plan, Health: &p.facts.Health, Context: known,
	}
}

// run is one reconcile: its facts, its plan, and what has failed.
type run struct {
	facts *Facts
	c     Client
	clock clock.PassiveClock
	now   time.Time
	// groupSize is how many targets are written to at the same time.
	groupSize int
	// preflightAt is when the last preflight check began.
	preflightAt time.Time
	assessment  health.Assessment
	plan        remediation.Planned
	// acted: the first action of this phase was tried.
	acted bool
	// reportedAt is when the last report ended. unseen: something was started or ended since.
	reportedAt time.Time
	unseen     bool
	// limited: by the last preflight check, the limit no longer allows remediation.
	limited bool
	// fruitless: other targets could be started, and are left to a retry.
	fruitless bool
	// outOfTime: something is left to the next reconcile.
	outOfTime atomic.Bool
	mu        sync.Mutex
	errs      []error
	// unreported are the errors of reports, which do not keep the finalizer on the check.
	unreported []error
}

func (p *run) failed(err error) bool {
	if err == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
	return true
}

// needsControlPlane reports whether a decision depends on the control plane: one of its Nodes may get a request; or there is, or was, such
// a request, so that the Lease of the control plane has to be released. A check that no longer selects members of the control plane lets
// the Lease expire: to release it, every check of workers would have to read it.
func (p *run) needsControlPlane() bool {
	s, asks := &p.facts.Situation, p.facts.Policy.CreatesRequests()
	if s.Check.Paused {
		return false
	}
	for i := range s.Targets {
		t, unhealthy := &s.Targets[i], p.assessment.Verdicts[i].Kind == health.Unhealthy
		if t.ControlPlane && (p.facts.Finalizer || t.Request != nil || asks && unhealthy) {
			return true
		}
	}
	for i := range s.Orphans {
		if s.Orphans[i].ControlPlane {
			return true
		}
	}
	return false
}

// prepare does the writes to the check that come before all actions. It returns what blocks these, or nil.
func (p *run) prepare(ctx context.Context) *remediation.PreflightCheck {
	writes := p.plan.CheckWrites(&p.facts.Situation, p.facts.Finalizer)
	if len(writes) == 0 && len(p.writing()) == 0 {
		return nil
	}
	if obstacle := p.obstacle(ctx); obstacle != nil {
		return obstacle
	}
	for _, write := range writes {
		if write >= remediation.ReleaseControlPlaneLease {
			continue
		}
		if err := p.writeCheck(ctx, write); p.failed(err) {
			return unwritten(err)
		}
	}
	return nil
}

// release removes from the check what it no longer needs, if every write before has succeeded. It does not wait for a report.
func (p *run) release(ctx context.Context) {
	if len(p.errs) > 0 {
		return
	}
	verified := false
	for _, write := range p.plan.CheckWrites(&p.facts.Situation, p.facts.Finalizer) {
		if write < remediation.ReleaseControlPlaneLease {
			continue
		}
		if !verified && p.obstacle(ctx) != nil {
			return
		}
		verified = true
		if p.failed(p.writeCheck(ctx, write)) {
			return
		}
	}
}
