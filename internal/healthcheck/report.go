// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
)

// Announce reports the results on the check, and then health on targets, if the health of a target is new: a retry changes only the
// decisions, which Report reports. It does not report news, which depend on what follows.
func (p *scope) Announce(ctx context.Context, evaluation *explain.Evaluation) error {
	if p.silent = p.silent || !p.ownsStatus(); p.silent {
		return nil
	}
	counted := p.soFar(evaluation)
	if report.SameHealth(&p.check.Status, counted) {
		return nil
	}
	err := p.writeStatus(ctx, p.merged(counted), evaluation)
	return utilerrors.NewAggregate(append(p.reportTargets(ctx, evaluation), err))
}

// Progress reports on the check what was started or ended until now.
func (p *scope) Progress(ctx context.Context, evaluation *explain.Evaluation) error {
	if p.silent {
		return nil
	}
	return p.writeStatus(ctx, p.merged(p.soFar(evaluation)), evaluation)
}

// soFar is the status before everything was done. What the API server has rejected before is tried again, and only Report has the result.
func (p *scope) soFar(evaluation *explain.Evaluation) *remedyv1.CheckStatus {
	counted := explain.Status(evaluation, p.check.Status.UnhealthyTargets, p.request)
	before := meta.FindStatusCondition(p.check.Status.Conditions, remedyv1.ReadyCondition)
	now := meta.FindStatusCondition(counted.Conditions, remedyv1.ReadyCondition)
	rejected := []string{remedyv1.RequestFailedReason, remedyv1.ForbiddenReason}
	if before != nil && slices.Contains(rejected, before.Reason) && now.Status == metav1.ConditionTrue {
		*now = *before
	}
	return &counted
}

// Report reports health on every target, the results on the check, and news in events, log and metrics: in that order. A silent scope
// reports only news, and another reconcile follows: the caches do not have yet the reason, for instance a pause.
func (p *scope) Report(ctx context.Context, evaluation *explain.Evaluation) error {
	if evaluation.Situation.Check.Paused {
		return p.reportPaused(ctx, evaluation)
	}
	var failed []error
	if p.silent = p.silent || !p.ownsStatus(); !p.silent {
		p.record.observeNodes(p.snapshot.targets, evaluation.Assessment.Verdicts)
		failed = p.reportTargets(ctx, evaluation)
	}
	p.record.observeBlocked(evaluation, p.snapshot.targets, p.now)
	p.record.observeRecovered(p.snapshot.targets, evaluation.Assessment.Verdicts)
	p.record.observeUnhealthy(p.snapshot.targets, evaluation.Assessment.Verdicts, p.now)
	news, started, ended := p.record.reported.Compare(evaluation, p.now)
	if p.silent {
		p.snapshot.requeueAt(p.clock().Add(conflictTime))
	} else if err := p.reportStatus(ctx, evaluation); err != nil {
		failed = append(failed, err)
	}
	for i := range ended {
		p.recordEvent(p.targetNamed(ended[i].Target), &ended[i].Event, true)
	}
	p.reportNews(ctx, news)
	for i := range started {
		p.recordEvent(p.targetNamed(started[i].Target), &started[i].Event, true)
	}
	p.count(evaluation, started, ended)
	return utilerrors.NewAggregate(failed)
}

// reportStatus writes the results to the status of the check.
func (p *scope) reportStatus(ctx context.Context, evaluation *explain.Evaluation) error {
	counted := explain.Status(evaluation, p.check.Status.UnhealthyTargets, p.request)
	if err := p.writeStatus(ctx, p.merged(&counted), evaluation); err != nil {
		return err
	}
	p.record.reported.Written()
	return nil
}

// merged is the status of the check with new results.
func (p *scope) merged(counted *remedyv1.CheckStatus) *remedyv1.CheckStatus {
	status := report.Status(&p.check.Status, counted, p.record.reported.Unwritten(), p.check.Object.GetGeneration(), p.now)
	return &status
}

