// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kindKey is a kind of templates or of requests. A kind can be both.
type kindKey struct {
	schema.GroupVersionKind
	template bool
}

// kind is the state of a kind.
type kind struct {
	kindKey

	// asking has one place, for the goroutine that asks the API server. Others wait for it.
	asking chan struct{}

	mu    sync.Mutex
	facts facts
	// failure is why the API server has not answered. It is asked again after failureUntil.
	failure      error
	failureUntil time.Time
	// refused is why the kind cannot be watched. It is tried again after refusedUntil.
	refused      string
	refusedUntil time.Time
	// lost is the resource that was watched until the API server no longer served it. Discovery may contain it until refusedUntil.
	lost schema.GroupVersionResource
	// One of them is set while the kind is watched, or while the objects that were read may still exist.
	requests  *store[*Request]
	templates *store[*cachedTemplate]
	cancel    context.CancelFunc
}

// facts are the answer of the API server about a kind.
type facts struct {
	served, namespaced bool
	// otherVersion: it is not served in the version that the check has, and resource is of another version. A new version of a remediator may
	// no longer serve the old version of existing requests.
	otherVersion bool
	resource     schema.GroupVersionResource
	// until is when to ask again; zero before the first time.
	until time.Time
}

// kind is the state of a kind.
func (r *Requests) kind(u kindKey) *kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[u]
	if k == nil {
		k = &kind{kindKey: u, asking: make(chan struct{}, 1)}
		r.kinds[u] = k
	}
	return k
}

// facts finds out whether a kind is served. A positive answer is valid until the watch ends, where kinds are watched. A missing answer is
// valid for a short time, so that not every check waits for it.
func (r *Requests) facts(ctx context.Context, k *kind) (facts, error) {
	if known, found, err := r.recall(k); found {
		return known, err
	}
	inTime, done := context.WithTimeout(ctx, r.timeout)
	defer done()
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-inTime.Done():
		return facts{}, unanswered(inTime.Err(), "whether %s is served", k.GroupVersionKind)
	}
	if known, found, err := r.recall(k); found {
		return known, err
	}
	found, err := r.discover(inTime, k.kindKey, k.lostAs(r.clock.Now()))
	err = unanswered(err, "whether %s is served", k.GroupVersionKind)
	if err != nil && ctx.Err() != nil {
		// The caller was canceled. That is no answer.
		return facts{}, err
	}
	if k.learn(&found, err, r.clock.Now()) {
		r.listeners.wake(r.interested(k.kindKey, nil)...)
	}
	return found, err
}

// recall is the last answer, while it is valid.
func (r *Requests) recall(k *kind) (known facts, found bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := r.clock.Now()
	if k.failure != nil && now.Before(k.failureUntil) {
		return facts{}, true, k.failure
	}
	known = k.facts
	return known, !known.until.IsZero() && (known.served && !known.otherVersion && r.watches() || now.Before(known.until)), nil
}

// learn stores an answer, and reports whether the time before there was none.
func (k *kind) learn(found *facts, err error, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.failure, k.failureUntil = err, now.Add(failedFor)
		return false
	}
	found.until = now.Add(missingFor)
	if found.served && !found.otherVersion {
		found.until = now.Add(grantedFor)
	}
	again := k.failure != nil
	k.facts, k.failure = *found, nil
	return again
}

// lostAs is the resource that was watched until a short time ago.
func (k *kind) lostAs(now time.Time) schema.GroupVersionResource {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.refusedUntil) {
		return schema.GroupVersionResource{}
	}
	return k.lost
}

// discover asks the API server for a kind, and for a kind of requests in all versions. The lost resource is ignored.
func (r *Requests) discover(ctx context.Context, u kindKey, lost schema.GroupVersionResource) (facts, error) {
	gvk := u.GroupVersionKind
	if !r.watches() {
		return r.mapped(ctx, gvk)
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
		return facts{}, errors.WithStack(client.IgnoreNotFound(err))
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

// mapped asks the mapper of the client, which has no timeout. After the timeout, it is not asked again until it answers.
func (r *Requests) mapped(ctx context.Context, gvk schema.GroupVersionKind) (facts, error) {
	select {
	case r.mapping <- struct{}{}:
	case <-ctx.Done():
		return facts{}, errors.WithStack(ctx.Err())
	}
	type answer struct {
		mapping *meta.RESTMapping
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		mapping, err := r.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		<-r.mapping
		answers <- answer{mapping, err}
	}()
	select {
	case <-ctx.Done():
		return facts{}, errors.WithStack(ctx.Err())
	case a := <-answers:
		if meta.IsNoMatchError(a.err) {
			return facts{}, nil
		}
		if a.err != nil {
			return facts{}, errors.WithStack(a.err)
		}
		return facts{served: true, namespaced: a.mapping.Scope.Name() == meta.RESTScopeNameNamespace, resource: a.mapping.Resource}, nil
	}
}

// servedAs asks for a kind in this version, live, because caches still contain a kind that was removed.
func (r *Requests) servedAs(ctx context.Context, gvk schema.GroupVersionKind) (facts, error) {
	list := &metav1.APIResourceList{}
	err := r.discovery.Get().AbsPath("/apis", gvk.Group, gvk.Version).Do(ctx).Into(list)
	if client.IgnoreNotFound(err) != nil {
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

// refusedFor is why the kind cannot be watched, and until when.
func (k *kind) refusedFor(now time.Time) (string, time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.refusedUntil) {
		return k.refused, k.refusedUntil
	}
	return "", time.Time{}
}

// ready reports whether the kind was listed and is watched.
func (k *kind) ready() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests != nil && k.requests.ready() || k.templates != nil && k.templates.ready()
}

// stores are the objects of the kind; nil if it is not watched.
func (k *kind) stores() (*store[*Request], *store[*cachedTemplate]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.requests, k.templates
}

// hasRequestOf reports whether there is a request of one of these checks.
func (k *kind) hasRequestOf(checks map[Check]*interest) bool {
	found, _ := k.stores()
	if found == nil {
		return false
	}
	found.mu.RLock()
	defer found.mu.RUnlock()
	for i := range found.index {
		if c, is := i.(Check); is && checks[c] != nil {
			return true
		}
	}
	return false
}

// stop stops the watch of the kind.
func (k *kind) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
	k.cancel, k.requests, k.templates = nil, nil, nil
}
