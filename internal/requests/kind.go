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

	// asking has one place, for whoever finds out about the kind: others wait for the answer.
	asking chan struct{}

	mu    sync.Mutex
	facts facts
	// failure is why nothing could be found out about the kind. It is not tried again until then.
	failure      error
	failureUntil time.Time
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
		k = &kind{use: u, asking: make(chan struct{}, 1)}
		r.kinds[u] = k
	}
	return k
}

// facts finds out whether a kind is served. The answer that it is holds until we are told otherwise, where the kind is followed. It takes no longer than
// that takes at most; that nobody answers is believed for a short while, too, so that not everybody has to wait for it.
func (r *Requests) facts(ctx context.Context, k *kind) (facts, error) {
	if known, found, err := r.recall(k); found {
		return known, err
	}
	inTime, done := context.WithTimeout(ctx, r.patience)
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
	found, err := r.discover(inTime, k.use, k.lostAs(r.clock.Now()))
	err = unanswered(err, "whether %s is served", k.GroupVersionKind)
	if err != nil && ctx.Err() != nil {
		// Whoever has asked has gone. That is no answer.
		return facts{}, err
	}
	if k.learn(&found, err, r.clock.Now()) {
		r.audience.wake(r.askers(k.use, nil)...)
	}
	return found, err
}

// recall is what was found out about a kind, as long as it is believed.
func (r *Requests) recall(k *kind) (known facts, found bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := r.clock.Now()
	if k.failure != nil && now.Before(k.failureUntil) {
		return facts{}, true, k.failure
	}
	known = k.facts
	return known, !known.until.IsZero() && (known.served && !known.otherVersion && r.follows() || now.Before(known.until)), nil
}

// learn notes what was found out about a kind. It says whether nothing could be found out before: others have been told so.
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

// lostAs is what the kind was followed as until just now.
func (k *kind) lostAs(now time.Time) schema.GroupVersionResource {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.refusedUntil) {
		return schema.GroupVersionResource{}
	}
	return k.lost
}

// discover asks the API server for a kind, and for one of requests in all versions. What is lost it knows by name only.
func (r *Requests) discover(ctx context.Context, u use, lost schema.GroupVersionResource) (facts, error) {
	gvk := u.GroupVersionKind
	if !r.follows() {
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

// mapped asks the mapper of the client, which cannot be told for how long. So it is not waited for any longer, and nobody else asks it until it answers.
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
