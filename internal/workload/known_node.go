// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// A kubeconfig may lead to another cluster than that of the Machines, or to a cluster that was restored empty: two Secrets
// were swapped, or a load balancer forwards to another API server. There all Nodes are missing. So a missing Node
// counts as Gone only in a cluster
//   - that has a known Node: a Node that a Machine of the Cluster refers to, with that Machine's provider ID; or
//   - of which the Machines refer to at most one Node, because nothing can be concluded from a single Node.
//
// Otherwise missing Nodes are Unreadable (WrongCluster) until a known Node exists, in this cluster or over a new connection.
//
// This rule does not protect, and blocks, in these cases:
//   - Machines refer to a single Node, and the kubeconfig leads to another cluster: the Node counts as Gone.
//   - All Nodes of the right cluster were deleted: no Machine is remediated for its missing Node until one of them joins.
//   - The other cluster has a Node of the same name, and the Node or the Machine has no provider ID.
//   - The kubeconfig leads to an older copy of the right cluster that has some of its Nodes: the others count as Gone.

// countNodes returns to how many Nodes the Machines refer.
func (q *ReadRequest) countNodes() int {
	names := map[string]bool{}
	for t := range q.referred {
		names[t.Name] = true
	}
	return len(names)
}

// referred iterates over all targets with a Node, and over the Nodes that other Machines of the Cluster refer to.
func (q *ReadRequest) referred(yield func(Target) bool) {
	for i := range q.Targets {
		if q.Targets[i].Name != "" && !yield(q.Targets[i]) {
			return
		}
	}
	if q.Known == nil {
		return
	}
	for t := range q.Known {
		if t.Name != "" && !yield(t) {
			return
		}
	}
}

// findKnownNode returns the target of a known Node; nil if none of these Nodes is known.
func (q *ReadRequest) findKnownNode(byName map[string]*corev1.Node) *Target {
	for t := range q.referred {
		if node := byName[t.Name]; node != nil && !t.hasOtherProviderID(node) {
			return &t
		}
	}
	return nil
}

// findKnownNode returns the target of a known Node in the cache of one connection; nil if there is none.
func (n *nodeCache) findKnownNode(q *ReadRequest) *Target {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	return q.findKnownNode(n.byName)
}

// rejectMissingInWrongCluster makes readings of missing Nodes Unreadable if this may be another cluster. A reconcile accepts a known Node of
// its cache; a live read reads that Node from the API server.
func (c Cluster) rejectMissingInWrongCluster(ctx context.Context, q *ReadRequest, readings []Reading, cached *nodeCache, live bool) {
	missing := func(r Reading) bool {
		return r.State == health.Gone || r.State == health.NotJoined || r.ProviderIDMismatch
	}
	known := func(r Reading) bool { return r.State == health.Present && !r.ProviderIDMismatch }
	if !q.Initialized || !slices.ContainsFunc(readings, missing) || slices.ContainsFunc(readings, known) {
		return
	}
	candidate := cached.findKnownNode(q)
	if candidate != nil && !live || q.countNodes() < 2 {
		return
	}
	err := c.requireKnownNode(ctx, q, candidate)
	if err == nil {
		return
	}
	for i := range readings {
		if missing(readings[i]) {
			readings[i] = unreadable(err)
		}
	}
}

// requireKnownNode returns an error unless the API server has a known Node. It reads the candidate first, because
// a list of all Nodes costs more.
func (c Cluster) requireKnownNode(ctx context.Context, q *ReadRequest, candidate *Target) *ReadError {
	if candidate != nil {
		if r := c.getNode(ctx, candidate); r.State == health.Present && !r.ProviderIDMismatch {
			return nil
		}
	}
	all, err := c.listNodes(ctx)
	if err == nil && q.findKnownNode(all.byName) == nil {
		return c.recordFailure(ctx, errNoKnownNode)
	}
	return err
}
