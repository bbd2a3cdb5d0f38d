// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// use is a kind, and what it is to us. A kind can be both.
type use struct {
	schema.GroupVersionKind
	template bool
}

// kind is what is known of a kind, and what is kept of it.
type kind struct {
	use

	// asking is held while somebody finds out about the kind: others wait for the answer.
	asking sync.Mutex

	mu    sync.Mutex
	facts facts
	// refused is why the API server would not let us follow the kind. It is not tried again until then.
	refused      string
	refusedUntil time.Time
	// lost is what the kind was followed as until the API server did not know it any more. It may still say that it does, until then.
	lost schema.GroupVersionResource
	// Of these there is one, while the kind is followed or what was read of it may still be there.
	requests  *shelf[*Found]
	templates *shelf[*foundTemplate]
	cancel    context.CancelFunc
}

// facts are what the API server says of a kind.
type facts struct {
	served, namespaced bool
	// otherVersion: it is not served in the version that is named, and resource is of one in which it is. Remediators give up old versions while
	// there are requests of them, which are the same objects in the new one.
	otherVersion bool
	resource     schema.GroupVersionResource
	// until is when to ask again; zero if nobody has asked yet.
	until time.Time
}

// kind is the record of a kind, which is made when it is asked for first.
func (r *Requests) kind(u use) *kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[u]
	if k == nil {
		k = &kind{use: u}
		r.kinds[u] = k
	}
	return k
}

// facts finds out whether a kind is served. The answer that it is holds until we are told otherwise, where the kind is followed.
func (r *Requests) facts(ctx context.Context, k *kind) (facts, error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	k.mu.Lock()
	known, lost := k.facts, k.lost
	if !r.clock.Now().Before(k.refusedUntil) {
		lost = schema.GroupVersionResource{}
	}
	k.mu.Unlock()
	if !known.until.IsZero() && (known.served && !known.otherVersion && r.follows() || r.clock.Now().Before(known.until)) {
		return known, nil
	}
	found, err := r.discover(ctx, k.use, lost)
	if err != nil {
		return facts{}, errors.Wrapf(err, "failed to find out whether %s is served", k.GroupVersionKind)
	}
	found.until = r.clock.Now().Add(missingFor)
	if found.served && !found.otherVersion {
		found.until = r.clock.Now().Add(grantedFor)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.facts = found
	return found, nil
}

// discover asks the API server for a kind, and for one of requests in all versions. What is lost it knows by name only.
func (r *Requests) discover(ctx context.Context, u use, lost schema.GroupVersionResource) (facts, error) {
	gvk := u.GroupVersionKind
	if !r.follows() {
		mapping, err := r.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return facts{}, nil
		}
		if err != nil {
			return facts{}, errors.WithStack(err)
		}
		return facts{served: true, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace, resource: mapping.Resource}, nil
	}
	found, err := r.servedAs(ctx, gvk)
	if err != nil || found.served && found.resource != lost {
		return found, err
	}
	if u.template {
		return facts{}, nil
	}
	group := &metav1.APIGroup{}
	if err := r.discovery.Get().AbsPath("/apis", gvk.Group).Do(ctx).Into(group); err != nil {
		return facts{}, errors.WithStack(ignoreNotFound(err))
	}
	for _, version := range group.Versions {
		if version.Version == gvk.Version {
			continue
		}
		found, err := r.servedAs(ctx, gvk.GroupKind().WithVersion(version.Version))
		if err != nil || found.served && found.resource != lost {
			found.otherVersion = true
			return found, err
		}
	}
	return facts{}, nil
}

// servedAs asks for a kind in this very version, past every cache: a kind that was removed is still in there.
func (r *Requests) servedAs(ctx context.Context, gvk schema.GroupVersionKind) (facts, error) {
	list := &metav1.APIResourceList{}
	err := r.discovery.Get().AbsPath("/apis", gvk.Group, gvk.Version).Do(ctx).Into(list)
	if ignoreNotFound(err) != nil {
		return facts{}, errors.WithStack(err)
	}
	for i := range list.APIResources {
		resource := &list.APIResources[i]
		if resource.Kind == gvk.Kind && slices.Contains(resource.Verbs, "list") {
			return facts{served: true, namespaced: resource.Namespaced, resource: gvk.GroupVersion().WithResource(resource.Name)}, nil
		}
	}
	return facts{}, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// refusal is why the kind cannot be followed for now, and until when.
func (k *kind) refusal(now time.Time) (string, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.refusedUntil) {
		return k.refused, k.refusedUntil
	}
	return "", time.Time{}
}

// ready says whether everything of the kind is known.
func (k *kind) ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests != nil && k.requests.ready() || k.templates != nil && k.templates.ready()
}

// shelves are what is kept of the kind; nil if it is not followed.
func (k *kind) shelves() (*shelf[*Found], *shelf[*foundTemplate]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests, k.templates
}

// holds says whether there is a request of such a check.
func (k *kind) holds(which func(Check) bool) bool {
	found, _ := k.shelves()
	return found != nil && slices.ContainsFunc(found.checks(), which)
}

// stop ends following the kind.
func (k *kind) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
	k.cancel, k.requests, k.templates = nil, nil, nil
}
