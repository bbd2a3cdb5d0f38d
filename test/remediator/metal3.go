// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Metal3Finalizer is the finalizer of Metal3.
const Metal3Finalizer = "metal3remediation.infrastructure.cluster.x-k8s.io"

// metal3 goes through the phases: Running, Waiting, and, if the Machine does not get better, Deleting machine. It needs a Machine as an
// owner, and ignores the timed-out annotation.
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
		if err := r.work(ctx, NodeOf(request)); err != nil {
			return false, err
		}
		return true, r.say(ctx, request, "Waiting", "phase")
	case phase == "Waiting" && outcome == Fails:
		return true, r.say(ctx, request, "Deleting machine", "phase")
	}
	return false, nil
}
