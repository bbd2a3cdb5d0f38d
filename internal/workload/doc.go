// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workload reads Nodes, here and in workload clusters, and answers with one of four states:
// Present, Gone, NotJoined or Unreadable. Only a live, connected API server that says "not found" makes a Node Gone;
// what cannot be read is never acted on.
package workload
