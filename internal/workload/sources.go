// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
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
		c.subscribers.subscribe(ctx, subscriber{node: func(change NodeChange) { add(queue, mapper(ctx, change)) }})
		return nil
	})
}

// ConnectionSource enqueues requests when the state of a connection changes.
func (c *Clusters) ConnectionSource(mapper ConnectionMapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.subscribers.subscribe(ctx, subscriber{connection: func(key client.ObjectKey) { add(queue, mapper(ctx, key)) }})
		return nil
	})
}

func add(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) {
	for _, request := range requests {
		queue.Add(request)
	}
}

// subscriber receives notifications.
type subscriber struct {
	node       func(NodeChange)
	connection func(client.ObjectKey)
}

// subscribers are all that receive notifications. A controller subscribes when it starts, and reconciles everything then.
type subscribers struct {
	mu sync.Mutex
	// all is replaced and never changed: a notification holds no lock, so that a subscriber may read and be notified meanwhile.
	all []*subscriber
}

// subscribe adds a subscriber until the context ends.
func (s *subscribers) subscribe(ctx context.Context, next subscriber) {
	added := &next
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clone(s.all), added)
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *subscriber) bool { return other == added })
	})
}

func (s *subscribers) snapshot() []*subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func (s *subscribers) notifyNode(change NodeChange) {
	for _, l := range s.snapshot() {
		if l.node != nil {
			l.node(change)
		}
	}
}

func (s *subscribers) notifyConnection(key client.ObjectKey) {
	for _, l := range s.snapshot() {
		if l.connection != nil {
			l.connection(key)
		}
	}
}
