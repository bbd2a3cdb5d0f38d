// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"maps"
	"strings"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Outcome is how a remediator's work goes.
type Outcome uint8

const (
	// Succeeds means that it remediates, and reports success if it ever does.
	Succeeds Outcome = iota
	// Fails means that it reports a failure. Metal3 reboots until its last timeout is over.
	Fails
	// Hangs means that it takes the request on, and does not get any further. The host of Metal3 does not power off.
	Hangs
	// Silent means that it does not even take the request on, as when it has crashed.
	Silent
)

// Remediator works off the requests of one kind, one step at a time. It is a reconcile.Reconciler, too.
type Remediator struct {
	Kind Kind
	// Client is for the cluster with the requests, and Nodes for the one with the Nodes; nil if that is the same.
	Client, Nodes client.Client
	// Outcome is how it goes for a request; nil for success.
	Outcome func(request *unstructured.Unstructured) Outcome
	// Worked is called when it remediates, such as by restarting a Node; nil if that is not needed.
	Worked func(ctx context.Context, node string) error
	// Flaw is what it does wrong.
	Flaw Flaw
	// NodeDeletion: Metal3 deletes a Node and restores it, as in a management cluster older than Kubernetes 1.28. By default it taints Nodes.
	NodeDeletion bool
	// Memory is what it remembers besides its requests; nil for what only this one remembers.
	Memory *Memory
	// Stuck are the requests that it retries for ever, by name, and why. Act sets it.
	Stuck map[string]string
}

// stuckError is an error that does not end until the request or the Node changes.
type stuckError struct{ error }

// stuck returns a stuckError.
func stuck(format string, args ...any) error { return stuckError{errors.Errorf(format, args...)} }

// Act does the next step for each request, and reports whether there was any.
func (r *Remediator) Act(ctx context.Context) (bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List"))
	if err := r.Client.List(ctx, list); err != nil {
		return false, errors.Wrap(err, "the remediator cannot see its requests")
	}
	acted := false
	r.Stuck = map[string]string{}
	for i := range list.Items {
		did, err := r.step(ctx, &list.Items[i])
		if reason := (stuckError{}); errors.As(err, &reason) {
			r.Stuck[list.Items[i].GetName()], err = reason.Error(), nil
		}
		if err != nil {
			return acted, err
		}
		acted = acted || did
	}
	return acted, nil
}

// Reconcile does the next step for one request.
func (r *Remediator) Reconcile(ctx context.Context, asked reconcile.Request) (reconcile.Result, error) {
	request := r.Kind.NewRequest(asked.Namespace, asked.Name)
	if err := r.Client.Get(ctx, asked.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	_, err := r.step(ctx, request)
	return reconcile.Result{}, err
}

func (r *Remediator) step(ctx context.Context, request *unstructured.Unstructured) (bool, error) {
	outcome := Succeeds
	if r.Outcome != nil {
		outcome = r.Outcome(request)
	}
	if outcome == Silent {
		return false, nil
	}
	switch r.Kind {
	case Metal3:
		return r.metal3(ctx, request, outcome)
	case HCloud, HetznerServer:
		return r.hetzner(ctx, request, outcome)
	}
	if t := medik8sTraits[r.Kind.GroupKind()]; t != nil {
		return r.medik8s(ctx, request, outcome, t)
	}
	return false, errors.Errorf("nothing plays the remediator of %s", r.Kind.Kind)
}

// update writes a request back.
func (r *Remediator) update(ctx context.Context, request *unstructured.Unstructured) error {
	if r.Flaw == DropsAnnotations {
		annotations := request.GetAnnotations()
		maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, remedyv1.Prefix) })
		request.SetAnnotations(annotations)
	}
	return errors.WithStack(r.Client.Update(ctx, request))
}

func (r *Remediator) say(ctx context.Context, request *unstructured.Unstructured, value any, field string) error {
	if err := unstructured.SetNestedField(request.Object, value, "status", field); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(r.Client.Status().Update(ctx, request))
}

func (r *Remediator) release(ctx context.Context, request *unstructured.Unstructured, finalizer string) (bool, error) {
	if !controllerutil.RemoveFinalizer(request, finalizer) {
		return false, nil
	}
	return true, client.IgnoreNotFound(errors.Cause(r.update(ctx, request)))
}

func (r *Remediator) work(ctx context.Context, node string) error {
	if r.Worked == nil {
		return nil
	}
	return r.Worked(ctx, node)
}
