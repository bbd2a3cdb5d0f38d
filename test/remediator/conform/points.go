// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

const nodeMissing = "the Node does not exist: create it again, and verify again"

// success creates a request, and looks for a second action after the success, which once reports: a status that changes, or a Node that
// boots twice.
func (r *Remediator) success(ctx context.Context) (Result, string, error) {
	node, err := r.node(ctx)
	if err != nil || node == nil {
		return NotChecked, nodeMissing, err
	}
	boots := map[string]bool{node.Status.NodeInfo.BootID: true}
	request, err := r.create(ctx, node)
	if err != nil {
		return "", "", err
	}
	watched := func(holds func(*unstructured.Unstructured) bool) func(*unstructured.Unstructured) bool {
		return func(now *unstructured.Unstructured) bool {
			if node, err := r.node(ctx); err == nil && node != nil {
				boots[node.Status.NodeInfo.BootID] = true
			}
			return holds(now)
		}
	}
	var last string
	_, err = r.until(ctx, request, Timeout, watched(func(now *unstructured.Unstructured) bool {
		last = succeeded(now)
		return now == nil || isDecided(now)
	}))
	if err == nil && last == "True" {
		r.second, err = r.acts(ctx, request, watched, boots)
	}
	if err != nil {
		return "", "", err
	}
	if _, err := r.remove(ctx, request); err != nil {
		return "", "", err
	}
	return result(last)
}

// acts has the remediator reconcile a request that has succeeded, and describes what it does.
func (r *Remediator) acts(
	ctx context.Context, request *unstructured.Unstructured,
	watched func(func(*unstructured.Unstructured) bool) func(*unstructured.Unstructured) bool, boots map[string]bool,
) (string, error) {
	touch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"test.invalid/touched":""}}}`))
	if err := r.Client.Patch(ctx, request, touch); err != nil {
		return "", errors.WithStack(client.IgnoreNotFound(err))
	}
	changed, err := r.until(ctx, request, Settle, watched(func(now *unstructured.Unstructured) bool { return succeeded(now) != "True" }))
	switch {
	case changed:
		return "the condition Succeeded changes after it was True", err
	case len(boots) > 2:
		return "the Node boots twice for one request", err
	}
	return "", err
}

func (r *Remediator) once(context.Context) (Result, string, error) {
	if r.second != "" {
		return Broken, r.second, nil
	}
	return Kept, "", nil
}

// result is the result for the last status of the condition Succeeded.
func result(last string) (Result, string, error) {
	if last != "True" {
		return Broken, "the request does not get the condition Succeeded=True", nil
	}
	return Kept, "", nil
}

// byName is for requests that other operators or users create.
func (r *Remediator) byName(ctx context.Context) (Result, string, error) {
	return r.remediates(ctx, func(request *unstructured.Unstructured) {
		annotations := request.GetAnnotations()
		delete(annotations, remedyv1.NodeNameAnnotation)
		request.SetAnnotations(annotations)
	})
}

// byAnnotation is for requests of a MachineHealthCheck, which have the name of the Machine.
func (r *Remediator) byAnnotation(ctx context.Context) (Result, string, error) {
	return r.remediates(ctx, func(request *unstructured.Unstructured) { request.SetName(request.GetName() + "-conform") })
}

// remediates reports whether a changed request succeeds.
func (r *Remediator) remediates(ctx context.Context, change func(*unstructured.Unstructured)) (Result, string, error) {
	last, err := r.decided(ctx, change)
	if err != nil || last == nodeMissing {
		return NotChecked, nodeMissing, err
	}
	return result(last)
}

// stops creates a request that is stopped before it begins: whether one is stopped in time later depends on its speed.
func (r *Remediator) stops(ctx context.Context) (Result, string, error) {
	last, err := r.decided(ctx, func(request *unstructured.Unstructured) {
		annotations := request.GetAnnotations()
		annotations[remedyv1.TimedOutAnnotation] = "2026-01-02T12:00:00Z"
		request.SetAnnotations(annotations)
	})
	switch {
	case err != nil || last == nodeMissing:
		return NotChecked, nodeMissing, err
	case last == "False":
		return Kept, "", nil
	case last == "True":
		return Broken, "a request that is stopped succeeds", nil
	}
	return Broken, "a request that is stopped does not get the condition Succeeded=False", nil
}

// decided creates a changed request, waits until it succeeds or fails, and deletes it. It returns the status of the condition Succeeded, or
// nodeMissing.
func (r *Remediator) decided(ctx context.Context, change func(*unstructured.Unstructured)) (last string, err error) {
	node, err := r.node(ctx)
	if err != nil || node == nil {
		return nodeMissing, err
	}
	request, err := r.createChanged(ctx, node, change)
	if err != nil {
		return "", err
	}
	_, err = r.until(ctx, request, Timeout, func(now *unstructured.Unstructured) bool {
		last = succeeded(now)
		return now == nil || isDecided(now)
	})
	if err != nil {
		return "", err
	}
	_, err = r.remove(ctx, request)
	return last, err
}

// finalizer deletes a request while the remediator works.
func (r *Remediator) finalizer(ctx context.Context) (Result, string, error) {
	node, err := r.node(ctx)
	if err != nil || node == nil {
		return NotChecked, nodeMissing, err
	}
	return r.deleted(ctx, node, func() error { return nil })
}

// withoutNode creates a Node without a kubelet, and deletes it while the remediator works.
func (r *Remediator) withoutNode(ctx context.Context) (Result, string, error) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "conform-"}}
	if err := r.Client.Create(ctx, node); err != nil {
		return "", "", errors.WithStack(err)
	}
	return r.deleted(ctx, node, func() error { return errors.WithStack(client.IgnoreNotFound(r.Client.Delete(ctx, node))) })
}

// deleted stops and deletes a request that the remediator has taken on.
func (r *Remediator) deleted(ctx context.Context, node *corev1.Node, before func() error) (Result, string, error) {
	request, err := r.create(ctx, node)
	if err != nil {
		return "", "", err
	}
	if _, err := r.until(ctx, request, Settle, func(now *unstructured.Unstructured) bool {
		return now == nil || len(now.GetFinalizers()) > 0
	}); err != nil {
		return "", "", err
	}
	if err := before(); err != nil {
		return "", "", err
	}
	if err := r.stop(ctx, request); err != nil {
		return "", "", err
	}
	removed, err := r.remove(ctx, request)
	if err != nil {
		return "", "", err
	}
	if !removed {
		return Broken, "a request that is being deleted keeps its finalizer", nil
	}
	return Kept, "", nil
}
