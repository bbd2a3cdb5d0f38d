// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/checkup"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// conflictTime is when to look again after somebody else was faster: what they wrote is on its way to us.
const conflictTime = time.Second

// Reconcile does one pass over a check.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	started, record := r.Clock.Now().Truncate(notes.Precision), r.records.of(request.NamespacedName)
	wakeUp, err := r.reconcile(ctx, request, record, started)
	return r.result(ctx, record, started, wakeUp, err)
}

// reconcile returns when the check is reconciled again if nothing happens before.
func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request, record *record, now time.Time) (time.Time, error) {
	check, cluster, err := r.Checks.find(ctx, r.Cache, request.NamespacedName)
	if client.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	ours, wakeUp, err := r.belongs(ctx, request, check, now)
	if err != nil || !ours {
		if err == nil {
			// It may have been ours until now.
			r.forget(request)
		}
		return wakeUp, err
	}
	if check, cluster, err = r.current(ctx, record, check, cluster); err != nil {
		return time.Time{}, client.IgnoreNotFound(err)
	}
	trigger, late := r.records.begin(request.NamespacedName, now)
	r.Metrics.Evaluated(metrics.Kind(r.Checks.kind()), trigger, late)
	v := newVisit(r, record, check, now)
	v.seen, err = v.read(ctx, cluster)
	if errors.Is(err, errNotReadYet) {
		return v.seen.again, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	// That it could not be adopted is no reason not to look after anything.
	unadopted := utilerrors.NewAggregate([]error{v.adopt(ctx), v.adoptRequests(ctx)})
	v.facts = v.seen.facts(now)
	wakeUp, err = checkup.Run(ctx, v.facts, v, r.Clock, now)
	v.seen.askAgain(wakeUp)
	r.records.due(request.NamespacedName, v.seen.again)
	return v.seen.again, utilerrors.NewAggregate([]error{unadopted, err})
}

// belongs says whether we look after a check, which is nil if it is gone, and when to ask again if nothing happens.
func (r *Reconciler) belongs(ctx context.Context, request ctrl.Request, check *remedyv1.MachineHealthCheck, now time.Time) (ours bool, wakeUp time.Time, err error) {
	switch {
	case check == nil:
		r.Checks.gone(request.NamespacedName)
		return false, time.Time{}, nil
	case !r.actsFor(check):
		return false, time.Time{}, r.Checks.leave(ctx, r, request.NamespacedName, now)
	}
	return r.Checks.handover(ctx, r, request.NamespacedName, now)
}

// result is when to look again. What has failed is tried again after a while that grows; it makes nobody else wait for longer than it would have,
// so that it is never the queue that decides when. That somebody else was faster is no failure.
func (r *Reconciler) result(ctx context.Context, record *record, started, wakeUp time.Time, err error) (ctrl.Result, error) {
	retry := time.Duration(0)
	switch {
	case err == nil:
		record.failures = 0
	case onlyConflicts(err):
		retry = conflictTime
	default:
		retry = min(firstRetry<<min(record.failures, 16), lastRetry)
		record.failures++
		ctrl.LoggerFrom(ctx).Error(err, "A part of a pass has failed, and is tried again", "after", retry.String())
		r.Metrics.Failed(metrics.Kind(r.Checks.kind()))
	}
	ended := r.Clock.Now()
	after := wakeUp.Sub(ended)
	switch {
	case wakeUp.IsZero():
		return ctrl.Result{RequeueAfter: retry}, nil
	case retry > 0 && retry < after:
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	// A result of zero would mean never. What is due already has little time to lose; but a pass that has taken long, with a time to look again that
	// is over by now, would follow on itself for ever.
	return ctrl.Result{RequeueAfter: max(after, min(ended.Sub(started), conflictTime), notes.Precision)}, nil
}

// firstRetry and lastRetry are after what time something that has failed is tried again, first and at most.
const (
	firstRetry = 250 * time.Millisecond
	lastRetry  = time.Minute
)

func onlyConflicts(err error) bool {
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

// outdated says whether an error only means that the cache is behind.
func outdated(err error) bool {
	return apierrors.IsConflict(err) || errors.Is(err, errGone) || errors.Is(err, errNoStray)
}

// forget drops everything that is kept of a check that is gone, or is not ours any more.
func (r *Reconciler) forget(request ctrl.Request) {
	r.records.forget(request.NamespacedName)
	r.Requests.Forget(requests.Check{Kind: r.Checks.kind(), Namespace: request.Namespace, Name: request.Name})
	r.Metrics.Forget(metrics.Check{Kind: metrics.Kind(r.Checks.kind()), Namespace: request.Namespace, Name: request.Name})
}

// adopt makes the Cluster an owner of its check, so that clusterctl moves both, and both go together; and notes kinds of requests that are new in its
// spec.
func (v *visit) adopt(ctx context.Context) error {
	s := v.seen
	// Who only observes a check of Cluster API writes nothing on it.
	if kindOf(s.check) == coreKind && s.observes() || s.cluster == nil || s.frozen() || !s.check.DeletionTimestamp.IsZero() ||
		owned(s.check, s.cluster) && (!finalized(s.check) || kindsNoted(s.check)) {
		return nil
	}
	if obstacle, err := v.Obstacle(ctx); err != nil || obstacle != nil {
		return err
	}
	return v.patchCheck(ctx, func(check *remedyv1.MachineHealthCheck) {
		own(check, s.cluster)
		if finalized(check) {
			noteKinds(check)
		}
	})
}
