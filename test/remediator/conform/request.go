// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// draft is a request as of a NodeHealthCheck in another cluster: the Node is its only owner, and no NodeHealthCheck has to exist. With a
// Machine it is a request as of a MachineHealthCheck.
func (r *Remediator) draft(ctx context.Context, node *corev1.Node) (*requests.Draft, error) {
	d := &requests.Draft{
		Check:    requests.Check{Kind: "NodeHealthCheck", Name: "conform"},
		Target:   requests.OfNode(requests.Object{Name: node.Name, UID: node.UID}, requests.Object{}),
		Template: r.Template, Order: 1, Attempt: 1, Started: time.Now(), Place: requests.InWorkload,
	}
	if r.Machine.Name == "" {
		return d, nil
	}
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	if err := r.Client.Get(ctx, r.Machine, machine); err != nil {
		return nil, errors.Wrap(err, "failed to get the Machine")
	}
	d.Check = requests.Check{Kind: "MachineHealthCheck", Namespace: r.Machine.Namespace, Name: "conform"}
	d.Target, d.Place = requests.OfMachine(requests.Object{Name: machine.Name, UID: machine.UID}, d.Target.Node), requests.InManagement
	return d, nil
}

// breaks makes the Node unhealthy, if that is the Node to remediate.
func (r *Remediator) breaks(ctx context.Context, node *corev1.Node) error {
	if r.Break == nil || node.Name != r.Node {
		return nil
	}
	return errors.Wrapf(r.Break(ctx), "failed to make Node %s unhealthy", node.Name)
}

// create creates a request as the manager does.
func (r *Remediator) create(ctx context.Context, node *corev1.Node) (*unstructured.Unstructured, error) {
	if err := r.breaks(ctx, node); err != nil {
		return nil, err
	}
	draft, err := r.draft(ctx, node)
	if err != nil {
		return nil, err
	}
	found, created, err := r.all.Create(ctx, draft)
	if err != nil {
		return nil, err
	}
	if !created {
		return nil, errors.Errorf("a request of an earlier run exists: delete %s %s", found.Kind.Kind, found.Key())
	}
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(found.Kind)
	request.SetNamespace(found.Namespace)
	request.SetName(found.Name)
	return request, errors.WithStack(r.Client.Get(ctx, found.Key(), request))
}

// createChanged creates a request that differs from those of the manager.
func (r *Remediator) createChanged(
	ctx context.Context, node *corev1.Node, change func(*unstructured.Unstructured),
) (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(r.Template.TemplateKind())
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Template.Namespace, Name: r.Template.Name}, template); err != nil {
		return nil, errors.Wrap(err, "failed to get the template")
	}
	if err := r.breaks(ctx, node); err != nil {
		return nil, err
	}
	draft, err := r.draft(ctx, node)
	if err != nil {
		return nil, err
	}
	request, err := requests.Build(template, draft)
	if err != nil {
		return nil, err
	}
	change(request)
	return request, errors.WithStack(r.Client.Create(ctx, request))
}

// stop sets the timed-out annotation, also on a request that has succeeded meanwhile: whether it has depends on the remediator's speed.
func (r *Remediator) stop(ctx context.Context, request *unstructured.Unstructured) error {
	stopped := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, remedyv1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339)))
	return errors.WithStack(client.IgnoreNotFound(r.Client.Patch(ctx, request, stopped)))
}

// remove deletes a request, and reports whether it no longer exists. A request that stays loses its finalizers, so that the next one can be
// created.
func (r *Remediator) remove(ctx context.Context, request *unstructured.Unstructured) (bool, error) {
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, request)); err != nil {
		return false, errors.WithStack(err)
	}
	removed, err := r.until(ctx, request, Timeout, isNil)
	if err != nil || removed {
		return removed, err
	}
	none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return false, errors.WithStack(client.IgnoreNotFound(r.Client.Patch(ctx, request, none)))
}

func isNil(request *unstructured.Unstructured) bool { return request == nil }

// succeeded is the status of the condition Succeeded; empty without it.
func succeeded(request *unstructured.Unstructured) string {
	if request == nil {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, is := condition.(map[string]any); is && c["type"] == "Succeeded" {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// isDecided reports whether the remediator has reported success or a failure.
func isDecided(request *unstructured.Unstructured) bool {
	return succeeded(request) == "True" || succeeded(request) == "False"
}
