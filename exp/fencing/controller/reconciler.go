// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

// maxSteps is how many decisions one reconcile makes. A fence has fewer between two waits.
const maxSteps = 20

// maxMessage is the maximum length of an error in a condition, and of an event: the API server rejects longer ones.
const maxMessage = 1024

// Reconciler reconciles NodeFences.
type Reconciler struct {
	Client client.Client
	// Live reads without a cache.
	Live client.Reader
	// Nodes returns a client without a cache for the Nodes of a cluster.
	Nodes   func(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	Events  events.EventRecorder
	Metrics *Metrics
	Clock   clock.PassiveClock
	// Observe: no fence begins.
	Observe bool
	// WatchFilter is the value of the watch label of the NodeFences to reconcile; empty for all.
	WatchFilter string
	// OwnNodesNamespace is the namespace whose NodeFences can fence Nodes of the cluster of the manager.
	OwnNodesNamespace string

	// clusters has nodeCounts for each cluster. They are locked while a fence is admitted: two fences must not both be admitted because
	// neither has its taint yet.
	clusters sync.Map
	// failures are the errors of the last effects, by NodeFence, until they are performed.
	failures sync.Map
}

// Reconcile decides until the fence waits.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	for range maxSteps {
		fence := &fencingv1.NodeFence{}
		if err := r.Live.Get(ctx, request.NamespacedName, fence); err != nil {
			if apierrors.IsNotFound(err) {
				r.Metrics.forget(request.NamespacedName)
				r.failures.Delete(request.NamespacedName)
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, errors.Wrapf(err, "failed to read NodeFence %s", request)
		}
		if r.WatchFilter != "" && fence.Labels[clusterv1.WatchLabel] != r.WatchFilter {
			return ctrl.Result{}, nil
		}
		wake, again, err := r.step(ctx, fence)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			// Something has changed or was deleted since it was read: it is read again.
			return ctrl.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return ctrl.Result{}, err
		case !again:
			return ctrl.Result{RequeueAfter: wake}, nil
		}
	}
	return ctrl.Result{RequeueAfter: time.Second}, nil
}

// step makes one decision: it writes the record, and performs the effect. again is whether the next decision can follow at once;
// otherwise it follows after wake, or when something changes if wake is zero.
func (r *Reconciler) step(ctx context.Context, fence *fencingv1.NodeFence) (wake time.Duration, again bool, _ error) {
	t, err := r.findTarget(ctx, fence)
	if err != nil {
		return 0, false, r.unread(ctx, fence, err)
	}
	var shared *nodeCounts
	if lifecycle.NeedsCluster(&fence.Status, &fence.Spec) {
		stored, _ := r.clusters.LoadOrStore(t.cluster, &nodeCounts{})
		shared = stored.(*nodeCounts) //nolint:forcetypeassert // Nothing else is stored.
		if !shared.TryLock() {
			// A cluster that hangs must not take every worker.
			return time.Second, false, nil
		}
		defer shared.Unlock()
	}
	o, err := r.observe(ctx, fence, t, shared)
	if err != nil {
		return 0, false, r.unread(ctx, fence, err)
	}
	now := r.Clock.Now()
	out := lifecycle.Step(&fence.Status, &o.Observation, now)
	changed := !equality.Semantic.DeepEqual(out.Record, fence.Status)
	before, key := fence.Status, client.ObjectKeyFromObject(fence)
	setConditions(&out, o, fence, now)
	if !equality.Semantic.DeepEqual(out.Record, before) {
		fence.Status = out.Record
		if err := r.Client.Status().Update(ctx, fence); err != nil {
			return 0, false, errors.Wrapf(err, "failed to write the status of NodeFence %s", key)
		}
		r.report(fence, &before, o, now)
	}
	r.Metrics.setState(fence, out.Why.Reason)
	if err := r.perform(ctx, fence, o, out.Effect); err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			r.failures.Store(key, line(err))
		}
		return 0, false, err
	}
	if out.Effect != lifecycle.NoEffect {
		r.failures.Delete(key)
	}
	if out.Wake.IsZero() {
		return 0, changed || out.Effect != lifecycle.NoEffect && out.Effect != lifecycle.Finish, nil
	}
	wake = out.Wake.Sub(now)
	return max(wake, time.Second), wake <= 0, nil
}

// unread reports that a decision is not possible because something was not read, and returns the error.
func (r *Reconciler) unread(ctx context.Context, fence *fencingv1.NodeFence, cause error) error {
	if fence.Status.Phase == fencingv1.PhaseFinal {
		return cause
	}
	changed := false
	for _, c := range []metav1.Condition{
		{Type: remedyv1.ProcessingCondition, Status: metav1.ConditionTrue},
		{Type: remedyv1.SucceededCondition, Status: metav1.ConditionUnknown},
	} {
		c.Reason, c.Message, c.ObservedGeneration = lifecycle.ReasonTargetUnreadable, line(cause), fence.Generation
		c.LastTransitionTime = metav1.NewTime(r.Clock.Now())
		changed = meta.SetStatusCondition(&fence.Status.Conditions, c) || changed
	}
	if !changed {
		return cause
	}
	if err := r.Client.Status().Update(ctx, fence); err != nil {
		return errors.Wrapf(cause, "failed to write the status of NodeFence %s (%v) after", client.ObjectKeyFromObject(fence), err)
	}
	return cause
}

// line makes one line of an error for a condition.
func line(err error) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, err.Error())
	return cut(text)
}

// cut limits a text for a condition or an event.
func cut(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "") }
