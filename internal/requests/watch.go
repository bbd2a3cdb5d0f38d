// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// The backoff of a watch that has ended.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// listInterval is how often everything is listed again. If an API server loses an event, the watch continues after it, and no other event
// shows the change of an object that does not change any more.
const listInterval = 10 * time.Minute

// startWatch starts to watch a kind. It does not wait for the list.
func (r *Requests) startWatch(k *kind, known facts) {
	k.mu.Lock()
	defer k.mu.Unlock()
	refused := r.clock.Now().Before(k.refusedUntil) && (k.refused != "" || known.resource == k.lost)
	// A watch outlives the reconcile that starts it.
	all := wait.ContextForChannel(r.ended)
	if k.cancel != nil || refused || all.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(all)
	k.cancel = cancel
	filled := func() { r.listeners.wake(r.interested(k.kindKey, nil)...) }
	switch {
	case k.template && k.templates == nil:
		k.templates = newStore(readTemplate, func(before, after *cachedTemplate) { r.templateChanged(k, before, after) }, filled)
	case !k.template && k.requests == nil:
		k.requests = newStore(Read, func(before, after *Request) { r.requestChanged(k, before, after) }, filled)
	}
	var target toolscache.ReflectorStore = k.requests
	if k.template {
		target = k.templates
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
	reflector := toolscache.NewReflectorWithOptions(toolscache.ToListWatcherWithWatchListSemantics(lists, r.dynamic), expected, target,
		toolscache.ReflectorOptions{Name: "remediation requests", TypeDescription: k.String()})
	r.running.Go(func() {
		if err := r.watch(ctx, reflector); err != nil {
			r.stopWatch(ctx, k, known, err)
		}
	})
}

// watch lists and watches until the context ends, or until the kind is not served or not allowed.
func (r *Requests) watch(ctx context.Context, reflector *toolscache.Reflector) error {
	pause := firstPause
	for ctx.Err() == nil {
		began := r.clock.Now()
		old, err := r.listAndWatch(ctx, reflector)
		switch {
		case ctx.Err() != nil || old:
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

// listAndWatch returns when the watch ends, and when it is old.
func (r *Requests) listAndWatch(ctx context.Context, reflector *toolscache.Reflector) (old bool, err error) {
	watching, end := context.WithCancel(ctx)
	defer end()
	timer := r.clock.NewTimer(listInterval)
	defer timer.Stop()
	go func() {
		select {
		case <-timer.C():
			end()
		case <-watching.Done():
		}
	}()
	err = reflector.ListAndWatchWithContext(watching)
	return watching.Err() != nil, err
}

// stopWatch is called when a kind can no longer be watched. If it is not served, its objects no longer exist, unless it is served in
// another version. If it is not allowed, they still exist.
func (r *Requests) stopWatch(ctx context.Context, k *kind, known facts, err error) {
	r.permissions.drop(known.resource.GroupResource())
	k.mu.Lock()
	if ctx.Err() != nil {
		// No check needs the kind.
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
		k.refused = "the API server rejects list or watch requests of the manager"
		if k.requests != nil {
			k.requests.stop()
		}
		if k.templates != nil {
			k.templates.stop()
		}
	}
	k.mu.Unlock()
	r.listeners.wake(r.interested(k.kindKey, nil)...)
}

// requestChanged triggers the check of a request. A request that is created or deleted may conflict with those of other checks.
func (r *Requests) requestChanged(k *kind, before, after *Request) {
	if before != nil && after != nil && before.equals(after) {
		return
	}
	var wake []Check
	for _, f := range []*Request{before, after} {
		if f != nil && f.Check != (Check{}) && !slices.Contains(wake, f.Check) {
			wake = append(wake, f.Check)
		}
	}
	if before == nil || after == nil || before.UID != after.UID || before.Check != after.Check || !before.sameTarget(after) {
		namespace := cmp.Or(after, before).Namespace
		wake = append(wake, r.interested(k.kindKey, func(c Check, _ *interest) bool {
			return !slices.Contains(wake, c) && (c.Namespace == "" || c.Namespace == namespace)
		})...)
	}
	r.listeners.wake(wake...)
}

// equals reports whether the relevant part of a request is the same.
func (f *Request) equals(other *Request) bool {
	return f.UID == other.UID && f.Check == other.Check && f.checkLabel == other.checkLabel && f.sameTarget(other) &&
		f.Order == other.Order && f.Template == other.Template && f.attempt == other.attempt && f.started.Equal(other.started) &&
		f.deleting.Equal(other.deleting) && f.recovered.Equal(other.recovered) && f.timedOut == other.timedOut && f.status == other.status
}

func (f *Request) sameTarget(other *Request) bool {
	return f.Node == other.Node && slices.Equal(f.Machines, other.Machines)
}

// templateChanged triggers the checks with a template that was created or deleted, or became valid or invalid.
func (r *Requests) templateChanged(k *kind, before, after *cachedTemplate) {
	if before != nil && after != nil && before.problem == after.problem {
		return
	}
	key := cmp.Or(after, before).key
	r.listeners.wake(r.interested(k.kindKey, func(_ Check, i *interest) bool {
		return slices.ContainsFunc(i.templates, func(t Reference) bool {
			return t.TemplateKind() == k.GroupVersionKind && t.Namespace == key.Namespace && t.Name == key.Name
		})
	})...)
}

// Source triggers reconciles of the checks of a kind: when the relevant part of one of their requests changes; when a request is created or
// deleted that may conflict with one of them; when a template that they name is created, deleted, or becomes valid or invalid; and when
// their requests have been read for the first time, or can no longer be read.
func (r *Requests) Source(kind string) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.listeners.add(func(c Check) {
			if c.Kind == kind {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: c.Namespace, Name: c.Name}})
			}
		})
		return nil
	})
}

// Wake triggers reconciles of checks for a caller that has noticed a change.
func (r *Requests) Wake(checks ...Check) { r.listeners.wake(checks...) }

// listeners are the sources.
type listeners struct {
	mu  sync.Mutex
	all []func(Check)
}

// add adds a listener until the manager ends.
func (l *listeners) add(listener func(Check)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, listener)
}

// wake calls the listeners without the lock.
func (l *listeners) wake(checks ...Check) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, listener := range all {
		for _, c := range checks {
			listener(c)
		}
	}
}
