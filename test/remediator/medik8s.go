// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// medik8s reports that it is processing, and then the result.
func (r *Remediator) medik8s(ctx context.Context, request *unstructured.Unstructured, outcome Outcome, t *traits) (bool, error) {
	t = r.Flaw.in(t)
	name, err := t.target(request)
	if err != nil {
		return r.reportError(ctx, request, err, t)
	}
	node, err := r.node(ctx, name)
	if err != nil {
		return false, err
	}
	_, interrupted := request.GetAnnotations()[remedyv1.TimedOutAnnotation]
	interrupted = interrupted && !t.ignoresTimedOut
	if t.runsScript {
		return r.runScript(ctx, name, node, outcome, interrupted)
	}
	if t.missingFirst {
		if did, ends, err := r.withoutNodeFirst(ctx, request, name, node, outcome, t); ends {
			return did, err
		}
	}
	switch {
	case request.GetDeletionTimestamp() != nil:
		return r.deleted(ctx, request, node, interrupted, t)
	case t.finished(request):
		return r.afterwards(ctx, request, name, t)
	case interrupted:
		r.memory().setAgent(request.GetUID(), false)
		return true, r.report(ctx, request, t.reports[stopped])
	case t.finalizerFirst && controllerutil.AddFinalizer(request, t.finalizer):
		return true, r.update(ctx, request)
	case node == nil && !t.deletesNode:
		return r.withoutNode(ctx, request, name, t)
	case t.excludes && node.Labels[remedyv1.ExcludeLabel] == "true":
		return false, nil
	case t.finalizer != "" && controllerutil.AddFinalizer(request, t.finalizer):
		return true, r.update(ctx, request)
	case !t.reports[started].isIn(request):
		return true, r.start(ctx, request, node, t)
	case outcome == Hangs && t.lastError != "":
		return r.reportError(ctx, request, stuck("%s", t.lastError), t)
	case outcome == Hangs:
		return false, nil
	case t.deletesNode && outcome == Succeeds:
		return r.deleteMachine(ctx, request, node, t)
	}
	return true, r.end(ctx, request, name, node, outcome, t)
}

// start isolates the Node.
func (r *Remediator) start(ctx context.Context, request *unstructured.Unstructured, node *corev1.Node, t *traits) error {
	if node != nil {
		if err := r.isolate(ctx, node, t, true); err != nil {
			return err
		}
	}
	r.memory().setAgent(request.GetUID(), true)
	return r.report(ctx, request, t.reports[started])
}

// end remediates, and reports the result.
func (r *Remediator) end(
	ctx context.Context, request *unstructured.Unstructured, name string, node *corev1.Node, outcome Outcome, t *traits,
) error {
	if outcome == Fails {
		r.memory().setAgent(request.GetUID(), false)
		return r.report(ctx, request, t.reports[failed])
	}
	if err := r.work(ctx, name); err != nil {
		return err
	}
	if t.outOfService && node != nil {
		again, err := r.node(ctx, name)
		if err == nil && again != nil {
			_, err = r.setOutOfService(ctx, again, true)
		}
		if err != nil {
			return err
		}
	}
	r.memory().setAgent(request.GetUID(), false)
	return r.report(ctx, request, t.reports[succeeded])
}

// afterwards is what it does with a request that has ended: nothing, if it has no flaw.
func (r *Remediator) afterwards(ctx context.Context, request *unstructured.Unstructured, name string, t *traits) (bool, error) {
	if t.reports[succeeded].isIn(request) {
		switch r.Flaw { //nolint:exhaustive // the others do nothing then
		case ActsTwice:
			return false, r.work(ctx, name)
		case DeletesRequest:
			return true, errors.WithStack(client.IgnoreNotFound(r.Client.Delete(ctx, request)))
		}
	}
	return false, nil
}

// runScript runs a script again and again. It stops only for a request that is not being deleted.
func (r *Remediator) runScript(ctx context.Context, name string, node *corev1.Node, outcome Outcome, interrupted bool) (bool, error) {
	switch {
	case interrupted || outcome == Hangs:
		return false, nil
	case node == nil:
		return false, stuck("no Pod runs on Node %s", name)
	}
	return false, r.work(ctx, name)
}

// reportError reports what it retries for ever.
func (r *Remediator) reportError(ctx context.Context, request *unstructured.Unstructured, failure error, t *traits) (bool, error) {
	reason := stuckError{}
	if t.lastError == "" || !errors.As(failure, &reason) {
		return false, failure
	}
	if last, _, _ := unstructured.NestedString(request.Object, "status", "lastError"); last == reason.Error() {
		return false, failure
	}
	if err := unstructured.SetNestedField(request.Object, reason.Error(), "status", "lastError"); err != nil {
		return false, errors.WithStack(err)
	}
	return true, r.report(ctx, request, t.reports[started])
}

// withoutNodeFirst is for a remediator that looks for the Node first, and again only after a change of the request. A fence agent that runs
// goes on, also when the request is deleted, and when another Node has the name.
func (r *Remediator) withoutNodeFirst(
	ctx context.Context, request *unstructured.Unstructured, name string, node *corev1.Node, outcome Outcome, t *traits,
) (did, ends bool, err error) {
	m, uid := r.memory(), request.GetUID()
	missing := m.stillMissing(uid, request.GetResourceVersion())
	switch {
	case (node == nil || missing) && m.agent(uid) && outcome != Hangs:
		return true, true, r.end(ctx, request, name, node, outcome, t)
	case node == nil && !missing:
		if !t.reports[nodeNotFound].isIn(request) {
			did, err = true, r.report(ctx, request, t.reports[nodeNotFound])
		}
		m.setMissing(uid, request.GetResourceVersion())
		return did, true, err
	case missing && request.GetDeletionTimestamp() != nil && controllerutil.ContainsFinalizer(request, t.finalizer):
		return false, true, stuck("Node %s was not found", name)
	}
	return false, missing, nil
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
		if t.outOfService {
			if _, err := r.setOutOfService(ctx, node, false); err != nil {
				return false, err
			}
		}
	}
	r.memory().setAgent(request.GetUID(), false)
	return r.release(ctx, request, t.finalizer)
}
