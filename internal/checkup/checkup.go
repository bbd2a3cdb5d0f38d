// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package checkup

import (
	"context"
	"slices"
	"time"

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
	Around    explain.ConditionFacts
}

// Case is one check with its targets, as a controller reads it and writes to it.
type Case interface {
	// ControlPlane reads the control plane of the workload cluster. It is called only if a decision depends on it.
	ControlPlane(ctx context.Context) remediation.ControlPlane
	// Obstacle reads live whether every write is blocked: by a pause, or because the check has changed since the plan. Nil if it is not.
	Obstacle(ctx context.Context) (*remediation.PreflightCheck, error)
	// Preflight reads live what the decisions about the first of these targets are based on, in their order: of at least one, and of no more
	// than can be acted on before that is out of date. An error means that nothing can be read.
	Preflight(ctx context.Context, targets []int) (*Preflight, error)
	// LeaseRenewed reads live when the kubelet of a Node renewed its Lease; zero if there is none. Its error contains no address and no
	// secret.
	LeaseRenewed(ctx context.Context, node string) (time.Time, error)
	// WriteCheck, WriteTarget and WriteOrphan are one write each.
	WriteCheck(ctx context.Context, plan *remediation.Planned, write remediation.CheckWrite) error
	WriteTarget(ctx context.Context, target int, v *health.Verdict, d *remediation.Decision, write remediation.Write) error
	WriteOrphan(ctx context.Context, stray int, d *remediation.Decision, write remediation.Write) error
	// Report reports the verdicts and the decisions.
	Report(ctx context.Context, pass *explain.Evaluation) error
}

// Preflight is what was read live of some targets.
type Preflight struct {
	// Facts are those of these targets, in their order.
	Facts *Facts
	// Checks are the other results for each target. A read error of a target fails its preflight check.
	Checks []remediation.PreflightCheck
	// All are the facts of all targets of the check if maxInFlight is set, or else nil.
	All *Facts
}

// RejectedError means that the API server rejects a request because of its content.
type RejectedError struct {
	Message string
	Cause   error
}

func (r *RejectedError) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *RejectedError) Unwrap() error { return r.Cause }

// Run is one reconcile. It returns when the next one is due; zero if nothing changes without a watch event. The facts were read at now; the
// clock only measures how long the reconcile takes.
//
// A failure for one target does not stop the others or the report. If a write to the check that has to come first fails, such as a
// finalizer, nothing is done.
func Run(ctx context.Context, facts *Facts, c Case, timer clock.PassiveClock, now time.Time) (time.Time, error) {
	p := &pass{facts: facts, c: c, clock: timer, now: now}
	p.assessment = health.Evaluate(&facts.Snapshot, &facts.Health, now)
	if p.needsControlPlane() {
		facts.Situation.ControlPlane = c.ControlPlane(ctx)
	}
	p.plan = remediation.Plan(&facts.Situation, &p.assessment, &facts.Policy, now)
	switch obstacle := p.remember(ctx); {
	case obstacle == nil:
		p.act(ctx)
		p.clear(ctx)
	case slices.ContainsFunc(p.errs, apierrors.IsConflict):
		// The facts are out of date, and must not be reported. A watch event will follow.
		return time.Time{}, utilerrors.NewAggregate(p.errs)
	default:
		p.hold(obstacle)
	}
	p.plan.Conclude(&p.assessment, now)
	report := &explain.Evaluation{
		Check: facts.Check, Snapshot: &facts.Snapshot, Assessment: &p.assessment, Situation: &facts.Situation,
		Policy: &facts.Policy, Planned: &p.plan, Context: facts.Around,
	}
	p.failed(c.Report(ctx, report))
	p.release(ctx)
	return p.plan.WakeUp, utilerrors.NewAggregate(p.errs)
}

// pass is one run.
type pass struct {
	facts *Facts
	c     Case
	clock clock.PassiveClock
	now   time.Time
	// preflightAt is when the last preflight check began.
	preflightAt time.Time
	assessment  health.Assessment
	plan        remediation.Planned
	errs        []error
}

func (p *pass) failed(err error) bool {
	if err == nil {
		return false
	}
	p.errs = append(p.errs, err)
	return true
}

// needsControlPlane reports whether a decision depends on the control plane: one of its Nodes may get a request; or there is, or was, such
// a request, so that the Lease of the control plane has to be released.
func (p *pass) needsControlPlane() bool {
	s, asks := &p.facts.Situation, false
	for i := range p.facts.Policy.Steps {
		asks = asks || !p.facts.Policy.Steps[i].Owner
	}
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

// remember does the writes to the check that come before all actions. It returns what blocks these, or nil.
func (p *pass) remember(ctx context.Context) *remediation.PreflightCheck {
	writes := p.plan.CheckWrites(&p.facts.Situation, p.facts.Finalizer)
	if len(writes) == 0 {
		return nil
	}
	if obstacle := p.obstacle(ctx); obstacle != nil {
		return obstacle
	}
	for _, write := range writes {
		if write < remediation.ReleaseControlPlaneLease && p.failed(p.c.WriteCheck(ctx, &p.plan, write)) {
			return &unwritten
		}
	}
	return nil
}

// release removes from the check what it no longer needs, if everything before has succeeded.
func (p *pass) release(ctx context.Context) {
	if len(p.errs) > 0 {
		return
	}
	looked := false
	for _, write := range p.plan.CheckWrites(&p.facts.Situation, p.facts.Finalizer) {
		if write < remediation.ReleaseControlPlaneLease {
			continue
		}
		if !looked && p.obstacle(ctx) != nil {
			return
		}
		looked = true
		if p.failed(p.c.WriteCheck(ctx, &p.plan, write)) {
			return
		}
	}
}
