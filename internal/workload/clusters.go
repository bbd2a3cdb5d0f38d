// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Clusters are all clusters whose Nodes can be read: the management cluster, and the workload clusters once Connect was called.
type Clusters struct {
	clock       clock.WithTicker
	management  client.Reader
	callTimeout time.Duration
	shortOutage time.Duration
	transitions transitions
	// observed is nil if nothing observes the management cluster.
	observed   *ManagementAPI
	nodeLeases string
	home       connector
	// stopped is closed when the manager ends.
	stopped chan struct{}
	// countIgnored counts updates of Nodes without a notification.
	countIgnored func()
	// nodeListeners receive changes of Nodes, connectionListeners the clusters whose connection has changed.
	nodeListeners       listeners[NodeChange]
	connectionListeners listeners[client.ObjectKey]
	// watchingClusters is set when the handler of Cluster events exists. Only Connect uses it.
	watchingClusters bool

	mu     sync.RWMutex
	remote connector
	states map[client.ObjectKey]*clusterState
}

// New returns the clusters. Only ManagementCluster can be reached until Connect was called. The cache of the manager needs StrippedNodes.
func New(mgr manager.Manager, clk clock.WithTicker) (*Clusters, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	api, err := client.New(config, client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a client without a cache")
	}
	c := newClusters(clk, &home{api: api, cache: mgr.GetCache(), now: clk.Now}, mgr.GetClient())
	return c, errors.Wrap(mgr.Add(c), "failed to add the clusters to the manager")
}

func newClusters(clk clock.WithTicker, local connector, management client.Reader) *Clusters {
	return &Clusters{
		clock: clk, management: management, callTimeout: callTimeout, shortOutage: ShortOutage, transitions: transitions{clk, ClockTolerance}, nodeLeases: NodeLeaseNamespace, home: local,
		remote: notConnected{}, countIgnored: func() {}, stopped: make(chan struct{}), states: map[client.ObjectKey]*clusterState{},
	}
}

// Observe sets what observes the answers of the management cluster. Call it before anything is read.
func (c *Clusters) Observe(management *ManagementAPI) { c.observed = management }

// CountIgnoredUpdates sets what counts updates of Nodes without a notification, such as heartbeats. Call it before anything is read.
func (c *Clusters) CountIgnoredUpdates(count func()) { c.countIgnored = count }

// UseNodeLeasesOf sets the namespace of the Leases of Nodes. Call it before anything is read.
func (c *Clusters) UseNodeLeasesOf(namespace string) { c.nodeLeases = namespace }

// Get returns the workload cluster of this Cluster, or the management cluster.
func (c *Clusters) Get(key client.ObjectKey) Cluster {
	return Cluster{clusters: c, key: key, state: c.stateOf(key)}
}

func (c *Clusters) connectorOf(key client.ObjectKey) connector {
	if key == ManagementCluster {
		return c.home
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.remote
}

func (c *Clusters) stateOf(key client.ObjectKey) *clusterState {
	c.mu.RLock()
	s := c.states[key]
	c.mu.RUnlock()
	if s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s = c.states[key]; s == nil {
		s = &clusterState{hasCluster: key == ManagementCluster, calls: apiCalls{slots: make(chan struct{}, maxConcurrentCalls)}}
		c.states[key] = s
	}
	return s
}

// markClusterExists records that the Cluster exists.
func (c *Clusters) markClusterExists(key client.ObjectKey) {
	s := c.stateOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasCluster, s.clusterDeleted = true, false
}

// markClusterDeleted records that the Cluster does not exist. Its state is deleted when the connection ends.
func (s *clusterState) markClusterDeleted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clusterDeleted = true
}

// forgetDeleted deletes the state of a deleted Cluster without a connection, and reports whether it did.
func (c *Clusters) forgetDeleted(ctx context.Context, key client.ObjectKey, s *clusterState) bool {
	s.mu.Lock()
	deleted := s.clusterDeleted
	s.mu.Unlock()
	if !deleted {
		return false
	}
	if _, err := c.connectorOf(key).Client(ctx, key); err == nil {
		return false
	}
	c.mu.Lock()
	delete(c.states, key)
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten = true; s.nodes != nil {
		s.nodes.close()
	}
	return true
}

// refreshInterval is how often unreadable clusters are refreshed. That makes no call.
const refreshInterval = time.Second

// Start refreshes unreadable clusters and verifies watches until the context ends.
func (c *Clusters) Start(ctx context.Context) error {
	defer close(c.stopped)
	ticker := c.clock.NewTicker(refreshInterval)
	defer ticker.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			c.refreshUnreadable(ctx)
			c.verifyWatches(ctx, &running)
		}
	}
}

// verifyWatches tests the watches for which a test is due. It does not wait for the results.
func (c *Clusters) verifyWatches(ctx context.Context, running *sync.WaitGroup) {
	now := c.clock.Now()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for key, s := range c.states {
		if nodes, due := s.watchToVerify(now); due {
			running.Go(func() { Cluster{clusters: c, key: key, state: s}.verifyWatch(ctx, nodes) })
		}
	}
}

// NeedLeaderElection is false: an instance on standby has to record which connections were down.
func (c *Clusters) NeedLeaderElection() bool { return false }

// refreshUnreadable notifies controllers whose read failed when they can read again.
func (c *Clusters) refreshUnreadable(ctx context.Context) {
	all := map[client.ObjectKey]*clusterState{}
	now := c.clock.Now()
	c.mu.RLock()
	for key, s := range c.states {
		s.calls.releaseOld(now)
		if s.needsAttention(now) {
			all[key] = s
		}
	}
	c.mu.RUnlock()
	for key, s := range all {
		if !s.clusterSeen() {
			// A reader, or a connection that was being made, may have created the state after its Cluster was deleted.
			if exists, _ := c.lookUpCluster(ctx, c.connectorOf(key), key); !exists {
				s.markClusterDeleted()
			}
		}
		if c.forgetDeleted(ctx, key, s) {
			continue
		}
		changed := c.refresh(ctx, key, s)
		if retry := s.calls.takeRetry(now); changed || retry {
			c.connectionListeners.notify(key)
		}
	}
}

// clusterSeen reports whether the watch of Clusters has delivered its Cluster.
func (s *clusterState) clusterSeen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasCluster
}

func (s *clusterState) needsAttention(now time.Time) bool {
	s.mu.Lock()
	unreadable := s.lastProbeFailed || s.wasDown || s.clusterDeleted || !s.hasCluster
	s.mu.Unlock()
	return unreadable || s.calls.retryDue(now)
}

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
