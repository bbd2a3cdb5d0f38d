// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// medik8s reports that it is processing, and then the result.
func (r *Remediator) medik8s(ctx context.Context, request *unstructured.Unstructured, outcome Outcome, t *traits) (bool, error) {
	t = r.Flaw.in(t)
	name, err := t.target(request)
	if err != nil {
		return false, err
	}
	node, err := r.node(ctx, name)
	if err != nil {
		return false, err
	}
	_, interrupted := request.GetAnnotations()[remedyv1.TimedOutAnnotation]
	interrupted = interrupted && !t.ignoresTimedOut
	switch {
	case request.GetDeletionTimestamp() != nil:
		return r.deleted(ctx, request, node, interrupted, t)
	case t.finished(request):
		if r.Flaw == ActsTwice && t.reports[succeeded].isIn(request) {
			return false, r.work(ctx, name)
		}
		return false, nil
	case interrupted:
		return true, r.report(ctx, request, t.reports[stopped])
	case t.finalizerFirst && controllerutil.AddFinalizer(request, t.finalizer):
		return true, errors.WithStack(r.Client.Update(ctx, request))
	case node == nil && !t.deletesNode:
		return r.withoutNode(ctx, request, name, t)
	case t.excludes && node.Labels[remedyv1.ExcludeLabel] == "true":
		return false, nil
	case t.finalizer != "" && controllerutil.AddFinalizer(request, t.finalizer):
		return true, errors.WithStack(r.Client.Update(ctx, request))
	case !t.reports[started].isIn(request):
		if node != nil {
			if err := r.isolate(ctx, node, t, true); err != nil {
				return false, err
			}
		}
		return true, r.report(ctx, request, t.reports[started])
	case outcome == Fails:
		return true, r.report(ctx, request, t.reports[failed])
	case outcome == Hangs:
		return false, nil
	case t.deletesNode:
		return r.deleteMachine(ctx, request, node, t)
	}
	if err := r.work(ctx, name); err != nil {
		return false, err
	}
	return true, r.report(ctx, request, t.reports[succeeded])
}

// finished reports whether the remediator does nothing any more until the request is deleted.
func (t *traits) finished(request *unstructured.Unstructured) bool {
	for at, made := range t.reports {
		if at != started && made.isIn(request) {
			return true
		}
	}
	return false
}

// withoutNode is for a request whose Node does not exist. A remediator without a report for that retries for ever.
func (r *Remediator) withoutNode(ctx context.Context, request *unstructured.Unstructured, name string, t *traits) (bool, error) {
	made, found := t.reports[nodeNotFound]
	if !found {
		return false, stuck("failed to get Node %s: not found", name)
	}
	return true, r.report(ctx, request, made)
}

// deleted removes the finalizer, after what was done to the Node is undone. Without the timed-out annotation, the remediators of medik8s
// keep it if the Node does not exist.
func (r *Remediator) deleted(
	ctx context.Context, request *unstructured.Unstructured, node *corev1.Node, interrupted bool, t *traits,
) (bool, error) {
	if t.finalizer == "" || !controllerutil.ContainsFinalizer(request, t.finalizer) {
		return false, nil
	}
	if node == nil && (!interrupted || r.Flaw == NeedsNode) {
		return false, stuck("failed to get the Node of %s: not found", request.GetName())
	}
	if r.Flaw == KeepsFinalizer {
		return false, nil
	}
	if node != nil {
		if err := r.isolate(ctx, node, t, false); err != nil {
			return false, err
		}
	}
	return r.release(ctx, request, t.finalizer)
}
