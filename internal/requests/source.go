// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source wakes the controller of this kind of check: when one of its requests changes in anything that is read of it; when a request comes or goes
// that may be in its way; when a template that it names comes, goes, or can be used or not used any more; and when it is known for the first time
// which requests there are, or not known any more.
func (r *Requests) Source(kind string) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.audience.join(ctx, func(c Check) {
			if c.Kind == kind {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: c.Namespace, Name: c.Name}})
			}
		})
		return nil
	})
}

// Wake wakes checks for which there is news that whoever asks on their behalf has found out.
func (r *Requests) Wake(checks ...Check) { r.audience.wake(checks...) }

// audience are all who want to know.
type audience struct {
	mu sync.Mutex
	// seats are replaced, never changed: those who tell hold no lock.
	seats []*func(Check)
}

// join listens until the context ends.
func (a *audience) join(ctx context.Context, listener func(Check)) {
	seat := &listener
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seats = append(slices.Clone(a.seats), seat)
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seats = slices.DeleteFunc(slices.Clone(a.seats), func(s *func(Check)) bool { return s == seat })
	})
}

func (a *audience) wake(checks ...Check) {
	a.mu.Lock()
	seats := a.seats
	a.mu.Unlock()
	for _, seat := range seats {
		for _, c := range checks {
			(*seat)(c)
		}
	}
}
