// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reads Nodes, in the management cluster and in workload clusters. It returns one of four states for each:
// Present, Gone, NotJoined or Unreadable. The state Gone requires that a live, connected API server returns "not found". No check
// remediates a target that cannot be read.
//
// It does not judge Nodes: internal/health does.
//
// # Where to start
//
// Clusters.Get returns a Cluster: the workload cluster of a Cluster API Cluster, or the management cluster. A reconcile calls
// Cluster.Read, which reads a cache of stripped Nodes and calls the API server only for Nodes that the cache does not have. A
// preflight check calls Live.Read, which reads no cache. Clusters.NodeSource and Clusters.ConnectionSource enqueue requests for a
// controller; a heartbeat of a Node enqueues none.
//
// # Another cluster
//
// A kubeconfig may lead to another cluster, in which all Nodes are missing. known_node.go has the rule for that, and its limits.
//
// # Connections
//
// connections.go makes the connections. It reads a kubeconfig Secret only when it connects, and it keeps a connection whose
// API server answers its probes. If that is the wrong API server, correct the Secret and restart the manager.
package workload
