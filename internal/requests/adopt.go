// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Adoptable reports whether the in-tree controller has created the request for this Machine from this template, and no check has adopted
// it.
func (f *Request) Adoptable(machine Object, template Reference) bool {
	return !f.HasAnnotations && machine.UID != "" && f.Name == machine.Name && slices.Equal(f.Machines, []types.UID{machine.UID}) &&
		len(f.Owners) == 1 && template.Name != "" && f.Template.Same(template)
}

// Adopt annotates a request, if it is unchanged, as if the check had created it.
func (r *Requests) Adopt(ctx context.Context, f *Request, check Check, order int32) error {
	err := r.patch(ctx, f, map[string]any{"uid": f.UID, "resourceVersion": f.ResourceVersion, "annotations": map[string]string{
		remedyv1.CheckAnnotation: check.String(), remedyv1.StepAnnotation: strconv.Itoa(int(order)),
		remedyv1.AttemptAnnotation: "1", remedyv1.StartedAnnotation: notes.Text(f.started),
	}})
	return r.failed(err, "adopt", f.Kind, f.Key())
}

// Release removes the annotations of the check from a request, so that the in-tree controller continues with it. A request whose
// remediator had to stop is withdrawn instead, because nothing would continue with it.
func (r *Requests) Release(ctx context.Context, f *Request) error {
	if f.timedOut {
		return r.Withdraw(ctx, f)
	}
	return r.strip(ctx, f, map[string]any{"uid": f.UID, "resourceVersion": f.ResourceVersion})
}

// Withdraw deletes a request and removes the annotations of the check, because a finalizer of the remediator may keep the request.
func (r *Requests) Withdraw(ctx context.Context, f *Request) error {
	if err := r.Delete(ctx, f); err != nil {
		return err
	}
	return r.strip(ctx, f, map[string]any{"uid": f.UID})
}

// strip removes the annotations of the check from a request.
func (r *Requests) strip(ctx context.Context, f *Request, metadata map[string]any) error {
	off := map[string]any{}
	for _, key := range []string{
		remedyv1.CheckAnnotation, remedyv1.StepAnnotation, remedyv1.AttemptAnnotation, remedyv1.StartedAnnotation, remedyv1.NodeUIDAnnotation,
		remedyv1.HealthySinceAnnotation,
	} {
		off[key] = nil
	}
	metadata["annotations"] = off
	return r.failed(client.IgnoreNotFound(r.patch(ctx, f, metadata)), "release", f.Kind, f.Key())
}

// patch merges metadata into a request.
func (r *Requests) patch(ctx context.Context, f *Request, metadata map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return errors.WithStack(err)
	}
	return r.client.Patch(ctx, f.object(), client.RawPatch(types.MergePatchType, patch))
}
