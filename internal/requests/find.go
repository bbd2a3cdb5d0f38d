// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// OfCheck returns the requests of a check by name, of these kinds and of other kinds that are watched. They are shared and must not be changed.
// A kind that is not served in this version is read and written in another one. If there may be more requests, the error is a
// *NotKnownError, and the known requests are returned with it. It does not wait for a list.
func (r *Requests) OfCheck(ctx context.Context, c Check, kinds ...schema.GroupVersionKind) ([]*Request, error) {
	if !r.watches() {
		return r.listOf(ctx, c, kinds)
	}
	r.setKinds(c, kinds)
	found, doubtful := r.indexed(c)
	found = slices.DeleteFunc(found, func(f *Request) bool { return !f.CreatedBy(c, "") })
	all := append(doubtful, kinds...)
	var unknown *NotKnownError
	for n, gvk := range all {
		k := r.kind(kindKey{gvk, false})
		if k.ready() || slices.Contains(all[:n], gvk) {
			continue
		}
		if unknown == nil {
			unknown = &NotKnownError{Problems: map[schema.GroupVersionKind]string{}}
			// An annotation can name many kinds, and each of them would wait for an API server that does not answer.
			inTime, done := context.WithTimeout(ctx, 2*r.timeout)
			defer done()
			ctx = inTime
		}
		why := NotServed
		if !r.staysMissing(c, k) {
			why = r.watchKind(ctx, k)
		}
		if why != "" {
			unknown.Problems[gvk] = why
		} else {
			unknown.Kinds = append(unknown.Kinds, gvk)
		}
	}
	if unknown != nil {
		return found, unknown
	}
	return found, nil
}

// NotServed is the problem of a kind that is not served in any version. There cannot be any requests of it.
const NotServed = "kind is not served"

// watchKind starts to watch a kind, or returns why it cannot.
func (r *Requests) watchKind(ctx context.Context, k *kind) string {
	known, err := r.facts(ctx, k)
	switch {
	case err != nil:
		return notWatched(ctx, k, err)
	case !known.served:
		return NotServed
	}
	missing, _, err := r.permissions.missing(ctx, known.resource.GroupResource(), r.namespace, "list", "watch")
	switch {
	case err != nil:
		return notWatched(ctx, k, err)
	case len(missing) > 0 && r.readOnly:
		return NotServed
	case len(missing) > 0:
		return notAllowed(missing, known.resource.GroupResource(), r.namespace) + ": " + howToAllow(known.resource.GroupResource())
	}
	if refused, _ := k.refusedFor(r.clock.Now()); refused != "" {
		return refused
	}
	if why := r.coversAll(ctx, k, known); why != "" {
		return why
	}
	r.startWatch(k, known)
	return ""
}

// staysMissing reports whether a kind was not served a while ago, and no template of the check names it. No remediation waits for a kind
// that only an annotation names, so it is not asked for again soon.
func (r *Requests) staysMissing(c Check, k *kind) bool {
	r.mu.Lock()
	named := r.interestOf(c).names(k.GroupVersionKind)
	r.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	return !named && !k.facts.served && !k.facts.until.IsZero() && r.clock.Now().Before(k.facts.until.Add(grantedFor))
}

// coversAll returns why a kind that no check names as a template is not watched: the permissions of the manager cover all kinds of its
// group, also those that are not for requests. The annotation of a check can name any of them.
func (r *Requests) coversAll(ctx context.Context, k *kind, known facts) string {
	if len(r.interested(k.kindKey, func(_ Check, i *interest) bool { return i.names(k.GroupVersionKind) })) > 0 {
		return ""
	}
	every := schema.GroupResource{Group: known.resource.Group, Resource: "*"}
	missing, _, err := r.permissions.missing(ctx, every, r.namespace, "list")
	switch {
	case err != nil:
		return notWatched(ctx, k, err)
	case len(missing) > 0:
		return ""
	}
	return "the manager is allowed to list every resource of " + known.resource.Group + ": name the resources of requests in the ClusterRole instead"
}

// notWatched is the message about a kind without an answer of the API server. The cause is logged.
func notWatched(ctx context.Context, k *kind, err error) string {
	log.FromContext(ctx).V(4).Info("Failed to watch a kind of requests", "kind", k.GroupKind().String(), "reason", err.Error())
	return Shown(err)
}

// indexed are the requests of an index by name, and the kinds that may have more.
func (r *Requests) indexed(i any) (all []*Request, doubtful []schema.GroupVersionKind) {
	r.mu.Lock()
	for _, k := range r.kinds {
		s, _ := k.stores()
		if s == nil {
			continue
		}
		before := len(all)
		if all = s.indexed(i, all); len(all) > before && !s.ready() {
			doubtful = append(doubtful, k.GroupVersionKind)
		}
	}
	r.mu.Unlock()
	return sorted(all), doubtful
}

