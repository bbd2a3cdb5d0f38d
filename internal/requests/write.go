// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// Create creates a request from its template, which is read live. It does not change an existing request: if that is the one that was to be
// created, because the answer to an earlier try was lost, created is false; otherwise the error is a *NameTakenError. For an invalid
// template the error is a *TemplateError. Rejections by admission are found by apierrors.IsInvalid and IsForbidden.
func (r *Requests) Create(ctx context.Context, d *Draft) (found *Request, created bool, err error) {
	template, err := r.template(ctx, d.Template)
	if err != nil {
		return nil, false, err
	}
	if template == nil {
		return nil, false, &TemplateError{Template: d.Template, Problem: "it does not exist"}
	}
	request, err := Build(template, d)
	if err != nil {
		return nil, false, &TemplateError{Template: d.Template, Problem: err.Error()}
	}
	kind, key := d.Template.RequestKind(), client.ObjectKeyFromObject(request)
	if s := r.storeOf(kind); s != nil {
		done := s.create()
		defer func() {
			if found == nil {
				done(nil, "")
			} else {
				done(found, found.UID)
			}
		}()
	}
	err = r.client.Create(ctx, request)
	if err == nil {
		return Read(request), true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, r.failed(err, "create", kind, key)
	}
	existing, err := r.GetLive(ctx, kind, key)
	switch {
	case err != nil:
		return nil, false, err
	case existing == nil:
		return nil, false, errors.Errorf("%s %s existed and was deleted: the manager creates it with the next attempt", kind.Kind, key)
	case existing.matches(d):
		return existing, false, nil
	}
	return nil, false, &NameTakenError{By: existing}
}

// matches reports whether it is the request that was to be created.
func (f *Request) matches(d *Draft) bool {
	return f.CreatedBy(d.Check, d.Check.LabelIn(d.Place, d.Cluster)) && f.IsFor(d.Target) && f.Order == d.Order && f.Template.Same(d.Template) && f.attempt == d.Attempt && !f.Deleting()
}

// StopRemediator annotates a request, also one that is being deleted, so that its remediator stops. One that has succeeded is only
// annotated if its Node no longer exists. If its remediator has meanwhile announced that it deletes the Node, that is a conflict: the next
// reconcile decides whether the request stays.
func (r *Requests) StopRemediator(ctx context.Context, f *Request, now time.Time, gone bool) error {
	announced := false
	err := r.annotate(ctx, f, maxTries, func(latest *Request) (string, any) {
		announced = gone && latest.status.nodeDeletion && !f.status.nodeDeletion
		if announced || latest.timedOut || latest.status.succeeded && !gone {
			return "", nil
		}
		// Remediators do not parse fractions of a second.
		return remedyv1.TimedOutAnnotation, now.UTC().Format(time.RFC3339)
	})
	if announced {
		return apierrors.NewConflict(r.resource(f.Kind), f.Name, errors.New("its remediator has announced that it deletes the Node"))
	}
	return err
}

// WriteRecovery records since when the target is healthy again; zero removes that. It fails after a conflict, because another process may
// have recorded that the target is unhealthy.
func (r *Requests) WriteRecovery(ctx context.Context, f *Request, since time.Time) error {
	return r.annotate(ctx, f, 1, func(latest *Request) (string, any) {
		switch {
		case latest.recovered.Equal(since.Truncate(notes.Precision)) && !since.IsZero(),
			latest.recovered.IsZero() && since.IsZero() && !latest.recoveryRecorded:
			return "", nil
		case since.IsZero():
			return remedyv1.HealthySinceAnnotation, nil
		}
		return remedyv1.HealthySinceAnnotation, notes.Text(since)
	})
}

// maxTries is how many times a write that does not depend on other writes is tried after a conflict.
const maxTries = 5

// annotate sets or removes an annotation of this request, and of no other request of its name. change is called with the present request
// before each try. With an empty key there is nothing to do.
func (r *Requests) annotate(ctx context.Context, f *Request, tries int, change func(*Request) (key string, value any)) error {
	latest := f
	var err error
	for range tries {
		key, value := change(latest)
		if key == "" {
			return nil
		}
		err = r.patch(ctx, latest, map[string]any{
			"uid": latest.UID, "resourceVersion": latest.ResourceVersion, "annotations": map[string]any{key: value},
		})
		if err == nil {
			return nil
		}
		// Another UID is a conflict, or an invalid change.
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
			break
		}
		now, readErr := r.GetLive(ctx, f.Kind, f.Key())
		switch {
		case readErr != nil:
			return readErr
		case now == nil || now.UID != f.UID:
			return &ReplacedError{Was: f}
		case !apierrors.IsConflict(err):
			return r.failed(err, "annotate", f.Kind, f.Key())
		}
		latest = now
	}
	return r.failed(err, "annotate", f.Kind, f.Key())
}

// Delete deletes this request, and no other request of its name. It succeeds if the request does not exist. Finalizers stay.
func (r *Requests) Delete(ctx context.Context, f *Request) error {
	err := r.client.Delete(ctx, f.object(), client.Preconditions{UID: &f.UID})
	switch {
	case err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil
	case apierrors.IsConflict(err):
		now, readErr := r.GetLive(ctx, f.Kind, f.Key())
		if readErr != nil {
			return readErr
		}
		if now == nil || now.UID != f.UID {
			return nil
		}
	}
	return r.failed(err, "delete", f.Kind, f.Key())
}

// object identifies it for a write.
func (f *Request) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(f.Kind)
	object.SetNamespace(f.Namespace)
	object.SetName(f.Name)
	return object
}

// failed wraps an error, with a hint if the manager lacks a permission in its own cluster. In another cluster the label in the hint has no
// effect.
func (r *Requests) failed(err error, verb string, kind schema.GroupVersionKind, key client.ObjectKey) error {
	hint := ""
	if apierrors.IsForbidden(err) {
		resource := r.resource(kind)
		r.permissions.drop(resource)
		if r.watches() {
			hint = fmt.Sprintf(" (if the manager lacks a permission, %s)", howToAllow(resource))
		}
	}
	return errors.Wrapf(withoutValues(err), "failed to %s %s %s%s", verb, kind.Kind, key, hint)
}

// resource is the resource of a kind in roles.
func (r *Requests) resource(gvk schema.GroupVersionKind) schema.GroupResource {
	k := r.kind(kindKey{gvk, false})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.facts.served {
		return k.facts.resource.GroupResource()
	}
	return schema.GroupResource{Group: gvk.Group, Resource: Plural("", gvk.Kind)}
}

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
