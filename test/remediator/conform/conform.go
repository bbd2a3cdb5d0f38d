// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conform verifies that a remediator keeps the contract: it creates requests as the manager does, and reads what the remediator
// makes of them. A remediator finds a Node by its name, or its Machine by the owner of the request, as Metal3's does. Start at
// Remediator.Verify.
package conform

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/requests"
)

// Remediator is the remediator to verify, which runs already.
type Remediator struct {
	// Client is for the cluster with the remediator.
	Client client.Client
	// Nodes is for the cluster with the Nodes; nil if that is the same.
	Nodes client.Client
	// Machine is the Machine of the Node, which owns the requests; zero for a remediator that finds Nodes.
	Machine client.ObjectKey
	// Template is the template of the requests.
	Template requests.Reference
	// Node is the name of a Node that is remediated several times.
	Node string
	// Break makes the Node unhealthy, and returns when it is; nil for a remediator that remediates also a healthy Node.
	Break func(context.Context) error
	// Wait is called before a wait. Before each read the returned function is called; it returns false when the time is over.
	Wait func(Time) func(context.Context) bool

	all *requests.Requests
	// second is what the remediator does after success; empty for nothing.
	second string
}

// Time is how long a wait is.
type Time uint8

const (
	// Timeout is the time for what a remediator has to do.
	Timeout Time = iota
	// Settle is the time in which it would do what it must not do.
	Settle
)

// Result is whether a point of the contract is kept.
type Result string

// The results.
const (
	Kept       Result = "kept"
	Broken     Result = "broken"
	NotChecked Result = "not checked"
)

// Finding is the result for one point, and what to do about it.
type Finding struct {
	Point  string
	Result Result
	Text   string
}

// point is one point of the contract. hint is what to do if it is broken.
type point struct {
	name, hint string
	verify     func(*Remediator, context.Context) (Result, string, error)
	// needsSuccess: it is not checked unless the remediator reports success.
	needsSuccess bool
	// findsNode: it is not checked for a remediator that finds Machines.
	findsNode bool
}

// The names of the points.
const (
	RolePoint       = "role"
	SuccessPoint    = "reports-success"
	OncePoint       = "acts-once"
	NamePoint       = "node-by-name"
	AnnotationPoint = "node-by-annotation"
	StopPoint       = "stops"
	FinalizerPoint  = "finalizer"
	NodeGonePoint   = "finalizer-without-node"
)

var points = []point{
	{name: RolePoint, verify: (*Remediator).role, hint: "ship a ClusterRole with the label, so that health checks can create requests"},
	{
		name: SuccessPoint, verify: (*Remediator).success,
		hint: "set the condition Succeeded to True when the remediation is complete",
	},
	{
		name: OncePoint, verify: (*Remediator).once, needsSuccess: true,
		hint: "do nothing with a request that has succeeded until it is deleted",
	},
	{
		name: NamePoint, verify: (*Remediator).byName, needsSuccess: true, findsNode: true,
		hint: "without the annotation remediation.medik8s.io/node-name, find the Node by the name of the request",
	},
	{
		name: AnnotationPoint, verify: (*Remediator).byAnnotation, needsSuccess: true, findsNode: true,
		hint: "find the Node by the annotation remediation.medik8s.io/node-name: a request can have another name than the Node",
	},
	{
		name: StopPoint, verify: (*Remediator).stops,
		hint: "with the annotation remediation.medik8s.io/nhc-timed-out, do not act, and set the condition Succeeded to False",
	},
	{name: FinalizerPoint, verify: (*Remediator).finalizer, hint: "remove the finalizer when the request is being deleted"},
	{
		name: NodeGonePoint, verify: (*Remediator).withoutNode, findsNode: true,
		hint: "remove the finalizer of a request with the annotation remediation.medik8s.io/nhc-timed-out also if the Node does not exist",
	},
}

// Verify verifies all points, and calls report after each. It remediates the Node up to four times.
func (r *Remediator) Verify(ctx context.Context, report func(Finding)) error {
	var err error
	if r.all, err = requests.New(ctx, requests.Options{Client: r.Client, Clock: clock.RealClock{}}); err != nil {
		return err
	}
	succeeds := false
	for _, p := range points {
		switch {
		case p.findsNode && r.Machine.Name != "":
			report(Finding{p.name, NotChecked, "the remediator finds the Machine that owns the request"})
			continue
		case p.needsSuccess && !succeeds:
			report(Finding{p.name, NotChecked, "needs " + SuccessPoint})
			continue
		}
		result, text, err := p.verify(r, ctx)
		if err != nil {
			return errors.Wrapf(err, "failed to verify %s", p.name)
		}
		if result == Broken {
			text += "; " + p.hint
		}
		succeeds = succeeds || p.name == SuccessPoint && result == Kept
		report(Finding{p.name, result, text})
	}
	return nil
}

// Waiting waits in real time.
func Waiting(timeout, settle, interval time.Duration) func(Time) func(context.Context) bool {
	return func(t Time) func(context.Context) bool {
		end := time.Now().Add(timeout)
		if t == Settle {
			end = time.Now().Add(settle)
		}
		return func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(interval):
				return time.Now().Before(end)
			}
		}
	}
}

// until reads a request until the condition holds or the time is over; nil is a request that does not exist.
func (r *Remediator) until(
	ctx context.Context, request *unstructured.Unstructured, t Time, holds func(*unstructured.Unstructured) bool,
) (bool, error) {
	for next := r.Wait(t); ; {
		more := next(ctx)
		now := request.DeepCopy()
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(request), now)
		if apierrors.IsNotFound(err) {
			now, err = nil, nil
		}
		if err != nil {
			return false, errors.WithStack(err)
		}
		if holds(now) {
			return true, nil
		}
		if !more {
			return false, errors.WithStack(ctx.Err())
		}
	}
}

// nodes is the client of the cluster with the Nodes.
func (r *Remediator) nodes() client.Client {
	if r.Nodes != nil {
		return r.Nodes
	}
	return r.Client
}

// node reads the Node; nil if it does not exist.
func (r *Remediator) node(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := r.nodes().Get(ctx, client.ObjectKey{Name: r.Node}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, errors.WithStack(err)
}
