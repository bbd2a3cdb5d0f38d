// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"fmt"
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

// Create makes a request from its template as that is now. It never changes one that is there: if that is the one that was to be made, as the
// answer to an earlier try was lost, all is well, and created is false; otherwise the error is a *NameTakenError. A template that does not do any
// more is a *TemplateError; what admission has against the request is found by apierrors.IsInvalid and IsForbidden.
func (r *Requests) Create(ctx context.Context, d *Draft) (found *Found, created bool, err error) {
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
	made := r.await(kind)
	defer func() { made(found) }()
	err = r.client.Create(ctx, request)
	if err == nil {
		return Read(request), true, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, false, r.failed(err, "create", kind, key)
	}
	there, err := r.Live(ctx, kind, key)
	switch {
	case err != nil:
		return nil, false, err
	case there == nil:
		return nil, false, errors.Errorf("%s %s was there, and has gone: it is created at the next try", kind.Kind, key)
	case there.is(d):
		return there, false, nil
	}
	return nil, false, &NameTakenError{By: there}
}

// await lets what is made be seen at once where its kind is followed.
func (r *Requests) await(kind schema.GroupVersionKind) func(*Found) {
	r.mu.Lock()
	k := r.kinds[use{kind, false}]
	r.mu.Unlock()
	if k != nil {
		if s, _ := k.shelves(); s != nil {
			return s.await()
		}
	}
	return func(*Found) {}
}

// is says whether it is what was to be made.
func (f *Found) is(d *Draft) bool {
	return f.Of(d.Check) && f.For(d.Target) && f.Order == d.Order && f.Template.Same(d.Template) && f.attempt == d.Attempt && !f.Deleting()
}

// TellToStop tells the remediator to stop, also where the deletion was asked for already. One that has succeeded is not told.
func (r *Requests) TellToStop(ctx context.Context, f *Found, now time.Time) error {
	return r.annotate(ctx, f, often, func(seen *Found) (string, any) {
		if seen.timedOut || seen.said.succeeded {
			return "", nil
		}
		// Remediators know no fractions of a second.
		return remedyv1.TimedOutAnnotation, now.UTC().Format(time.RFC3339)
	})
}

// NoteRecovery notes since when the target has been healthy again; zero takes that away. It is noted on what was seen, or not at all: somebody may
// have noted a relapse meanwhile.
func (r *Requests) NoteRecovery(ctx context.Context, f *Found, since time.Time) error {
	return r.annotate(ctx, f, 1, func(seen *Found) (string, any) {
		switch {
		case seen.recovered.Equal(since.Truncate(notes.Precision)) && !since.IsZero(), seen.recovered.IsZero() && since.IsZero() && !seen.noted:
			return "", nil
		case since.IsZero():
			return remedyv1.HealthySinceAnnotation, nil
		}
		return remedyv1.HealthySinceAnnotation, notes.Text(since)
	})
}

// often is how many times a write that is right whatever others have written is tried when they write at the same time.
const often = 5

// annotate sets or removes what change says of the request as it is: of this one, and of none that bears its name by now. An empty key is nothing.
// It is tried so many times, each time on the request as it is by then.
func (r *Requests) annotate(ctx context.Context, f *Found, tries int, change func(*Found) (key string, value any)) error {
	seen := f
	var err error
	for range tries {
		key, value := change(seen)
		if key == "" {
			return nil
		}
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": seen.UID, "resourceVersion": seen.ResourceVersion, "annotations": map[string]any{key: value},
		}}); err != nil {
			return errors.WithStack(err)
		}
		err = r.client.Patch(ctx, seen.object(), client.RawPatch(types.MergePatchType, patch))
		if err == nil {
			return nil
		}
		// A UID that is another one is a conflict, or a change that is not valid.
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) && !apierrors.IsNotFound(err) {
			break
		}
		now, lookErr := r.Live(ctx, f.Kind, f.Key())
		switch {
		case lookErr != nil:
			return lookErr
		case now == nil || now.UID != f.UID:
			return &ReplacedError{Was: f}
		case !apierrors.IsConflict(err):
			return r.failed(err, "annotate", f.Kind, f.Key())
		}
		seen = now
	}
	return r.failed(err, "annotate", f.Kind, f.Key())
}

// Delete asks for the deletion of this request, and of none that bears its name by now. It is well if it is gone. Finalizers of others stay.
func (r *Requests) Delete(ctx context.Context, f *Found) error {
	err := r.client.Delete(ctx, f.object(), client.Preconditions{UID: &f.UID})
	switch {
	case err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil
	case apierrors.IsConflict(err):
		now, lookErr := r.Live(ctx, f.Kind, f.Key())
		if lookErr != nil {
			return lookErr
		}
		if now == nil || now.UID != f.UID {
			return nil
		}
	}
	return r.failed(err, "delete", f.Kind, f.Key())
}

// object is what a write needs of it.
func (f *Found) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(f.Kind)
	object.SetNamespace(f.Namespace)
	object.SetName(f.Name)
	return object
}

// failed wraps an error, with a hint if the manager lacks a permission in its own cluster. Elsewhere the label that the hint names has no
// effect.
func (r *Requests) failed(err error, verb string, kind schema.GroupVersionKind, key client.ObjectKey) error {
	hint := ""
	if apierrors.IsForbidden(err) {
		resource := r.resource(kind)
		r.rights.drop(resource)
		if r.follows() {
			hint = fmt.Sprintf(" (if it is a right that is missing, %s)", mend(resource))
		}
	}
	return errors.Wrapf(err, "failed to %s %s %s%s", verb, kind.Kind, key, hint)
}

// resource is what the kind is called in roles.
func (r *Requests) resource(gvk schema.GroupVersionKind) schema.GroupResource {
	k := r.kind(use{gvk, false})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.facts.served {
		return k.facts.resource.GroupResource()
	}
	return schema.GroupResource{Group: gvk.Group, Resource: Plural("", gvk.Kind)}
}
