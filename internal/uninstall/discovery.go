// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// apiResource is a kind whose objects can be listed and changed.
type apiResource struct {
	resource schema.GroupVersionResource
	kind     string
	// hasTemplate is true if the group serves a kind of templates for it.
	hasTemplate bool
}

func (r *apiResource) is(group, kind string) bool { return r.kind == kind && r.resource.Group == group }

// ofRequests returns true if the objects can be remediation requests: templates are served for the kind. The templates of Kubernetes, such
// as PodTemplates, and those of Cluster API's core are not for requests.
func (r *apiResource) ofRequests() bool {
	group := r.resource.Group
	return r.hasTemplate && !scheme.Scheme.IsGroupRegistered(group) && group != clusterv1.GroupVersion.Group
}

// unread is a kind, or a whole API group, that could not be listed.
type unread struct {
	name string
	err  error
	kind *apiResource
}

// harmless returns true if the caller lacks the permission to list a kind on which no MachineHealthCheck leaves traces: neither Machines
// nor requests.
func (u *unread) harmless() bool {
	return u.kind != nil && apierrors.IsForbidden(u.err) && !u.kind.is(clusterv1.GroupVersion.Group, "Machine") && !u.kind.ofRequests()
}

// pageSize is the number of objects in one page of a list: a page of Pods in a workload cluster has to be within the limits of an answer.
// maxObjects is how many objects with traces a cluster can have: every Node can have a history, and Kubernetes supports 5,000 Nodes.
const pageSize, maxObjects = 100, 100_000

var errTooManyObjects = errors.Errorf("the API server returns more than %d objects with traces of Remedy", maxObjects)

// find lists the metadata of every object in a cluster, or in one namespace, and returns the objects with traces of Remedy.
func (c *Cluster) find(ctx context.Context, namespace string) (found []object, failed []unread, err error) {
	kinds, failed, err := c.listableKinds(namespace != "")
	if err != nil {
		return nil, nil, err
	}
	seen := map[types.UID]bool{}
	for _, kind := range kinds {
		list := func(options metav1.ListOptions) (runtime.Object, error) {
			return c.metadata.Resource(kind.resource).Namespace(namespace).List(ctx, options)
		}
		pages := pager.New(pager.SimplePageFunc(list))
		pages.PageSize = pageSize
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			o := newObject(kind, &item.(*metav1.PartialObjectMetadata).ObjectMeta)
			// Two groups can serve the same objects.
			if !o.empty() && !seen[o.UID] {
				if len(found) == maxObjects {
					return errTooManyObjects
				}
				seen[o.UID] = true
				found = append(found, o)
			}
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		// A kind can be deleted at any time.
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		case err != nil:
			failed = append(failed, unread{kind.resource.GroupResource().String(), err, &kind})
		}
	}
	return found, failed, nil
}

func newObject(kind apiResource, meta *metav1.ObjectMeta) object {
	o := object{apiResource: kind, ObjectMeta: *meta}
	if kind.resource.Group == remedyv1.GroupVersion.Group {
		// The users of a check of Remedy's own kinds have set it.
		o.kept = []string{remedyv1.RequestPluralsAnnotation}
	}
	if strings.HasSuffix(meta.Labels[clusterv1.ProviderNameLabel], "-remedy") {
		// It is part of a release, and no user has set the label.
		o.kept = append(o.kept, remedyv1.AggregateToManagerLabel)
	}
	o.traces = o.tracesIn(meta)
	return o
}

// listableKinds returns every kind in the preferred version of its group. An API group that does not answer does not stop the others.
func (c *Cluster) listableKinds(namespaced bool) (kinds []apiResource, failed []unread, err error) {
	lists, err := c.discovery.ServerPreferredResources()
	var groups *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &groups):
		for group, err := range groups.Groups {
			failed = append(failed, unread{name: group.String(), err: err})
		}
		slices.SortFunc(failed, func(a, b unread) int { return strings.Compare(a.name, b.name) })
	case err != nil:
		return nil, nil, errors.Wrap(err, "failed to discover the API resources")
	}
	served := map[schema.GroupKind]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, errors.WithStack(err)
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			served[version.WithKind(r.Kind).GroupKind()] = true
			// While a CRD is being deleted, its objects can be deleted and no longer be patched. A patch that removes a finalizer still works.
			changeable := slices.Contains(r.Verbs, "patch") || slices.Contains(r.Verbs, "delete")
			if slices.Contains(r.Verbs, "list") && changeable && (r.Namespaced || !namespaced) {
				kinds = append(kinds, apiResource{resource: version.WithResource(r.Name), kind: r.Kind})
			}
		}
	}
	for i := range kinds {
		kinds[i].hasTemplate = served[schema.GroupKind{Group: kinds[i].resource.Group, Kind: kinds[i].kind + clusterv1.TemplateSuffix}]
	}
	return kinds, failed, nil
}
