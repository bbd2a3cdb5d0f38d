// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
)

// Resolved is whether requests can be made from a template.
type Resolved struct {
	Reference Reference
	// Trouble is what is in the way; nil if nothing is.
	Trouble *explain.TemplateTrouble
	// Err is why it is not known yet; nil if it is. A *NotKnownError needs no other try: whoever asked is woken when it is known.
	Err error
	// Again is when it is worth asking again, as nobody is woken then; zero if there is no need to.
	Again time.Time
	// Multiple: its remediator accepts several requests of this kind for one Node.
	Multiple bool
}

// Usable says whether a request can be made.
func (r *Resolved) Usable() bool { return r.Trouble == nil && r.Err == nil }

// The rights that are needed, of templates and of requests.
var (
	templateVerbs = []string{"get", "list", "watch"}
	requestVerbs  = []string{"get", "list", "watch", "create", "patch", "delete"}
)

// Resolve finds out from which of the templates that a check names requests can be made. The check names no others: it is woken when that changes.
// It asks the API server about a kind when that is named for the first time, or again after trouble; otherwise it knows.
func (r *Requests) Resolve(ctx context.Context, c Check, plurals string, references ...Reference) []Resolved {
	if r.follows() {
		r.asksForTemplates(c, references)
	}
	naming := NewNaming(references...)
	all := make([]Resolved, len(references))
	for i, reference := range references {
		one := &all[i]
		one.Reference = reference
		r.resolve(ctx, one, plurals)
		if one.Trouble != nil {
			one.Trouble.Template = naming.Text(reference)
		}
	}
	return all
}

func (r *Requests) resolve(ctx context.Context, one *Resolved, plurals string) {
	if r.namespace != "" && one.Reference.Namespace != r.namespace {
		one.trouble(remedyv1.TemplateInvalidReason, time.Time{}, "this manager looks after namespace %s only", r.namespace)
		return
	}
	template, request := r.kind(use{one.Reference.TemplateKind(), true}), r.kind(use{one.Reference.RequestKind(), false})
	templates, requests, ok := r.resolveKinds(ctx, one, template, request, plurals)
	if !ok || !r.resolveRights(ctx, one, templates, templateVerbs) || !r.resolveRights(ctx, one, requests, requestVerbs) {
		return
	}
	if !r.follows() {
		r.look(ctx, one)
		return
	}
	for _, k := range []*kind{template, request} {
		if refused, until := k.refusal(r.clock.Now()); refused != "" {
			one.trouble(remedyv1.ForbiddenReason, until, "%s: %s", k.Kind, refused)
			return
		}
	}
	r.follow(template, templates)
	r.follow(request, requests)
	_, shelf := template.shelves()
	if shelf == nil {
		one.Err = &NotKnownError{Kinds: []schema.GroupVersionKind{template.GroupVersionKind}}
		return
	}
	found, known := shelf.get(client.ObjectKey{Namespace: one.Reference.Namespace, Name: one.Reference.Name})
	if !known {
		one.Err = &NotKnownError{Kinds: []schema.GroupVersionKind{template.GroupVersionKind}}
		return
	}
	one.see(found)
}

// resolveKinds says whether both kinds are served, and as they have to be.
func (r *Requests) resolveKinds(ctx context.Context, one *Resolved, template, request *kind, plurals string) (templates, requests facts, ok bool) {
	for _, k := range []*kind{template, request} {
		known, err := r.facts(ctx, k)
		switch {
		case err != nil:
			one.Err = err
			return templates, requests, false
		case !known.served, known.otherVersion:
			one.trouble(remedyv1.KindNotServedReason, known.until, "%s is not served in %s: install the remediator, or correct the reference", k.Kind, k.GroupVersion())
			return templates, requests, false
		case !known.namespaced:
			one.trouble(remedyv1.TemplateInvalidReason, known.until, "%s is not namespaced", k.Kind)
			return templates, requests, false
		case k == template:
			templates = known
		default:
			requests = known
		}
	}
	if checked, served := Plural(plurals, request.Kind), requests.resource.Resource; checked != served {
		one.trouble(remedyv1.WrongPluralReason, time.Time{}, "the plural of %s is %s and not %s: put %s=%s into the annotation %s of the check",
			request.Kind, served, checked, request.Kind, served, remedyv1.RequestPluralsAnnotation)
		return templates, requests, false
	}
	return templates, requests, true
}

// resolveRights says whether we have these rights to a kind.
func (r *Requests) resolveRights(ctx context.Context, one *Resolved, known facts, verbs []string) bool {
	resource := known.resource.GroupResource()
	var missing []string
	var where string
	for _, verb := range verbs {
		namespace := one.Reference.Namespace
		if verb == "list" || verb == "watch" {
			namespace = r.namespace
		}
		if !r.follows() {
			namespace = one.Reference.Namespace
		}
		lacking, again, err := r.rights.lacking(ctx, resource, namespace, verb)
		if err != nil {
			one.Err = err
			return false
		}
		if len(lacking) > 0 {
			missing, where, one.Again = append(missing, verb), namespace, earlier(one.Again, again)
		}
	}
	if len(missing) == 0 {
		return true
	}
	if slices.ContainsFunc(missing, func(verb string) bool { return verb == "list" || verb == "watch" }) && r.follows() {
		where = r.namespace
	}
	one.trouble(remedyv1.ForbiddenReason, one.Again, "%s", lack(missing, resource, where))
	one.Trouble.ClusterRole = clusterRole(known.resource.Resource)
	return false
}

// look reads the template now.
func (r *Requests) look(ctx context.Context, one *Resolved) {
	template, err := r.template(ctx, one.Reference)
	switch {
	case err != nil:
		one.Err = err
	case template == nil:
		one.see(nil)
	default:
		one.see(readTemplate(template))
	}
}

// template reads a template past every cache; nil if it does not exist.
func (r *Requests) template(ctx context.Context, reference Reference) (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(reference.TemplateKind())
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, template)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return template, errors.Wrapf(err, "failed to read %s %s/%s", reference.Kind, reference.Namespace, reference.Name)
}

func (r *Resolved) see(found *foundTemplate) {
	switch {
	case found == nil:
		r.trouble(remedyv1.TemplateNotFoundReason, time.Time{}, "there is none in namespace %s: create it, or correct the reference", r.Reference.Namespace)
	case found.problem != "":
		r.trouble(remedyv1.TemplateInvalidReason, time.Time{}, "%s", found.problem)
	default:
		r.Multiple = found.multiple
	}
}

func (r *Resolved) trouble(reason string, again time.Time, format string, args ...any) {
	r.Again = again
	r.Trouble = &explain.TemplateTrouble{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
