// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"fmt"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Resolved is whether requests can be created from a template.
type Resolved struct {
	Reference Reference
	// Problem is why not; nil if they can.
	Problem *explain.TemplateProblem
	// Err is why that is not known; nil if it is. After a *NotKnownError, the check is reconciled when it is known.
	Err error
	// Again is when to call Resolve again; zero if a watch triggers that.
	Again time.Time
}

// Usable reports whether a request can be created.
func (r *Resolved) Usable() bool { return r.Problem == nil && r.Err == nil }

// The permissions for templates and for requests.
var (
	requestVerbs = []string{"get", "list", "watch", "create", "patch", "delete"}
	readVerbs    = requestVerbs[:3]
)

// Resolve finds out from which templates of a check requests can be created, and reconciles the check when that changes. It asks the API
// server about a kind the first time, and again after a problem.
func (r *Requests) Resolve(ctx context.Context, c Check, plurals string, references ...Reference) []Resolved {
	if r.watches() {
		r.setTemplates(c, references)
	}
	naming := Naming(references)
	all := make([]Resolved, len(references))
	for i, reference := range references {
		one := &all[i]
		one.Reference = reference
		r.resolve(ctx, one, plurals)
		if one.Problem != nil {
			one.Problem.Template = naming.Text(reference)
		}
	}
	return all
}

func (r *Requests) resolve(ctx context.Context, one *Resolved, plurals string) {
	if r.namespace != "" && one.Reference.Namespace != r.namespace {
		one.setProblem(remedyv1.TemplateInvalidReason, time.Time{}, "the manager monitors only namespace %s: create the template there, or change the flag --namespace of the manager", r.namespace)
		return
	}
	template, request := r.kind(kindKey{one.Reference.TemplateKind(), true}), r.kind(kindKey{one.Reference.RequestKind(), false})
	templates, requests, ok := r.resolveKinds(ctx, one, template, request, plurals)
	ofTemplates, ofRequests := readVerbs, requestVerbs
	if r.readOnly {
		ofRequests = readVerbs
	}
	if !r.watches() {
		// A template is read by its name.
		ofTemplates = readVerbs[:1]
	}
	if !ok || !r.resolvePermissions(ctx, one, templates, ofTemplates) || !r.resolvePermissions(ctx, one, requests, ofRequests) {
		return
	}
	if !r.watches() {
		found, err := r.template(ctx, one.Reference)
		switch {
		case err != nil:
			one.Err = err
		case found == nil:
			one.setTemplate(nil)
		default:
			one.setTemplate(readTemplate(found))
		}
		if one.Problem != nil {
			one.Again = r.clock.Now().Add(missingFor)
		}
		return
	}
	for _, k := range []*kind{template, request} {
		if refused, until := k.refusedFor(r.clock.Now()); refused != "" {
			one.setProblem(remedyv1.ForbiddenReason, until, "%s: %s", k.Kind, refused)
			return
		}
	}
	r.startWatch(template, templates)
	r.startWatch(request, requests)
	if _, kept := template.stores(); kept != nil {
		if found, known := kept.get(client.ObjectKey{Namespace: one.Reference.Namespace, Name: one.Reference.Name}); known {
			one.setTemplate(found)
			return
		}
	}
	one.Err = &NotKnownError{Kinds: []schema.GroupVersionKind{template.GroupVersionKind}}
}

// resolveKinds reports whether both kinds are served as required.
func (r *Requests) resolveKinds(
	ctx context.Context, one *Resolved, template, request *kind, plurals string,
) (templates, requests facts, ok bool) {
	for _, k := range []*kind{template, request} {
		known, err := r.facts(ctx, k)
		switch {
		case err != nil:
			one.Err = err
			return templates, requests, false
		case !known.served, known.otherVersion:
			one.setProblem(remedyv1.KindNotServedReason, known.until,
				"%s is not served in %s: install the remediator, or correct the reference", k.Kind, k.GroupVersion())
			return templates, requests, false
		case !known.namespaced:
			one.setProblem(remedyv1.TemplateInvalidReason, known.until, "%s is not namespaced: use another kind of template", k.Kind)
			return templates, requests, false
		case k == template:
			templates = known
		default:
			requests = known
		}
	}
	if checked, served := Plural(plurals, request.Kind), requests.resource.Resource; checked != served {
		one.setProblem(remedyv1.WrongPluralReason, time.Time{}, "the plural of %s is %s, not %s: add %s=%s to the annotation %s of the check",
			request.Kind, served, checked, request.Kind, served, remedyv1.RequestPluralsAnnotation)
		return templates, requests, false
	}
	return templates, requests, true
}

// resolvePermissions reports whether the process has the permissions for a kind.
func (r *Requests) resolvePermissions(ctx context.Context, one *Resolved, known facts, verbs []string) bool {
	resource := known.resource.GroupResource()
	var missing []string
	where := one.Reference.Namespace
	for _, verb := range verbs {
		if verb == "watch" && !r.watches() {
			continue
		}
		namespace := one.Reference.Namespace
		if r.watches() && (verb == "list" || verb == "watch") {
			namespace = r.namespace
		}
		lacking, again, err := r.permissions.missing(ctx, resource, namespace, verb)
		if err != nil {
			one.Err = err
			return false
		}
		if len(lacking) > 0 {
			missing, one.Again = append(missing, verb), health.Earliest(one.Again, again)
			if namespace != one.Reference.Namespace {
				where = namespace
			}
		}
	}
	switch {
	case len(missing) == 0:
		return true
	case r.readOnly:
		one.Again = time.Time{}
		return false
	}
	one.setProblem(remedyv1.ForbiddenReason, one.Again, "%s", notAllowed(missing, resource, where))
	if r.watches() {
		one.Problem.ClusterRole = clusterRole(known.resource.Resource)
	} else {
		one.Problem.Detail += "; allow that to the user of the cluster's kubeconfig"
	}
	return false
}

// template reads a template live; nil if it does not exist.
func (r *Requests) template(ctx context.Context, reference Reference) (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(reference.TemplateKind())
	err := r.reader.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, template)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return template, errors.Wrapf(err, "failed to read %s %s/%s", reference.Kind, reference.Namespace, reference.Name)
}

func (r *Resolved) setTemplate(found *cachedTemplate) {
	switch {
	case found == nil:
		r.setProblem(remedyv1.TemplateNotFoundReason, time.Time{},
			"the template does not exist in namespace %s: create it, or correct the reference", r.Reference.Namespace)
	case found.problem != "":
		r.setProblem(remedyv1.TemplateInvalidReason, time.Time{}, "%s", found.problem)
	}
}

func (r *Resolved) setProblem(reason string, again time.Time, format string, args ...any) {
	r.Again = again
	r.Problem = &explain.TemplateProblem{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
