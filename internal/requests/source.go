// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

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
