// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is a cluster whose Nodes are read. Its methods may be called at any time and concurrently, also without a connection. All
// its errors are ReadErrors.
type Cluster interface {
	// Connection returns the state of the connection. It makes no call.
	Connection(ctx context.Context) Connection
	// Read returns a reading for every target, in the same order. It reads the cache, and calls the API server for Nodes that the
	// cache does not have, with limits in number and time. ConnectionSource notifies when an Unreadable Node can be read again.
	Read(ctx context.Context, q ReadRequest) []Reading
	// Nodes returns all Nodes of the cache, sorted by name. They are stripped, and must not be changed.
	Nodes(ctx context.Context) ([]*corev1.Node, error)
	// Live returns a reader without a cache.
	Live() Live
	// Client returns a client for requests and templates in the cluster. It has no cache, and each of its calls has a timeout.
	Client(ctx context.Context) (client.Client, error)
}

// Live calls the API server of a cluster. Every call has a timeout, and ends with its context. All errors are ReadErrors.
type Live interface {
	// Read returns a reading for every target of the question, in the same order.
	Read(ctx context.Context, q ReadRequest) []Reading
	// NodeLeases returns when the kubelets of Nodes last renewed the Leases of their Nodes, in the order of the names.
	NodeLeases(ctx context.Context, nodes []string) []NodeLease
	// Lease returns any other Lease; nil if it does not exist.
	Lease(ctx context.Context, key client.ObjectKey) (*coordinationv1.Lease, error)
	// ControlPlane returns the Nodes and the etcd Pods of the control plane.
	ControlPlane(ctx context.Context) (ControlPlane, error)
}

// NodeLease is the Lease of one Node.
type NodeLease struct {
	// Renewed is by the clock of the Node; zero without a Lease.
	Renewed time.Time
	Err     error
}

// ControlPlane is what a cluster reports about its control plane.
type ControlPlane struct {
	// Nodes are the control-plane Nodes, stripped and sorted by name.
	Nodes []*corev1.Node
	// Etcd are the mirror Pods of etcd, sorted by Node. It is empty if etcd runs elsewhere.
	Etcd []EtcdPod
}

// EtcdPod is the mirror Pod of an etcd member.
type EtcdPod struct {
	Node  string
	Ready bool
}

// cluster implements Cluster with a connector.
type cluster struct {
	clusters *Clusters
	key      client.ObjectKey
	state    *clusterState
}

// Connection returns the state of the connection.
func (c *cluster) Connection(ctx context.Context) Connection {
	if c.clusters.refresh(ctx, c.key, c.state) {
		c.clusters.subscribers.notifyConnection(c.key)
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.Connection
}

// connectedNodes returns the cache of Nodes of a connection that is up. It may not have synced.
func (c *cluster) connectedNodes(ctx context.Context) (*nodeCache, *ReadError) {
	if connection := c.Connection(ctx); !connection.Up {
		return nil, readError(connection.Err)
	}
	nodes, err := c.clusters.watchNodes(ctx, c.key, c.state)
	if err != nil {
		return nil, err
	}
	if err := nodes.watch.failure(); err != nil {
		return nil, err
	}
	return nodes, nil
}

// Nodes returns all Nodes of the cache.
func (c *cluster) Nodes(ctx context.Context) ([]*corev1.Node, error) {
	cache, err := c.connectedNodes(ctx)
	if err != nil {
		return nil, err
	}
	nodes, synced := cache.list()
	if !synced {
		return nil, errNotReadYet
	}
	return nodes, nil
}

// Read reads the cache, and calls the API server for Nodes that the cache does not have.
func (c *cluster) Read(ctx context.Context, q ReadRequest) []Reading {
	cache, err := c.connectedNodes(ctx)
	if err != nil {
		return q.allUnreadable(err)
	}
	readings := make([]Reading, len(q.Targets))
	missed, synced := cache.readTargets(&q, readings)
	if !synced {
		return q.allUnreadable(errNotReadYet)
	}
	if len(missed) > 0 {
		c.lookUpMissed(ctx, &q, readings, missed)
	}
	c.doubtMissing(ctx, &q, readings, cache, false)
	return readings
}

// Live returns a reader without a cache.
func (c *cluster) Live() Live { return (*liveReader)(c) }

// Client returns a client without a cache.
func (c *cluster) Client(ctx context.Context) (client.Client, error) {
	return asError(c.client(ctx))
}

// client returns a client without a cache. It fails if the connection is down, because each call would wait for its timeout.
func (c *cluster) client(ctx context.Context) (client.Client, *ReadError) {
	if connection := c.Connection(ctx); !connection.Up {
		return nil, readError(connection.Err)
	}
	api, err := c.clusters.connectorOf(c.key).GetUncachedClient(ctx, c.key)
	if err != nil {
		return nil, readError(err)
	}
	return api, nil
}
