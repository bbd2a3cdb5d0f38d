// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NodeMapper says what is to be reconciled because of a change. It is called while others wait, so it reads nothing but caches.
type NodeMapper func(ctx context.Context, change NodeChange) []reconcile.Request

// ConnectionMapper says what is to be reconciled because a cluster came up, went down, can be asked again, or has had its Nodes read for the
// first time over this connection. It is called while others wait, so it reads nothing but caches.
type ConnectionMapper func(ctx context.Context, cluster client.ObjectKey) []reconcile.Request

// NodeSource wakes a controller when a Node changes in something that is read of it, in any cluster that was read once. Only what is read
// of a Node can wake anybody: a heartbeat does not.
func (c *Clusters) NodeSource(mapper NodeMapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.audience.join(ctx, listener{node: func(change NodeChange) { add(queue, mapper(ctx, change)) }})
		return nil
	})
}

// ConnectionSource wakes a controller when there is news of a connection.
func (c *Clusters) ConnectionSource(mapper ConnectionMapper) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.audience.join(ctx, listener{connection: func(key client.ObjectKey) { add(queue, mapper(ctx, key)) }})
		return nil
	})
}

func add(queue workqueue.TypedRateLimitingInterface[reconcile.Request], requests []reconcile.Request) {
	for _, request := range requests {
		queue.Add(request)
	}
}

// listener is who wants to know.
type listener struct {
	node       func(NodeChange)
	connection func(client.ObjectKey)
}

// audience are all who want to know. Nobody has to wait for one that does not listen: a controller that has not been started has not joined,
// and looks at everything when it is.
type audience struct {
	mu sync.Mutex
	// seats are replaced, never changed: those who tell hold no lock, so that a listener may ask, and be told, meanwhile.
	seats []*listener
}

// join listens until the context ends.
func (a *audience) join(ctx context.Context, l listener) {
	seat := &l
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seats = append(slices.Clone(a.seats), seat)
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seats = slices.DeleteFunc(slices.Clone(a.seats), func(s *listener) bool { return s == seat })
	})
}

func (a *audience) all() []*listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seats
}

func (a *audience) tellNode(change NodeChange) {
	for _, l := range a.all() {
		if l.node != nil {
			l.node(change)
		}
	}
}

func (a *audience) tellConnection(key client.ObjectKey) {
	for _, l := range a.all() {
		if l.connection != nil {
			l.connection(key)
		}
	}
}

// nodeWatch fills a new roster over a new connection. Cluster API's cache calls it once for each.
type nodeWatch struct {
	clusters *Clusters
	key      client.ObjectKey
	record   *record
}

// Name is that by which Cluster API's cache knows that the connection has it already. It is another one for another record: one that was
// forgotten does not keep the next from being filled.
func (w *nodeWatch) Name() string { return fmt.Sprintf("remedy-nodes-%d", w.record.number) }

// Object is what is watched.
func (w *nodeWatch) Object() client.Object { return &corev1.Node{} }

// Watch begins to fill the roster, and does not wait until that is done: the whole connection is locked meanwhile.
func (w *nodeWatch) Watch(cache ctrlcache.Cache) error {
	informer, err := cache.GetInformer(context.Background(), w.Object(), ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	next := newRoster()
	if watched, tells := informer.(interface{ LastSyncResourceVersion() string }); tells {
		next.version = watched.LastSyncResourceVersion
	}
	registration, err := informer.AddEventHandler(follower{roster: next, tell: w.clusters.tellAbout(w.key), ignored: w.clusters.ignored})
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	w.record.replaceRoster(next)
	go func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			next.complete()
			w.clusters.audience.tellConnection(w.key)
		case <-next.over:
		case <-w.clusters.stopped:
		}
	}()
	return nil
}
