// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ReconnectGracePeriod is how long Nodes are not judged after a connection that was down is restored. A kubelet renews its Lease every ten
// seconds, and the node controller waits fifty seconds for it before it sets the status of the Node to Unknown.
const ReconnectGracePeriod = 50 * time.Second

// ShortOutage is how long an API server can be unreachable before healthy Nodes may become Unknown. A Lease can be ten seconds old before, and
// is renewed up to ten seconds later. The node controller of Kubernetes before 1.32 waits for forty seconds. When a token has expired,
// the manager connects again at once, and its last successful probe is ten seconds old.
const ShortOutage = 15 * time.Second

// probeFailuresUntilDown is how many probes in a row must fail before a connection counts as down. It is closed after five
// failures, which takes more than a minute. Until then old Nodes would be judged.
const probeFailuresUntilDown = 2

// Connection is the state of the connection to a cluster.
type Connection struct {
	// Up is whether the API server answered the latest probes.
	Up bool
	// LastSeen is when it answered last; zero if it never has since the manager started.
	LastSeen time.Time
	// RestoredAt is when the connection was restored after an outage; zero if there was none since the manager started.
	RestoredAt time.Time
	// KubeletsUntil is until when kubelets get time to reach the API server: after the manager or the API server of the management cluster
	// has started, or after the first connection to an API server that may have been unreachable.
	KubeletsUntil time.Time
	// ClockOffset is that of the management cluster.
	ClockOffset time.Duration
	// NodesReadSince is since when Nodes are watched.
	NodesReadSince time.Time
	// Insecure are the insecure fields of the kubeconfig; empty if it has none.
	Insecure string
	// Err is why it is not up, a ReadError; otherwise nil. Its text can be shown to users.
	Err error
}

// GracePeriodEnd returns until when Nodes are not judged; zero if there was no outage.
func (c Connection) GracePeriodEnd() time.Time {
	if c.RestoredAt.IsZero() {
		return time.Time{}
	}
	return c.RestoredAt.Add(ReconnectGracePeriod)
}

// clusterState is what the manager remembers of one cluster.
type clusterState struct {
	// refreshing is held while the connector is read and the result is stored. Otherwise, an older result could replace a newer one, and
	// a connection that was never down would have a grace period. It is locked before the locks of the connector and mu.
	refreshing sync.Mutex

	// watching is held while the watch of Nodes is started. It is locked before mu.
	watching sync.Mutex

	mu sync.Mutex
	Connection
	// wasDown is set when the connection goes down, until it is up again.
	wasDown bool
	// lastProbeFailed is set if the connection is up and its last probe failed.
	lastProbeFailed bool
	// kubeconfigErr is why its kubeconfig is not used; nil if it is.
	kubeconfigErr *ReadError
	nodes         *nodeCache
	// earlier are the conditions of the Nodes of the last connection, and earlierUntil is until when it delivered them.
	earlier      map[string]*corev1.Node
	earlierUntil time.Time
	// hasCluster is set when the watch of Clusters has delivered its Cluster. The management cluster needs none.
	hasCluster bool
	// clusterDeleted is set if its Cluster does not exist. The state is deleted when there is no connection.
	clusterDeleted bool
	// forgotten is set when the state is deleted: a late reader must not start a watch in it.
	forgotten bool
	calls     apiCalls
	lists     sharedLists
}

// refresh updates the state from the connector, and reports whether the connection went up or down. It makes no call.
func (c *Clusters) refresh(ctx context.Context, key client.ObjectKey, s *clusterState) (changed bool) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	connector := c.connectorOf(key)
	s.mu.Lock()
	before, upOrDown := s.nodes, s.Up || s.wasDown
	s.mu.Unlock()
	probes := connector.Probes(key)
	_, err := connector.Client(ctx, key)
	up := err == nil && probes.failures < probeFailuresUntilDown
	var unreachable, deleted bool
	if err != nil && !upOrDown {
		// A control plane that is not initialized is not down. One that is, and was not reached since the manager started, is.
		exists, initialized := c.lookUpCluster(ctx, connector, key)
		unreachable, deleted = initialized && probes.failures > 0, !exists
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if up && s.LastSeen.IsZero() && !probes.steady && c.observed != nil {
		s.KubeletsUntil = c.clock.Now().Add(ReconnectGracePeriod)
	}
	outage := probes.succeeded.Sub(s.LastSeen)
	if probes.succeeded.After(s.LastSeen) {
		s.LastSeen = probes.succeeded
	}
	s.clusterDeleted = s.clusterDeleted || deleted
	s.lastProbeFailed = up && probes.failures > 0
	if err != nil && before != nil && s.nodes == before {
		// This cache belongs to a connection that has ended. A new connection may already have set its own cache.
		s.closeNodes()
	}
	changed = up != s.Up
	switch {
	case up && s.wasDown:
		if s.wasDown = false; outage <= 0 || outage >= c.shortOutage {
			s.RestoredAt = c.clock.Now()
		}
	case !up && (s.Up || unreachable):
		changed = changed || !s.wasDown
		s.wasDown = true
	}
	s.Up, s.Err = up, s.connectionError(up, err)
	return changed
}

// currentNodes returns the cache of the present connection; nil if there is none.
func (s *clusterState) currentNodes() *nodeCache {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes
}

// connectionError returns why the connection is not up.
func (s *clusterState) connectionError(up bool, err error) error {
	switch {
	case up:
		return nil
	case err == nil:
		return errNotAnswering
	case s.kubeconfigErr != nil:
		return s.kubeconfigErr
	default:
		return errNotConnected
	}
}

// lookUpCluster reports whether the Cluster exists, and whether its control plane is initialized. If it cannot be read, both are true.
func (c *Clusters) lookUpCluster(ctx context.Context, by connector, key client.ObjectKey) (exists, initialized bool) {
	if by == (notConnected{}) {
		return false, false
	}
	inTime, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	cluster := &clusterv1.Cluster{}
	// The cache blocks until it has synced, so it needs a timeout.
	if err := c.management.Get(inTime, key, cluster); err != nil {
		unknown := client.IgnoreNotFound(err) != nil
		return unknown, unknown
	}
	return true, ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// watchNodes returns the cache of the present connection, and starts its watch if needed. It does not wait until the cache has synced.
func (c *Clusters) watchNodes(ctx context.Context, key client.ObjectKey, s *clusterState) (*nodeCache, *ReadError) {
	if err := c.connectorOf(key).Watch(ctx, key, &nodeWatch{clusters: c, key: key, state: s}); err != nil {
		return nil, readError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		return nil, errNotReadYet
	}
	return s.nodes, nil
}

// setNodeCache sets the cache of a new connection.
func (s *clusterState) setNodeCache(next *nodeCache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeNodes()
	next.continues(s.earlier, s.earlierUntil)
	s.earlier = nil
	if s.nodes = next; s.forgotten {
		next.close()
	}
}

// closeNodes ends the cache of a connection. Its Nodes have no condition since a time before it has delivered another one.
func (s *clusterState) closeNodes() {
	if s.nodes == nil {
		return
	}
	s.nodes.close()
	s.earlier, s.earlierUntil = s.nodes.conditions(s.LastSeen)
	s.nodes = nil
}

// nodeNotifier returns a function that notifies of changed Nodes of a cluster.
func (c *Clusters) nodeNotifier(key client.ObjectKey) func(before, after *corev1.Node) {
	return func(before, after *corev1.Node) {
		c.nodeListeners.notify(NodeChange{Cluster: key, Name: cmp.Or(after, before).Name, Before: before, After: after})
	}
}
