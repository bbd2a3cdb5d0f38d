// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Kinds are all kinds of which we may have made requests: served beside a kind of templates, and we may list and delete them. A check that was
// changed while we did not run may have requests of a kind that it does not name any more. This asks the API server a lot: after a start, and now and
// then, as rights that we had may come back. Where there is an error, there may be more kinds than these.
func (r *Requests) Kinds(ctx context.Context) (all []schema.GroupVersionKind, err error) {
	if !r.follows() {
		return nil, errors.New("kinds are not followed here")
	}
	ours, complete, err := r.groupsOfOurs(ctx)
	if err != nil {
		return nil, err
	}
	groups := &metav1.APIGroupList{}
	if err := r.discovery.Get().AbsPath("/apis").Do(ctx).Into(groups); err != nil {
		return nil, unanswered(err, "which kinds are served")
	}
	var failed []error
	for i := range groups.Groups {
		group := &groups.Groups[i]
		certain := ours[group.Name] || ours["*"]
		if !certain && complete {
			continue
		}
		kinds, err := r.kindsIn(ctx, group)
		all = append(all, kinds...)
		if err != nil && certain {
			failed = append(failed, err)
		}
	}
	return all, utilerrors.NewAggregate(failed)
}

// groupsOfOurs are the groups in which we may delete something; "*" are all. An API that nobody gave us rights to can be out of order for as long
// as it likes: we have made nothing in it. Some of those who decide about rights do not list them: then there may be more.
func (r *Requests) groupsOfOurs(ctx context.Context) (groups map[string]bool, complete bool, err error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: r.namespace}}
	if r.namespace == "" {
		// Rights in all namespaces are rights in each.
		review.Spec.Namespace = metav1.NamespaceDefault
	}
	if err := r.client.Create(ctx, review); err != nil {
		return nil, false, unanswered(err, "which rights the manager has")
	}
	groups = map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		if !slices.Contains(rule.Verbs, "delete") && !slices.Contains(rule.Verbs, "*") {
			continue
		}
		for _, group := range rule.APIGroups {
			groups[group] = true
		}
	}
	return groups, !review.Status.Incomplete, nil
}

// kindsIn are the kinds of requests of a group, each in one version: it need not be the one that is preferred of the group, nor that of its templates.
func (r *Requests) kindsIn(ctx context.Context, group *metav1.APIGroup) (all []schema.GroupVersionKind, err error) {
	var failed []error
	served := make([]metav1.APIResource, 0, len(group.Versions))
	for _, version := range group.Versions {
		list := &metav1.APIResourceList{}
		// A version may have gone since it was named.
		if err := r.discovery.Get().AbsPath("/apis", version.GroupVersion).Do(ctx).Into(list); ignoreNotFound(err) != nil {
			failed = append(failed, unanswered(err, "which kinds are served in %s", version.GroupVersion))
		}
		for _, resource := range list.APIResources {
			resource.Group, resource.Version = group.Name, version.Version
			served = append(served, resource)
		}
	}
	asked := map[string]bool{}
	for i := range served {
		resource := &served[i]
		// What is below a resource, such as its status, has the same kind.
		if asked[resource.Kind] || !resource.Namespaced || !slices.Contains(resource.Verbs, "list") || !hasTemplate(served, resource.Kind) {
			continue
		}
		asked[resource.Kind] = true
		missing, _, err := r.rights.lacking(ctx, schema.GroupResource{Group: resource.Group, Resource: resource.Name}, r.namespace, "list", "watch", "delete")
		switch {
		case err != nil:
			failed = append(failed, err)
		case len(missing) == 0:
			all = append(all, schema.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: resource.Kind})
		}
	}
	return all, utilerrors.NewAggregate(failed)
}

func hasTemplate(served []metav1.APIResource, kind string) bool {
	return slices.ContainsFunc(served, func(other metav1.APIResource) bool { return other.Kind == kind+clusterv1.TemplateSuffix })
}
