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

// Cluster is a cluster whose Nodes are read. Its methods can be called at any time by anybody, whether it is connected or not. Every error of it
// is a ReadError.
type Cluster interface {
	// Connection is what is known of the connection now. Nobody is asked for it.
	Connection(ctx context.Context) Connection
	// Read answers for every target of the question, in the same order. It reads from the cache; what that does not have is asked for live,
	// with a limit in number and in time. Who reads is woken, by ConnectionSource, when what is Unreadable now can be asked again.
	Read(ctx context.Context, q Question) []Reading
	// Nodes are all Nodes of the cache by their names. They have what Strip leaves, and nobody may change them.
	Nodes(ctx context.Context) ([]*corev1.Node, error)
	// Live reads past every cache.
	Live() Live
	// Client is for requests and templates that live in the cluster. It has no cache, and every call of it has a time limit.
	Client(ctx context.Context) (client.Client, error)
}

// Live asks the API server of a cluster itself. Every question has a time limit, and ends with its context. Every error is a ReadError.
type Live interface {
	// Look answers for every target of the question, in the same order.
	Look(ctx context.Context, q Question) []Reading
	// HeartbeatRenewed is when the kubelet renewed the Lease of its Node last, by the clock of the Node's cluster; zero if there is no Lease.
	HeartbeatRenewed(ctx context.Context, node string) (time.Time, error)
	// Lease is any other Lease; nil if there is none.
	Lease(ctx context.Context, key client.ObjectKey) (*coordinationv1.Lease, error)
	// ControlPlane is what the cluster itself says about its control plane.
	ControlPlane(ctx context.Context) (ControlPlane, error)
}

// ControlPlane is what a cluster itself says about its control plane.
type ControlPlane struct {
	// Nodes are those of the control plane, by their names, as Strip leaves them.
	Nodes []*corev1.Node
	// Etcd are the mirror pods of its etcd, by their Nodes. Empty where its members are not to be seen, as they are elsewhere.
	Etcd []EtcdPod
}

// EtcdPod is a mirror pod of a member of etcd.
type EtcdPod struct {
	Node  string
	Ready bool
}

// cluster is a Cluster by what its connector gives.
type cluster struct {
	clusters *Clusters
	key      client.ObjectKey
	record   *record
}

// Connection is what is known of the connection now.
func (c *cluster) Connection(ctx context.Context) Connection {
	if c.clusters.look(ctx, c.key, c.record) {
		c.clusters.audience.tellConnection(c.key)
	}
	c.record.mu.Lock()
	defer c.record.mu.Unlock()
	return c.record.Connection
}

// cached is the roster of a connection that is up.
func (c *cluster) cached(ctx context.Context) (*roster, *ReadError) {
	if connection := c.Connection(ctx); !connection.Up {
		return nil, readError(connection.Err)
	}
	r, err := c.clusters.rosterOf(ctx, c.key, c.record)
	if err != nil {
		return nil, err
	}
	if doubt := r.trust.doubted(); doubt != nil {
		return nil, doubt
	}
	return r, nil
}

// Nodes are all Nodes of the cache.
func (c *cluster) Nodes(ctx context.Context) ([]*corev1.Node, error) {
	r, err := c.cached(ctx)
	if err != nil {
		return nil, err
	}
	nodes, complete := r.all()
	if !complete {
		return nil, errNotReadYet
	}
	return nodes, nil
}

// Read answers from the cache, and asks live for what that does not have.
func (c *cluster) Read(ctx context.Context, q Question) []Reading {
	r, err := c.cached(ctx)
	if err != nil {
		return q.allUnreadable(err)
	}
	readings := make([]Reading, len(q.Targets))
	missed, complete := r.answer(&q, readings)
	if !complete {
		return q.allUnreadable(errNotReadYet)
	}
	if len(missed) > 0 {
		c.verify(ctx, &q, readings, missed)
	}
	c.doubtMissing(ctx, &q, readings, r, false)
	return readings
}

// Live reads past the cache.
func (c *cluster) Live() Live { return (*live)(c) }

// Client has no cache.
func (c *cluster) Client(ctx context.Context) (client.Client, error) {
	return opened(c.client(ctx))
}

// client has no cache. It is not given out for a cluster that is down: whoever asks would only wait.
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
