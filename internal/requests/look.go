// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"context"
	"slices"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// Of are all requests that were made for a check, by name: those of these kinds, and of others that are known. They are shared and must not be
// changed. A kind that is not served in the version that is named is looked at in another one, in which its requests are then changed, too. An error is a *NotKnownError where there may be more of these kinds than are known; what is known comes with it.
//
// It never waits for a kind to be read.
func (r *Requests) Of(ctx context.Context, c Check, kinds ...schema.GroupVersionKind) ([]*Found, error) {
	if !r.follows() {
		return r.listOf(ctx, c, kinds)
	}
	r.asksForRequests(c, kinds)
	found, doubtful := r.under(c)
	var unknown *NotKnownError
	for _, gvk := range append(doubtful, kinds...) {
		k := r.kind(use{gvk, false})
		if k.ready() || unknown.covers(gvk) {
			continue
		}
		if unknown == nil {
			unknown = &NotKnownError{Trouble: map[schema.GroupVersionKind]string{}}
		}
		if why := r.begin(ctx, k); why != "" {
			unknown.Trouble[gvk] = why
		} else {
			unknown.Kinds = append(unknown.Kinds, gvk)
		}
	}
	if unknown != nil {
		return found, unknown
	}
	return found, nil
}

// NotServed is the trouble with a kind that is not installed in any version, so that there cannot be any requests of it.
const NotServed = "it is not served"

// begin begins to follow a kind, or says why not.
func (r *Requests) begin(ctx context.Context, k *kind) string {
	known, err := r.facts(ctx, k)
	switch {
	case err != nil:
		return notFollowed(ctx, k, err)
	case !known.served:
		return NotServed
	}
	missing, _, err := r.rights.lacking(ctx, known.resource.GroupResource(), r.namespace, "list", "watch")
	switch {
	case err != nil:
		return notFollowed(ctx, k, err)
	case len(missing) > 0:
		return lack(missing, known.resource.GroupResource(), r.namespace) + ": " + mend(known.resource.GroupResource())
	}
	if refused, _ := k.refusal(r.clock.Now()); refused != "" {
		return refused
	}
	r.follow(k, known)
	return ""
}

// notFollowed is what is said of a kind about which something could not be found out. Why not is for the log.
func notFollowed(ctx context.Context, k *kind, err error) string {
	log.FromContext(ctx).V(4).Info("A kind of requests cannot be followed", "kind", k.GroupKind().String(), "reason", err.Error())
	return Shown(err)
}

// under are the requests of all kinds that are known under an index, by name, and the kinds of which there may be more.
func (r *Requests) under(i any) (all []*Found, doubtful []schema.GroupVersionKind) {
	r.mu.Lock()
	for _, k := range r.kinds {
		s, _ := k.shelves()
		if s == nil {
			continue
		}
		before := len(all)
		if all = s.under(i, all); len(all) > before && !s.ready() {
			doubtful = append(doubtful, k.GroupVersionKind)
		}
	}
	r.mu.Unlock()
	return sorted(all), doubtful
}

// sorted is by name, each once: a kind may be followed in two versions.
func sorted(all []*Found) []*Found {
	slices.SortFunc(all, func(a, b *Found) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind.Version, b.Kind.Version))
	})
	return slices.CompactFunc(all, func(a, b *Found) bool { return a.UID == b.UID })
}

// About are all requests that are known to be for a target, whosever they are: those of other checks are in the way of ours.
func (r *Requests) About(t Target) []*Found {
	if t.Object().UID == "" {
		return nil
	}
	all, _ := r.under(t.Object().UID)
	return slices.DeleteFunc(all, func(f *Found) bool { return !f.For(t) })
}

// Named is the request of this kind and name, whosever it is, as far as it is known; nil if there is none. False if that is not known.
func (r *Requests) Named(kind schema.GroupVersionKind, key client.ObjectKey) (*Found, bool) {
	r.mu.Lock()
	k := r.kinds[use{kind, false}]
	r.mu.Unlock()
	if k == nil {
		return nil, false
	}
	s, _ := k.shelves()
	if s == nil {
		return nil, false
	}
	return s.get(key)
}

// Known says whether it was known at one time which requests of a kind there are. Those that were made since are known, too, also if the kind cannot be
// followed any more: of those that are known, some may have gone.
func (r *Requests) Known(kind schema.GroupVersionKind) bool {
	r.mu.Lock()
	k := r.kinds[use{kind, false}]
	r.mu.Unlock()
	if k == nil {
		return false
	}
	s, _ := k.shelves()
	return s != nil && s.known()
}

// Live is the request of this kind and name, whosever it is, read past every cache; nil if there is none.
func (r *Requests) Live(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*Found, error) {
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(kind)
	err := r.reader.Get(ctx, key, request)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, r.failed(err, "read", kind, key)
	}
	return Read(request), nil
}

// LiveOf are the requests of these kinds that were made for a check, read past every cache. Kinds have to be followed here.
func (r *Requests) LiveOf(ctx context.Context, c Check, kinds ...schema.GroupVersionKind) ([]*Found, error) {
	if !r.follows() {
		return nil, errors.New("kinds are not followed here")
	}
	var all []*Found
	var failed []error
	for _, gvk := range kinds {
		known, err := r.discover(ctx, use{gvk, false}, schema.GroupVersionResource{})
		if err != nil {
			failed = append(failed, errors.Wrapf(err, "failed to find out whether %s is served", gvk))
			continue
		}
		if !known.served {
			continue
		}
		list, err := r.dynamic.Resource(known.resource).Namespace(cmp.Or(c.Namespace, r.namespace)).List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = append(failed, errors.Wrapf(err, "failed to list %s", known.resource))
			continue
		}
		for i := range list.Items {
			if f := Read(&list.Items[i]); f.Of(c) {
				all = append(all, f)
			}
		}
	}
	return sorted(all), utilerrors.NewAggregate(failed)
}

// listOf reads the requests of a check now, by their label.
func (r *Requests) listOf(ctx context.Context, c Check, kinds []schema.GroupVersionKind) ([]*Found, error) {
	var all []*Found
	unknown := &NotKnownError{Trouble: map[schema.GroupVersionKind]string{}}
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.reader.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{remedyv1.CheckLabel: c.Label(r.cluster)})
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			unknown.Trouble[gvk] = NotServed
		case err != nil:
			unknown.Trouble[gvk] = Shown(unanswered(err, "which of them there are"))
		}
		for i := range list.Items {
			if f := Read(&list.Items[i]); f.Of(c) {
				all = append(all, f)
			}
		}
	}
	if len(unknown.Trouble) > 0 {
		return sorted(all), unknown
	}
	return sorted(all), nil
}