// reportPaused writes only conditions: that the check is paused, and what follows from it. Another controller that owns the status does it
// itself.
func (p *scope) reportPaused(ctx context.Context, evaluation *explain.Evaluation) error {
	if !p.ownsStatus() {
		p.count(evaluation, nil, nil)
		return nil
	}
	status := p.check.Status.DeepCopy()
	for _, c := range report.Conditions(status.Conditions, explain.WhilePaused(evaluation), p.check.Object.GetGeneration(), p.now) {
		meta.SetStatusCondition(&status.Conditions, c)
	}
	err := p.writeStatus(ctx, status, evaluation)
	p.count(evaluation, nil, nil)
	return err
}

// reportTargets reports health on targets for at most healthTime: on some at the same time, because after an outage there are many.
func (p *scope) reportTargets(ctx context.Context, evaluation *explain.Evaluation) (failed []error) {
	end := p.r.Clock.Now().Add(healthTime)
	var todo []int
	for _, i := range p.record.healthOrder(evaluation, p.snapshot.targets) {
		facts, t := evaluation.Facts(i), p.snapshot.targets[i]
		latest := p.latest(t)
		// Without the annotation, which the next reconcile sets, a check that is deleted would leave the conditions.
		unsigned := facts.Decision.MarkedBy && !p.check.Signed(latest)
		if !unsigned && !p.pausedNow[t.name()] && !p.r.Actor.Reported(latest, &facts, &evaluation.Situation.Check) {
			todo = append(todo, i)
		}
	}
	p.record.healthAfter = ""
	for group := range slices.Chunk(todo, healthGroup) {
		if owns, err := p.stillOwnsStatus(ctx); err != nil || !owns {
			return append(failed, err)
		}
		errs := make([]error, len(group))
		var all sync.WaitGroup
		for n, i := range group {
			all.Go(func() { errs[n] = p.reportTarget(ctx, evaluation, i) })
		}
		all.Wait()
		failed = append(failed, errs...)
		last := group[len(group)-1]
		if p.r.Clock.Now().Before(end) || last == todo[len(todo)-1] {
			continue
		}
		if utilerrors.NewAggregate(failed) == nil {
			p.snapshot.requeueAt(p.clock())
		} else {
			p.record.healthAfter = p.snapshot.targets[last].uid()
		}
		break
	}
	return failed
}

// reportTarget sets conditions on a target.
func (p *scope) reportTarget(ctx context.Context, evaluation *explain.Evaluation, i int) error {
	facts := evaluation.Facts(i)
	err := p.change(ctx, p.snapshot.targets[i], func(ctx context.Context, object client.Object) (client.Object, error) {
		return p.r.Actor.Report(ctx, object, &facts, &evaluation.Situation.Check, p.now)
	})
	if errors.Is(err, errTargetGone) {
		return nil
	}
	return errors.Wrap(err, p.snapshot.targets[i].title())
}

// ownsStatus reports whether the manager writes the status of the check and the conditions of its targets.
func (p *scope) ownsStatus() bool { return p.r.Adoption == nil || p.r.Adoption.OwnsStatus(p.check) }

// ownTime is for how long a live read of the responsibility for a check is used.
const ownTime = 3 * time.Second

// stillOwnsStatus reads live whether the manager still owns the status of the check, at most once per ownTime: another controller may be
// responsible for the targets now, and report on them.
func (p *scope) stillOwnsStatus(ctx context.Context) (bool, error) {
	if p.r.Adoption == nil || p.silent || p.r.Clock.Now().Sub(p.livePreflight) < ownTime {
		return !p.silent, nil
	}
	read := p.r.Clock.Now()
	obstacle, err := p.Obstacle(ctx)
	if err != nil || obstacle != nil {
		p.silent = p.silent || err == nil
		return false, err
	}
	p.livePreflight = read
	return true, nil
}

// writeStatus writes the status of the check, if anything in it has changed.
func (p *scope) writeStatus(ctx context.Context, status *remedyv1.CheckStatus, evaluation *explain.Evaluation) error {
	after, err := p.r.Store.WriteStatus(ctx, p.check, status, evaluation)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		// The API server may have executed the write.
		p.record.version = ""
		return err
	case after == p.check:
		return nil
	}
	p.record.wrote(after.Object)
	p.reportConditions(ctx, p.check.Status.Conditions, after.Status.Conditions)
	p.check = after
	return nil
}

