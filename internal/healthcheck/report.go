// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
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

// Report reports health on every target, on the check what was found, and in events, log and metrics what is new: in that order.
func (p *pass) Report(ctx context.Context, pass *explain.Pass) error {
	if pass.Situation.Check.Frozen {
		return p.reportPaused(ctx, pass)
	}
	if p.silent = p.silent || !p.ownsStatus(); p.silent {
		return p.reportNews(ctx, pass)
	}
	p.record.observeNodes(p.snapshot.targets, pass.Assessment.Verdicts)
	failed := p.reportTargets(ctx, pass)
	if p.silent {
		return utilerrors.NewAggregate(append(failed, p.reportNews(ctx, pass)))
	}
	news, ended := p.record.reported.Learn(pass, p.now)
	counted := explain.Status(pass, p.request)
	status := report.Status(&p.check.Status, &counted, p.record.reported.Unwritten(), p.check.Object.GetGeneration(), p.now)
	if err := p.writeStatus(ctx, &status, pass); err != nil {
		failed = append(failed, err)
	} else {
		p.record.reported.Written()
	}
	p.tell(ctx, news)
	p.count(pass, ended)
	return utilerrors.NewAggregate(failed)
}

// reportNews reports what was done before the check was paused, and writes to no object: the pause stands on the check when the caches have
// it.
func (p *pass) reportNews(ctx context.Context, pass *explain.Pass) error {
	p.snapshot.askAgain(p.clock().Add(conflictTime))
	news, ended := p.record.reported.Learn(pass, p.now)
	p.tell(ctx, news)
	p.count(pass, ended)
	return nil
}

// reportPaused writes nothing but that the check is paused, and what follows for its conditions. All numbers stay as they were. Where
// another controller owns the status, that one does it.
func (p *pass) reportPaused(ctx context.Context, pass *explain.Pass) error {
	if !p.ownsStatus() {
		p.count(pass, nil)
		return nil
	}
	status := p.check.Status.DeepCopy()
	for _, c := range report.Conditions(status.Conditions, explain.WhilePaused(pass), p.check.Object.GetGeneration(), p.now) {
		meta.SetStatusCondition(&status.Conditions, c)
	}
	err := p.writeStatus(ctx, status, nil)
	p.count(pass, nil)
	return err
}

// reportTargets reports health on targets, until the time is over.
func (p *pass) reportTargets(ctx context.Context, pass *explain.Pass) (failed []error) {
	end := p.r.Clock.Now().Add(healthTime)
	order := p.record.healthOrder(pass, p.snapshot.targets)
	p.record.healthAfter = ""
	for _, i := range order {
		facts := pass.Facts(i)
		tried, err := p.reportTarget(ctx, p.snapshot.targets[i], &facts, &pass.Situation.Check)
		if err != nil {
			failed = append(failed, errors.Wrap(err, facts.Name))
		}
		if !tried || p.r.Clock.Now().Before(end) {
			continue
		}
		if len(failed) == 0 {
			p.snapshot.askAgain(p.clock())
		} else {
			p.record.healthAfter = p.snapshot.targets[i].uid()
		}
		return failed
	}
	return failed
}

// reportTarget sets conditions on a target, and reports whether it had to try that: it may have them already.
func (p *pass) reportTarget(ctx context.Context, t *Target, facts *explain.Facts, check *remediation.Check) (tried bool, err error) {
	if p.pausedNow[t.name()] || p.r.Actor.Reported(p.latest(t), facts, check) {
		return false, nil
	}
	if owns, err := p.stillOwnsStatus(ctx); err != nil || !owns {
		return true, err
	}
	err = p.change(ctx, t, func(ctx context.Context, object client.Object) (client.Object, error) {
		return p.r.Actor.Report(ctx, object, facts, check, p.now)
	})
	if errors.Is(err, errTargetGone) {
		return true, nil
	}
	return true, err
}

// ownsStatus reports whether the manager writes the status of the check and the conditions of its targets.
func (p *pass) ownsStatus() bool { return p.r.Gate == nil || p.r.Gate.OwnsStatus(p.check) }

