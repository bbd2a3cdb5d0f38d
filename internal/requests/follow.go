// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// How long it takes until a watch that has ended is tried again.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// follow begins to follow a kind that is served and that we have the right to. It does not wait until it is read.
func (r *Requests) follow(k *kind, known facts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := r.clock.Now().Before(k.refusedUntil) && (k.refused != "" || known.resource == k.lost)
	if k.cancel != nil || refused || r.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	k.cancel = cancel
	full := func() { r.audience.wake(r.askers(k.use, nil)...) }
	switch {
	case k.template && k.templates == nil:
		k.templates = newShelf(readTemplate, func(before, after *foundTemplate) { r.templateChanged(k, before, after) }, full)
	case !k.template && k.requests == nil:
		k.requests = newShelf(Read, func(before, after *Found) { r.requestChanged(k, before, after) }, full)
	}
	var store toolscache.ReflectorStore = k.requests
	if k.template {
		store = k.templates
	}
	resource := r.dynamic.Resource(known.resource).Namespace(r.namespace)
	lists := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}
	expected := &unstructured.Unstructured{}
	expected.SetGroupVersionKind(known.resource.GroupVersion().WithKind(k.Kind))
	reflector := toolscache.NewReflectorWithOptions(toolscache.ToListWatcherWithWatchListSemantics(lists, r.dynamic), expected, store,
		toolscache.ReflectorOptions{Name: "remediation requests", TypeDescription: k.String()})
	r.running.Go(func() {
		if err := r.keepFollowing(ctx, reflector); err != nil {
			r.lose(ctx, k, known, err)
		}
	})
}

// keepFollowing reads and watches until the context ends, or until the kind or the right to it is gone: what nobody serves is not asked for any more.
func (r *Requests) keepFollowing(ctx context.Context, reflector *toolscache.Reflector) error {
	pause := firstPause
	for ctx.Err() == nil {
		began := r.clock.Now()
		err := reflector.ListAndWatchWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return err
		case err == nil && r.clock.Since(began) > longestPause:
			pause = firstPause
		}
		timer := r.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		pause = min(2*pause, longestPause)
	}
	return nil
}

// lose notes that a kind cannot be followed any more, and tells those who have asked about it. What was known of a kind that is served no more is
// gone with it, unless it is found in another version. Where it is the right that is missing, there still are requests.
func (r *Requests) lose(ctx context.Context, k *kind, known facts, err error) {
	r.rights.drop(known.resource.GroupResource())
	k.mu.Lock()
	if ctx.Err() != nil {
		// Nobody asks about it any more.
		k.mu.Unlock()
		return
	}
	k.cancel()
	k.cancel = nil
	k.refusedUntil = r.clock.Now().Add(missingFor)
	switch {
	case !apierrors.IsForbidden(err):
		k.refused, k.facts, k.lost = "", facts{}, known.resource
		k.requests, k.templates = nil, nil
	default:
		k.refused = "the API server does not let the manager list and watch it"
		if k.requests != nil {
			k.requests.doubt()
		}
		if k.templates != nil {
			k.templates.doubt()
		}
	}
	k.mu.Unlock()
	r.audience.wake(r.askers(k.use, nil)...)
}

// requestChanged wakes the check whose request has changed. One that comes or goes may be in the way of others.
func (r *Requests) requestChanged(k *kind, before, after *Found) {
	if before != nil && after != nil && before.tells(after) {
		return
	}
	var wake []Check
	for _, f := range []*Found{before, after} {
		if f != nil && f.Check != (Check{}) && !slices.Contains(wake, f.Check) {
			wake = append(wake, f.Check)
		}
	}
	if before == nil || after == nil || before.UID != after.UID || before.Check != after.Check || !before.sameTarget(after) {
		namespace := k.namespaceOf(before, after)
		wake = append(wake, r.askers(k.use, func(c Check, _ *interest) bool {
			return !slices.Contains(wake, c) && (c.Namespace == "" || c.Namespace == namespace)
		})...)
	}
	r.audience.wake(wake...)
}

func (k *kind) namespaceOf(before, after *Found) string {
	if after != nil {
		return after.Namespace
	}
	return before.Namespace
}

// tells says whether another look at a request tells the same.
func (f *Found) tells(other *Found) bool {
	return f.UID == other.UID && f.Check == other.Check && f.Order == other.Order && f.Template == other.Template && f.sameTarget(other) &&
		f.attempt == other.attempt && f.started.Equal(other.started) && f.deleting.Equal(other.deleting) && f.recovered.Equal(other.recovered) &&
		f.timedOut == other.timedOut && f.said == other.said
}

func (f *Found) sameTarget(other *Found) bool {
	return f.Node == other.Node && slices.Equal(f.Machines, other.Machines)
}

// templateChanged wakes the checks that name a template that comes, goes, or can be used or not used any more.
func (r *Requests) templateChanged(k *kind, before, after *foundTemplate) {
	there := after
	switch {
	case before != nil && after != nil && before.problem == after.problem && before.multiple == after.multiple:
		return
	case after == nil:
		there = before
	}
	r.audience.wake(r.askers(k.use, func(_ Check, i *interest) bool {
		return slices.ContainsFunc(i.templates, func(t Reference) bool {
			return t.TemplateKind() == k.GroupVersionKind && t.Namespace == there.key.Namespace && t.Name == there.key.Name
		})
	})...)
}