// request returns the reference to the request of a target; nil without a request.
func (p *scope) request(target int) *remedyv1.RequestReference {
	t := p.snapshot.targets[target]
	if found := p.snapshot.requestFor(t); found != nil {
		return found.Ref()
	}
	return p.created[t.name()]
}

// reportNews logs each changed decision, and records its events on the check and on the target. The log and the status cover also those
// that are omitted. With -v=4, the log line has the whole trace.
func (p *scope) reportNews(ctx context.Context, news []report.Change) {
	log := ctrl.LoggerFrom(ctx)
	for i := range news {
		n := &news[i]
		fields := n.Trace.Fields()
		if log.V(4).Enabled() {
			fields = append(fields, "trace", n.Trace)
		}
		log.Info("Decided", fields...)
		if n.Recovered {
			p.r.Metrics.HealthyAgain(metrics.Kind(p.check.ID.Kind), p.now.Sub(n.UnhealthySince))
		}
		for j := range n.Events {
			p.recordEvent(p.snapshot.targets[n.Target].Object, &n.Events[j], false)
		}
	}
	if omitted := p.record.events.Omitted(p.now); omitted > 0 {
		p.r.Events.Eventf(p.check.Object, nil, corev1.EventTypeNormal, explain.EventsOmitted, explain.OmitEvents,
			"%d more events were not recorded because the targets change too often: see status.unhealthyTargets", omitted)
	}
}

// recordEvent records an event on the check, and on its target if that exists.
func (p *scope) recordEvent(target client.Object, e *explain.Event, important bool) {
	if !p.record.events.Take(important, p.now) {
		return
	}
	if target == nil {
		p.r.Events.Eventf(p.check.Object, nil, e.Type, e.Reason, e.Action, "%s", e.Message)
		return
	}
	p.r.Events.Eventf(p.check.Object, target, e.Type, e.Reason, e.Action, "%s", e.Message)
	p.r.Events.Eventf(target, p.check.Object, e.Type, e.Reason, e.Action, "%s", e.Message)
}

// targetNamed returns the object of a target; nil if the check does not select it.
func (p *scope) targetNamed(name string) client.Object {
	i, found := slices.BinarySearchFunc(p.snapshot.targets, name, func(t *Target, name string) int { return strings.Compare(t.name(), name) })
	if !found {
		return nil
	}
	return p.snapshot.targets[i].Object
}

// reportConditions logs changed conditions of the check and records events about them.
func (p *scope) reportConditions(ctx context.Context, before, after []metav1.Condition) {
	for _, e := range explain.ConditionEvents(before, after) {
		ctrl.LoggerFrom(ctx).Info("A condition has changed", "type", e.Type, "reason", e.Reason, "message", e.Message)
		p.recordEvent(nil, &e, true)
	}
}

// count updates the metrics of the check.
func (p *scope) count(evaluation *explain.Evaluation, started []report.StartedRemediation, ended []report.EndedRemediation) {
	check := metrics.Check{Kind: metrics.Kind(p.check.ID.Kind), Namespace: p.check.ID.Namespace, Name: p.check.ID.Name}
	observed := metrics.ObservationOf(evaluation, &p.check.Status)
	p.r.Metrics.Observe(check, &observed)
	strategy := map[bool]metrics.Strategy{false: metrics.Template, true: metrics.Owner}
	for i := range started {
		p.r.Metrics.Started(check, strategy[started[i].ByOwner])
	}
	for i := range evaluation.Planned.Decisions {
		for _, a := range evaluation.Planned.Decisions[i].Answers {
			if a.Preflight && a.Blocks && a.Guard != remediation.PreflightPending {
				p.r.Metrics.PreflightFailed(a.Guard)
			}
		}
	}
	for i := range ended {
		p.r.Metrics.Ended(check, strategy[ended[i].ByOwner], metrics.OutcomeOf(ended[i].Outcome))
	}
}
