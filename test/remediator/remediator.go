// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Outcome is how a remediator's work goes.
type Outcome uint8

const (
	// Succeeds means that it remediates, and reports success.
	Succeeds Outcome = iota
	// Fails means that it reports a failure.
	Fails
	// Hangs means that it takes the request on, and does not get any further.
	Hangs
	// Silent means that it does not even take the request on.
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
}

// The finalizers of the real ones.
const (
	Metal3Finalizer      = "metal3remediation.infrastructure.cluster.x-k8s.io"
	FenceAgentsFinalizer = "fence-agents-remediation.medik8s.io/far-finalizer"
)

// Act does the next step for each request, and reports whether there was any.
func (r *Remediator) Act(ctx context.Context) (bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List"))
	if err := r.Client.List(ctx, list); err != nil {
		return false, errors.Wrap(err, "the remediator cannot see its requests")
	}
	acted := false
	for i := range list.Items {
		did, err := r.step(ctx, &list.Items[i])
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
	if r.Kind.GroupKind() == Metal3.GroupKind() {
		return r.metal3(ctx, request, outcome)
	}
	return r.medik8s(ctx, request, outcome)
}

// metal3 goes through the phases: Running, Waiting, and, if the Machine does not get better, Deleting machine. It needs a Machine as an
// owner.
func (r *Remediator) metal3(ctx context.Context, request *unstructured.Unstructured, outcome Outcome) (bool, error) {
	if request.GetDeletionTimestamp() != nil {
		return r.release(ctx, request, Metal3Finalizer)
	}
	owned := slices.ContainsFunc(request.GetOwnerReferences(), ownedByMachine)
	if !owned {
		return false, nil
	}
	if controllerutil.AddFinalizer(request, Metal3Finalizer) {
		return true, errors.WithStack(r.Client.Update(ctx, request))
	}
	phase, _, _ := unstructured.NestedString(request.Object, "status", "phase")
	switch {
	case phase == "":
		return true, r.say(ctx, request, "Running", "phase")
	case phase == "Running" && outcome != Hangs:
		if err := r.work(ctx, request); err != nil {
			return false, err
		}
		return true, r.say(ctx, request, "Waiting", "phase")
	case phase == "Waiting" && outcome == Fails:
		return true, r.say(ctx, request, "Deleting machine", "phase")
	}
	return false, nil
}

// medik8s reports that it is processing, and then the result. It stops with the timed-out annotation. A request whose Node does not exist
// keeps its finalizer without that annotation: so do the real ones.
func (r *Remediator) medik8s(ctx context.Context, request *unstructured.Unstructured, outcome Outcome) (bool, error) {
	_, stopped := request.GetAnnotations()[remedyv1.TimedOutAnnotation]
	if request.GetDeletionTimestamp() != nil {
		there, err := r.nodeIsThere(ctx, request)
		if err != nil || !there && !stopped {
			return false, err
		}
		return r.release(ctx, request, FenceAgentsFinalizer)
	}
	if !stopped && controllerutil.AddFinalizer(request, FenceAgentsFinalizer) {
		return true, errors.WithStack(r.Client.Update(ctx, request))
	}
	processing, succeeded := Condition(request, "Processing"), Condition(request, "Succeeded")
	switch {
	case succeeded != "" && succeeded != "Unknown":
		return false, nil
	case stopped:
		return true, r.conclude(ctx, request, "False", "False", "RemediationInterruptedByNHC")
	case processing == "":
		return true, r.conclude(ctx, request, "True", "Unknown", "RemediationStarted")
	case outcome == Fails:
		return true, r.conclude(ctx, request, "False", "False", "FenceAgentFailed")
	case outcome == Hangs:
		return false, nil
	}
	if err := r.work(ctx, request); err != nil {
		return false, err
	}
	return true, r.conclude(ctx, request, "False", "True", "RemediationFinishedSuccessfully")
}

func (r *Remediator) conclude(ctx context.Context, request *unstructured.Unstructured, processing, succeeded, reason string) error {
	return r.say(ctx, request, []any{
		map[string]any{"type": "Processing", "status": processing, "reason": reason, "message": ""},
		map[string]any{"type": "Succeeded", "status": succeeded, "reason": reason, "message": ""},
	}, "conditions")
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
	return true, errors.WithStack(client.IgnoreNotFound(r.Client.Update(ctx, request)))
}

func (r *Remediator) work(ctx context.Context, request *unstructured.Unstructured) error {
	if r.Worked == nil {
		return nil
	}
	return r.Worked(ctx, NodeOf(request))
}

func (r *Remediator) nodeIsThere(ctx context.Context, request *unstructured.Unstructured) (bool, error) {
	nodes := r.Nodes
	if nodes == nil {
		nodes = r.Client
	}
	err := nodes.Get(ctx, client.ObjectKey{Name: NodeOf(request)}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, errors.WithStack(err)
}
