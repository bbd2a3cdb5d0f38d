// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/pipeline"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// conflictTime is the delay after a conflict: the cache receives the write of the other client. After maxConflicts in a row, another client
// writes all the time, or the cache is not updated: this is a failure.
const (
	conflictTime = time.Second
	maxConflicts = 5
)

// Reconcile reconciles a check once.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	started, record := r.Clock.Now().Truncate(notes.Precision), r.records.of(request.NamespacedName)
	wakeUp, err := r.reconcile(ctx, request.NamespacedName, record, started)
	return r.result(ctx, record, started, wakeUp, err)
}

// reconcile returns when the check is reconciled again if nothing happens before.
func (r *Reconciler) reconcile(ctx context.Context, key client.ObjectKey, record *record, now time.Time) (time.Time, error) {
	check, cluster, err := r.Store.Find(ctx, r.Cache, key)
	if client.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	admitted, wakeUp, err := r.admit(ctx, key, check, now)
	if err != nil || !admitted {
		if err == nil {
			// The manager may have reconciled it until now.
			r.forget(key)
		}
		return wakeUp, err
	}
	if check, cluster, err = r.current(ctx, record, check, cluster); err != nil {
		return time.Time{}, client.IgnoreNotFound(err)
	}
	trigger, late := r.records.begin(key, now)
	r.Metrics.Evaluated(metrics.Kind(r.Store.Kind()), trigger, late)
	p := newScope(r, record, check, now)
	p.snapshot, err = p.read(ctx, cluster)
	if errors.Is(err, errNotReadYet) {
		return p.snapshot.requeueTime, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	// Targets are monitored even if the check could not be adopted.
	unadopted := utilerrors.NewAggregate([]error{p.adopt(ctx), p.adoptRequests(ctx)})
	p.facts = p.snapshot.facts(now)
	wakeUp, err = pipeline.Run(ctx, p.facts, p, r.Clock, now)
	p.snapshot.requeueAt(wakeUp)
	r.records.due(key, p.snapshot.requeueTime)
	return p.snapshot.requeueTime, utilerrors.NewAggregate([]error{unadopted, err})
}

// Explained is what Reconcile would decide about the targets of a check.
type Explained struct {
	Time       time.Time
	Check      *Check
	Evaluation *explain.Evaluation
	// Requests are the existing requests of the targets, in their order; empty for a target without one.
	Requests []string
}

// Explain evaluates a check as Reconcile does, and writes nothing. It waits for the first reads.
func (r *Reconciler) Explain(ctx context.Context, key client.ObjectKey) (result *Explained, err error) {
	waited := wait.PollUntilContextCancel(ctx, explainRetry, true, func(ctx context.Context) (bool, error) {
		result, err = r.explain(ctx, key)
		// The claims of checks without a Cluster need the Nodes of the management cluster, which the Nodes of the targets do not wait for.
		return !errors.Is(err, errNotReadYet) && workload.ReadErrorReasonOf(err) != workload.NotReadYet, nil
	})
	if waited != nil {
		return nil, errors.Wrap(waited, "failed to read the check and its targets in time")
	}
	return result, err
}

// explainRetry is how often Explain tries again until everything was read once.
const explainRetry = 100 * time.Millisecond

func (r *Reconciler) explain(ctx context.Context, key client.ObjectKey) (*Explained, error) {
	now := r.Clock.Now().Truncate(notes.Precision)
	check, cluster, err := r.Store.Find(ctx, r.Cache, key)
	if err != nil {
		return nil, err
	}
	p := newScope(r, r.records.of(key), check, now)
	if p.snapshot, err = p.read(ctx, cluster); err != nil {
		return nil, err
	}
	result := &Explained{Time: now, Check: check, Evaluation: pipeline.Evaluate(ctx, p.snapshot.facts(now), p, now)}
	for _, t := range p.snapshot.targets {
		request := ""
		if found := p.snapshot.requestFor(t); found != nil {
			request = found.Kind.Kind + " " + found.Namespace + "/" + found.Name
		}
		result.Requests = append(result.Requests, request)
	}
	return result, nil
}

// admit reports whether a check, which is nil if it does not exist, is the manager's, and when to ask again if nothing happens.
func (r *Reconciler) admit(
	ctx context.Context, key client.ObjectKey, check *Check, now time.Time,
) (admitted bool, wakeUp time.Time, err error) {
	switch {
	case check == nil:
		if r.Adoption != nil {
			r.Adoption.Forget(key)
		}
		return false, time.Time{}, nil
	case r.Adoption == nil:
		return r.Responsible(check.Object), time.Time{}, nil
	}
	return r.Adoption.Admit(ctx, key, now)
}

// result returns when a check is reconciled again: after a failure with backoff, but no later than it is due anyway. A few conflicts in a
// row are no failure.
func (r *Reconciler) result(ctx context.Context, record *record, started, wakeUp time.Time, err error) (ctrl.Result, error) {
	retry := time.Duration(0)
	switch {
	case err == nil:
		record.failures, record.conflicts = 0, 0
	case OnlyConflicts(err) && record.conflicts < maxConflicts:
		record.conflicts++
		retry = conflictTime
	default:
		retry = min(firstRetry<<min(record.failures, 16), lastRetry)
		record.failures++
		ctrl.LoggerFrom(ctx).Error(err, "Part of the reconcile failed, retrying", "after", retry.String())
		r.Metrics.Failed(metrics.Kind(r.Store.Kind()))
	}
	ended := r.Clock.Now()
	after := wakeUp.Sub(ended)
	switch {
	case wakeUp.IsZero():
		return ctrl.Result{RequeueAfter: retry}, nil
	case retry > 0 && retry < after:
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	// Zero would mean never. The minimum keeps a slow reconcile from running again without a pause.
	return ctrl.Result{RequeueAfter: max(after, min(ended.Sub(started), conflictTime), notes.Precision)}, nil
}

// firstRetry and lastRetry are the first and the longest delay after a failure.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute
)

// OnlyConflicts reports whether an error only means that the cache is older than the API server.
func OnlyConflicts(err error) bool {
	var list utilerrors.Aggregate
	if !errors.As(err, &list) {
		return outdated(err)
	}
	for _, each := range utilerrors.Flatten(list).Errors() {
		if !outdated(each) {
			return false
		}
	}
	return true
}

func outdated(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, errTargetGone) || errors.Is(err, errNotOrphaned)
}

// forget drops the state of a check that no longer exists, or that the manager no longer reconciles.
func (r *Reconciler) forget(key client.ObjectKey) {
	kind := r.Store.Kind()
	r.records.forget(key)
	r.Requests.Forget(requests.Check{Kind: kind, Namespace: key.Namespace, Name: key.Name})
	r.Metrics.Forget(metrics.Check{Kind: metrics.Kind(kind), Namespace: key.Namespace, Name: key.Name})
}
