// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reads Nodes, here and in workload clusters, and answers with one of four states:
// Present, Gone, NotJoined or Unreadable. Only a live, connected API server that says "not found" makes a Node Gone;
// what cannot be read is never acted on.
//
// Clusters.At gives a Cluster: a workload cluster by its Cluster, or Home, the one we run in. A pass reads with Cluster.Read: from a cache
// that holds of a Node what is read of it (strip.go), and live only where the cache misses one. An act looks once more with Live.Look, past
// every cache. Clusters.NodeSource and Clusters.ConnectionSource wake a controller; a heartbeat does not (change.go).
//
// Nothing here has an opinion: how long a Node may be ill, and what follows, is decided elsewhere.
package workload
