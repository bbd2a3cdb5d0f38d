// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Cluster is a cluster whose Nodes are read. Its methods may be called at any time and concurrently, also without a connection. All
// its errors are ReadErrors.
type Cluster struct {
	clusters *Clusters
	key      client.ObjectKey
	state    *clusterState
}

// Connection returns the state of the connection. It makes no call.
func (c Cluster) Connection(ctx context.Context) Connection {
	if c.clusters.refresh(ctx, c.key, c.state) {
		c.clusters.connectionListeners.notify(c.key)
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	connection := c.state.Connection
	if c.state.nodes != nil {
		connection.NodesReadSince = c.state.nodes.started
	}
	if observed := c.clusters.observed; observed != nil {
		connection.KubeletsUntil = health.Latest(connection.KubeletsUntil, observed.KubeletsUntil())
		connection.ClockOffset = observed.ClockOffset()
	}
	return connection
}

// connectedNodes returns the cache of Nodes of a connection that is up. It may not have synced.
func (c Cluster) connectedNodes(ctx context.Context) (*nodeCache, *ReadError) {
	if connection := c.Connection(ctx); !connection.Up {
		return nil, readError(connection.Err)
	}
	nodes, err := c.clusters.watchNodes(ctx, c.key, c.state)
	if err != nil {
		return nil, err
	}
	if nodes.overflowed() {
		return nil, c.recordFailure(ctx, errTooManyNodes)
	}
	if err := nodes.watch.failure(); err != nil {
		return nil, err
	}
	return nodes, nil
}

// Nodes returns all Nodes of the cache, sorted by name. They are stripped, and must not be changed.
func (c Cluster) Nodes(ctx context.Context) ([]*corev1.Node, error) {
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

// Read returns a reading for every target, in the same order. It reads the cache. It calls the API server for Nodes that the cache does
// not have, with limits in number and time. ConnectionSource notifies when an Unreadable Node can be read again.
func (c Cluster) Read(ctx context.Context, q ReadRequest) []Reading {
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
	c.rejectMissingInWrongCluster(ctx, &q, readings, cache, false)
	return readings
}

// Live returns a reader without a cache.
func (c Cluster) Live() Live { return Live{cluster: c} }

// Client returns a client for requests and templates in the cluster. It has no cache, and each of its calls has a timeout.
func (c Cluster) Client(ctx context.Context) (client.Client, error) {
	return asError(c.client(ctx))
}

// client returns a client without a cache. It fails if the connection is down, because each call would wait for its timeout.
func (c Cluster) client(ctx context.Context) (client.Client, *ReadError) {
	if connection := c.Connection(ctx); !connection.Up {
		return nil, readError(connection.Err)
	}
	api, err := c.clusters.connectorOf(c.key).Client(ctx, c.key)
	if err != nil {
		return nil, readError(err)
	}
	return api, nil
}

// ReadRequest is a read of the Nodes of some targets of one cluster.
type ReadRequest struct {
	// Initialized is whether the cluster has a control plane. Without one, no Node is read.
	Initialized bool
	Targets     []Target
	// Known are the Nodes that Machines of the same Cluster refer to, whether they are targets or not; nil if there are none. They
	// only show whether it is the right cluster; there is no reading for them.
	Known iter.Seq[Target]
}

// Target is a Node to read.
type Target struct {
	// Name is the nodeRef of the Machine, or the name of a Node without Machine. It is empty if the Machine has no Node yet.
	Name string
	// ProviderID is the provider ID of the Machine. It is empty if there is no Machine, or if the Machine has none yet.
	ProviderID string
}

// Reading is the result for one target.
type Reading struct {
	State health.NodeState
	// Node is set if State is Present. It is stripped, and must not be changed: it may belong to the cache.
	Node *corev1.Node
	// ProviderIDMismatch is whether the Node has the name, but not the provider ID of the Machine. That was read live.
	ProviderIDMismatch bool
	// Live is whether an API server answered. Otherwise the cache did, or nothing was read.
	Live bool
	// Err is why the Node is Unreadable, a ReadError; otherwise nil. Its text can be shown to users.
	Err error
}

// Facts returns what the health rules read.
func (r *Reading) Facts(t *Target) health.NodeFacts {
	facts := health.NodeFacts{State: r.State, Name: t.Name}
	if r.Node != nil {
		facts.CreatedAt = health.KnownTime(r.Node.CreationTimestamp.Time, time.Time{})
		facts.ProviderID = r.Node.Spec.ProviderID
		facts.Conditions = r.Node.Status.Conditions
	}
	return facts
}

func unreadable(err *ReadError) Reading { return Reading{State: health.Unreadable, Err: err} }

// hasOtherProviderID reports whether a Node with the target's name has another provider ID. It is false if either has none.
func (t *Target) hasOtherProviderID(node *corev1.Node) bool {
	return t.ProviderID != "" && node.Spec.ProviderID != "" && t.ProviderID != node.Spec.ProviderID
}

// answerWithoutReading returns the reading of a target that needs no API server; false if it needs one.
func (q *ReadRequest) answerWithoutReading(t *Target) (Reading, bool) {
	switch {
	case q.Initialized:
		return Reading{}, false
	case t.Name == "":
		return Reading{State: health.NotJoined}, true
	default:
		return unreadable(errNotInitialized), true
	}
}

// allUnreadable returns the error for every target that needs an API server.
func (q *ReadRequest) allUnreadable(err *ReadError) []Reading {
	readings := make([]Reading, len(q.Targets))
	for i := range q.Targets {
		known, is := q.answerWithoutReading(&q.Targets[i])
		if !is {
			known = unreadable(err)
		}
		readings[i] = known
	}
	return readings
}
