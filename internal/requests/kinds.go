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
// changed while we did not run may have requests of a kind that it does not name any more. This asks the API server a lot: once after a start.
// Where there is an error, too, there may be more kinds than these.
func (r *Requests) Kinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	if !r.follows() {
		return nil, errors.New("kinds are not followed here")
	}
	ours, err := r.groupsOfOurs(ctx)
	if err != nil {
		return nil, err
	}
	groups := &metav1.APIGroupList{}
	if err := r.discovery.Get().AbsPath("/apis").Do(ctx).Into(groups); err != nil {
		return nil, errors.Wrap(err, "failed to find out which kinds are served")
	}
	var all []schema.GroupVersionKind
	var failed []error
	for i := range groups.Groups {
		group := &groups.Groups[i]
		if !ours[group.Name] && !ours["*"] {
			continue
		}
		// A kind need not be served in the version that is preferred of its group.
		for _, version := range group.Versions {
			kinds, err := r.kindsIn(ctx, version.GroupVersion)
			for _, gvk := range kinds {
				if !slices.ContainsFunc(all, func(known schema.GroupVersionKind) bool { return known.GroupKind() == gvk.GroupKind() }) {
					all = append(all, gvk)
				}
			}
			if err != nil {
				failed = append(failed, err)
			}
		}
	}
	return all, utilerrors.NewAggregate(failed)
}

// groupsOfOurs are the groups in which we may delete something; "*" are all. An API that nobody gave us rights to can be out of order for as long
// as it likes: we have made nothing in it.
func (r *Requests) groupsOfOurs(ctx context.Context) (map[string]bool, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: r.namespace}}
	if r.namespace == "" {
		// Rights in all namespaces are rights in each.
		review.Spec.Namespace = metav1.NamespaceDefault
	}
	if err := r.client.Create(ctx, review); err != nil {
		return nil, errors.Wrap(err, "failed to ask for our rights")
	}
	groups := map[string]bool{}
	for _, rule := range review.Status.ResourceRules {
		if !slices.Contains(rule.Verbs, "delete") && !slices.Contains(rule.Verbs, "*") {
			continue
		}
		for _, group := range rule.APIGroups {
			groups[group] = true
		}
	}
	return groups, nil
}

// kindsIn are the kinds of requests in a version of a group.
func (r *Requests) kindsIn(ctx context.Context, version string) ([]schema.GroupVersionKind, error) {
	group, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	list := &metav1.APIResourceList{}
	if err := r.discovery.Get().AbsPath("/apis", version).Do(ctx).Into(list); err != nil {
		// A group may have gone since it was named.
		return nil, errors.Wrapf(ignoreNotFound(err), "failed to find out which kinds are served in %s", version)
	}
	var all []schema.GroupVersionKind
	for i := range list.APIResources {
		resource := &list.APIResources[i]
		if !resource.Namespaced || !hasTemplate(list, resource.Kind) {
			continue
		}
		missing, _, err := r.rights.lacking(ctx, schema.GroupResource{Group: group.Group, Resource: resource.Name}, r.namespace, "list", "watch", "delete")
		if err != nil {
			return all, err
		}
		if len(missing) == 0 {
			all = append(all, group.WithKind(resource.Kind))
		}
	}
	return all, nil
}

func hasTemplate(list *metav1.APIResourceList, kind string) bool {
	return slices.ContainsFunc(list.APIResources, func(other metav1.APIResource) bool { return other.Kind == kind+clusterv1.TemplateSuffix })
}
