// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NodeMapper returns what to reconcile because of a change. It blocks other notifications, so it must only read caches.
type NodeMapper func(ctx context.Context, change NodeChange) []reconcile.Request

// ConnectionMapper returns what to reconcile because a connection went up or down, a failed read can be retried, or the cache of a new
// connection has synced. It blocks other notifications, so it must only read caches.
type ConnectionMapper func(ctx context.Context, cluster client.ObjectKey) []reconcile.Request

// NodeSource enqueues requests when a Node changes in a field that Strip keeps, in any cluster that was read before. A heartbeat
// changes none.
func (c *Clusters) NodeSource(mapper NodeMapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.nodeListeners.add(func(change NodeChange) { add(queue, mapper(ctx, change)) })
		return nil
	})
}

// ConnectionSource enqueues requests when the state of a connection changes.
func (c *Clusters) ConnectionSource(mapper ConnectionMapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.connectionListeners.add(func(key client.ObjectKey) { add(queue, mapper(ctx, key)) })
		return nil
	})
}

func add(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) {
	for _, request := range requests {
		queue.Add(request)
	}
}

// listeners receive notifications.
type listeners[T any] struct {
	mu  sync.Mutex
	all []func(T)
}

// add adds a listener until the manager ends. A controller adds one when it starts, and reconciles everything then.
func (l *listeners[T]) add(listener func(T)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, listener)
}

// notify calls the listeners without the lock, so that a listener may read and be notified meanwhile.
func (l *listeners[T]) notify(value T) {
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for _, listener := range all {
		listener(value)
	}
}