// sorted sorts requests by name and removes duplicates: a kind may be watched in two versions.
func sorted(all []*Request) []*Request {
	slices.SortFunc(all, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind.Kind, b.Kind.Kind),
			cmp.Compare(a.Kind.Group, b.Kind.Group), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind.Version, b.Kind.Version))
	})
	return slices.CompactFunc(all, func(a, b *Request) bool { return a.UID == b.UID })
}

// ForTarget are the known requests for a target, of any check.
func (r *Requests) ForTarget(t Target) []*Request {
	var all []*Request
	for _, identity := range t.Identities() {
		found, _ := r.indexed(identity)
		all = append(all, found...)
	}
	return slices.DeleteFunc(sorted(all), func(f *Request) bool { return !f.IsFor(t) })
}

// storeOf is the store of a kind of requests; nil if it is not watched.
func (r *Requests) storeOf(kind schema.GroupVersionKind) *store[*Request] {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[kindKey{kind, false}]
	if k == nil {
		return nil
	}
	s, _ := k.stores()
	return s
}

// Get is the request of this kind and name, of any check; nil if there is none. False if that is not known.
func (r *Requests) Get(kind schema.GroupVersionKind, key client.ObjectKey) (*Request, bool) {
	if s := r.storeOf(kind); s != nil {
		return s.get(key)
	}
	return nil, false
}

// WasListed reports whether a kind was ever listed. Requests that were created since are known, too, but some may no longer exist.
func (r *Requests) WasListed(kind schema.GroupVersionKind) bool {
	s := r.storeOf(kind)
	return s != nil && s.listed()
}

// GetLive reads the request of this kind and name, of any check, live; nil if there is none.
func (r *Requests) GetLive(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) (*Request, error) {
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

// ListLive lists the requests of a check of these kinds live.
func (r *Requests) ListLive(ctx context.Context, c Check, kinds ...schema.GroupVersionKind) ([]*Request, error) {
	if !r.watches() {
		found, err := r.listOf(ctx, c, kinds)
		var unknown *NotKnownError
		if errors.As(err, &unknown) {
			// A kind that is not served has no requests.
			maps.DeleteFunc(unknown.Problems, func(_ schema.GroupVersionKind, why string) bool { return why == NotServed })
			if len(unknown.Problems) == 0 {
				err = nil
			}
		}
		return found, err
	}
	var all []*Request
	var failed []error
	for _, gvk := range kinds {
		known, err := r.discover(ctx, kindKey{gvk, false}, schema.GroupVersionResource{})
		if err != nil {
			failed = append(failed, errors.Wrapf(err, "failed to check whether %s is served", gvk))
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
			if f := Read(&list.Items[i]); f.CreatedBy(c, "") {
				all = append(all, f)
			}
		}
	}
	return sorted(all), utilerrors.NewAggregate(failed)
}

// ListKind lists the requests of a kind live, of any check; none if the kind is not served.
func (r *Requests) ListKind(ctx context.Context, gvk schema.GroupVersionKind, namespace string) ([]*Request, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := r.reader.List(ctx, list, client.InNamespace(cmp.Or(namespace, r.namespace))); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return nil, err
	}
	all := make([]*Request, len(list.Items))
	for i := range list.Items {
		all[i] = Read(&list.Items[i])
	}
	return all, nil
}

// listOf lists the requests of a check live by their label.
func (r *Requests) listOf(ctx context.Context, c Check, kinds []schema.GroupVersionKind) ([]*Request, error) {
	var all []*Request
	unknown := &NotKnownError{Problems: map[schema.GroupVersionKind]string{}}
	for _, gvk := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.reader.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{remedyv1.CheckLabel: c.Label(r.cluster)})
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			unknown.Problems[gvk] = NotServed
		case err != nil:
			unknown.Problems[gvk] = Shown(unanswered(err, "which requests exist"))
		}
		for i := range list.Items {
			// A workload cluster can return anything. The status of a check could not be written with a name that is none.
			name := list.Items[i].GetName()
			if f := Read(&list.Items[i]); f.CreatedBy(c, c.Label(r.cluster)) && len(validation.IsDNS1123Subdomain(name)) == 0 {
				all = append(all, f)
			}
		}
	}
	if len(unknown.Problems) > 0 {
		return sorted(all), unknown
	}
	return sorted(all), nil
}
