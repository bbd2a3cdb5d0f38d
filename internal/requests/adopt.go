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

// Adoptable says whether it is what Cluster API's own controller made for this Machine from this template, and nobody has taken over yet.
func (f *Found) Adoptable(machine Object, template Reference) bool {
	return !f.Touched && machine.UID != "" && f.Name == machine.Name && slices.Equal(f.Machines, []types.UID{machine.UID}) && len(f.Owners) == 1 &&
		template.Name != "" && f.Template.Same(template)
}

// Adopt makes a request that is as it was seen that of a check, as if the check had made it when it was made.
func (r *Requests) Adopt(ctx context.Context, f *Found, check Check, order int32) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": f.UID, "resourceVersion": f.ResourceVersion, "annotations": map[string]string{
			remedyv1.CheckAnnotation: check.String(), remedyv1.StepAnnotation: strconv.Itoa(int(order)),
			remedyv1.AttemptAnnotation: "1", remedyv1.StartedAnnotation: notes.Text(f.started),
		},
	}})
	if err != nil {
		return errors.WithStack(err)
	}
	if err := r.client.Patch(ctx, f.object(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.failed(err, "adopt", f.Kind, f.Key())
	}
	return nil
}

// GiveBack takes off a request what we have noted on it, so that Cluster API's own controller goes on with it as with one of its own. One that was told
// to stop would be followed by nothing for ever: it is withdrawn, and a new one is made if there is still a need.
func (r *Requests) GiveBack(ctx context.Context, f *Found) error {
	if f.timedOut {
		return r.Withdraw(ctx, f)
	}
	return r.strip(ctx, f, map[string]any{"uid": f.UID, "resourceVersion": f.ResourceVersion})
}

// Withdraw deletes a request, and takes off what we have noted on it: a finalizer of its remediator may keep it for long.
func (r *Requests) Withdraw(ctx context.Context, f *Found) error {
	if err := r.Delete(ctx, f); err != nil {
		return err
	}
	return r.strip(ctx, f, map[string]any{"uid": f.UID})
}

// strip takes our notes off a request that is the one that was seen.
func (r *Requests) strip(ctx context.Context, f *Found, metadata map[string]any) error {
	off := map[string]any{}
	for _, key := range []string{
		remedyv1.CheckAnnotation, remedyv1.StepAnnotation, remedyv1.AttemptAnnotation, remedyv1.StartedAnnotation, remedyv1.NodeUIDAnnotation, remedyv1.HealthySinceAnnotation,
	} {
		off[key] = nil
	}
	metadata["annotations"] = off
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return errors.WithStack(err)
	}
	if err := r.client.Patch(ctx, f.object(), client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return r.failed(err, "give back", f.Kind, f.Key())
	}
	return nil
}