// ownTime is how long a live read counts that the check was still the manager's.
const ownTime = 3 * time.Second

// stillOwnsStatus reads live whether a check is still the manager's, if that was not done a moment ago: another controller may be
// responsible for the targets by now, and report on them.
func (p *pass) stillOwnsStatus(ctx context.Context) (bool, error) {
	if p.r.Gate == nil || p.silent || p.r.Clock.Now().Sub(p.livePreflight) < ownTime {
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
func (p *pass) writeStatus(ctx context.Context, status *remedyv1.CheckStatus, pass *explain.Pass) error {
	after, err := p.r.Store.WriteStatus(ctx, p.check, status, pass)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		// It may have happened all the same.
		p.record.version = ""
		return err
	case after == p.check:
		return nil
	}
	p.record.version = after.Object.GetResourceVersion()
	p.tellConditions(ctx, p.check.Status.Conditions, after.Status.Conditions)
	p.check = after
	return nil
}

// request names the request of a target; nil if there is none.
func (p *pass) request(target int) *remedyv1.RequestReference {
	t := p.snapshot.targets[target]
	if found := p.snapshot.requestFor(t); found != nil {
		return found.Ref()
	}
	return p.created[t.name()]
}

// maxEvents is how many targets events are about in one reconcile. The log and the status are about all.
const maxEvents = 50

// action is what all events are about.
const action = "Remediate"

// tell logs a line for each decision that has changed, and records events: on the check, and on the target that they are about.
func (p *pass) tell(ctx context.Context, news []report.News) {
	log := ctrl.LoggerFrom(ctx)
	for i := range news {
		n := &news[i]
		log.Info("Decided", n.Trace.Fields()...)
		if n.Recovered {
			p.r.Metrics.HealthyAgain(metrics.Kind(p.check.ID.Kind), p.now.Sub(n.SickSince))
		}
		if i >= maxEvents {
			continue
		}
		check, target := p.check.Object, p.snapshot.targets[n.Target].Object
		for _, e := range n.Events {
			p.r.Events.Eventf(check, target, e.Type, e.Reason, action, "%s", e.Message)
			p.r.Events.Eventf(target, check, e.Type, e.Reason, action, "%s", e.Message)
		}
	}
}

// tellConditions reports what has changed for the check as a whole, when that stands in its status.
func (p *pass) tellConditions(ctx context.Context, before, after []metav1.Condition) {
	for _, e := range explain.ConditionEvents(before, after) {
		ctrl.LoggerFrom(ctx).Info("A condition has changed", "type", e.Type, "reason", e.Reason, "message", e.Message)
		p.r.Events.Eventf(p.check.Object, nil, e.Type, e.Reason, action, "%s", e.Message)
	}
}

// count keeps the metrics of the check.
func (p *pass) count(pass *explain.Pass, ended []report.Ending) {
	check := metrics.Check{Kind: metrics.Kind(p.check.ID.Kind), Namespace: p.check.ID.Namespace, Name: p.check.ID.Name}
	observed := metrics.ObservationOf(pass, p.check.Status.Conditions)
	p.r.Metrics.Observe(check, &observed)
	for i := range pass.Planned.Decisions {
		switch pass.Planned.Decisions[i].Action { //nolint:exhaustive // the others start nothing
		case remediation.MakeRequest:
			p.r.Metrics.Started(check, metrics.Template)
		case remediation.GiveMark:
			p.r.Metrics.Started(check, metrics.Owner)
		}
		for _, a := range pass.Planned.Decisions[i].Asked {
			if a.Again && a.Held {
				p.r.Metrics.ConfirmAborted(a.Guard)
			}
		}
	}
	for i := range ended {
		strategy := metrics.Template
		if ended[i].ByOwner {
			strategy = metrics.Owner
		}
		p.r.Metrics.Ended(check, strategy, metrics.OutcomeOf(ended[i].Outcome))
	}
}
