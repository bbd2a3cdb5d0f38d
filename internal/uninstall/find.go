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
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// found is an object that carries something of ours.
type found struct {
	listed
	metav1.ObjectMeta
	ours
	// kept are annotations that stay. Where goes is not nil, nothing else goes.
	kept, goes []string
}

// pageSize is how many objects are asked for at once: a fleet has hundreds of thousands.
const pageSize = 500

// find goes through every object of a cluster, in a namespace or in all. It reads nothing but metadata. What cannot be read is named: nobody knows
// what is there.
func find(ctx context.Context, discoverer discovery.DiscoveryInterface, api metadata.Interface, namespace string) (all []found, unread []unseen, err error) {
	resources, unread, err := listable(discoverer, namespace != "")
	if err != nil {
		return nil, nil, err
	}
	seen := map[types.UID]bool{}
	for _, r := range resources {
		err := each(ctx, api.Resource(r.resource).Namespace(namespace), func(meta *metav1.ObjectMeta) {
			// Some kinds are served by two groups.
			if o := in(meta); !o.empty() && !seen[meta.UID] {
				seen[meta.UID] = true
				all = append(all, found{listed: r, ObjectMeta: *meta, ours: o})
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		// A kind may go while we look.
		case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		case err != nil:
			unread = append(unread, unseen{what: r.resource.GroupResource().String(), why: err, kind: &r})
		}
	}
	return all, unread, nil
}

func each(ctx context.Context, api metadata.ResourceInterface, visit func(*metav1.ObjectMeta)) error {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (list runtime.Object, err error) { return api.List(ctx, options) }))
	pages.PageSize = pageSize
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		visit(&o.(*metav1.PartialObjectMetadata).ObjectMeta)
		return nil
	})
}

// unseen is what could not be read, and why: a kind, or a whole group, of which nobody knows which kinds it has.
type unseen struct {
	what string
	why  error
	kind *listed
}

func (u *unseen) String() string { return u.what + ": " + u.why.Error() }

// denied says whether somebody is not allowed to see a kind on which a check of Cluster API leaves nothing: it leaves something on Machines and on requests.
func (u *unseen) denied() bool {
	return u.kind != nil && apierrors.IsForbidden(u.why) && u.kind.resource.GroupResource() != machines && !u.kind.ofRequests()
}

var machines = clusterv1.GroupVersion.WithResource("machines").GroupResource()

// listed is a kind of objects that can be listed and changed.
type listed struct {
	resource schema.GroupVersionResource
	kind     string
	// templated: there is a kind of templates for it.
	templated bool
}

// ofRequests says whether there may be requests of a kind: it is one that templates are served for. Those of Kubernetes itself, such as Pods, have none of
// the form that requests are made from, and neither have those of Cluster API's core.
func (k *listed) ofRequests() bool {
	group := k.resource.Group
	return k.templated && !scheme.Scheme.IsGroupRegistered(group) && group != clusterv1.GroupVersion.Group
}

// changeable says whether objects of a kind can be changed. Those whose definition is on its way out can, but are said not to: a finalizer of ours may be
// what holds it up.
func changeable(verbs []string) bool {
	return slices.Contains(verbs, "patch") || slices.Contains(verbs, "delete")
}

// listable are all kinds, in the version that their group prefers. A group whose API server does not answer is named, and keeps nobody from the others.
func listable(discoverer discovery.DiscoveryInterface, namespaced bool) (all []listed, unread []unseen, err error) {
	lists, err := discoverer.ServerPreferredResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &failed):
		for group, why := range failed.Groups {
			unread = append(unread, unseen{what: group.String(), why: why})
		}
		slices.SortFunc(unread, func(a, b unseen) int { return strings.Compare(a.what, b.what) })
	case err != nil:
		return nil, nil, errors.Wrap(err, "failed to ask which kinds of objects there are")
	}
	served := map[schema.GroupKind]bool{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, errors.WithStack(err)
		}
		for i := range list.APIResources {
			served[schema.GroupKind{Group: group.Group, Kind: list.APIResources[i].Kind}] = true
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if slices.Contains(r.Verbs, "list") && changeable(r.Verbs) && (r.Namespaced || !namespaced) {
				all = append(all, listed{resource: group.WithResource(r.Name), kind: r.Kind})
			}
		}
	}
	for i := range all {
		all[i].templated = served[schema.GroupKind{Group: all[i].resource.Group, Kind: all[i].kind + clusterv1.TemplateSuffix}]
	}
	return all, unread, nil
}
