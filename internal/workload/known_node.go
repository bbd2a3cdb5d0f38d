// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// maxGets is how many Nodes are read one by one. For more Nodes one list costs less.
const maxGets = 5

// nodeList is the result of a live list of all Nodes.
type nodeList struct {
	byName       map[string]*corev1.Node
	byProviderID providerIDs
}

// providerIDs are those of all Nodes of a list.
type providerIDs map[string]bool

// lookUpMissed reads live the targets that the cache does not have, or has with another provider ID.
func (c Cluster) lookUpMissed(ctx context.Context, q *ReadRequest, readings []Reading, missed []int) {
	var unnamed []int
	named := missed[:0:0]
	for _, i := range missed {
		if q.Targets[i].Name == "" {
			unnamed = append(unnamed, i)
		} else {
			named = append(named, i)
		}
	}
	// A recent list is enough to report that no Node has joined: the cache notifies when one joins.
	if recent := c.state.calls.recentlyJoined(c.clusters.clock.Now()); recent != nil && recent.noneJoined(q, unnamed) {
		for _, i := range unnamed {
			readings[i] = Reading{State: health.NotJoined, Live: true}
		}
		unnamed = nil
	}
	c.lookUp(ctx, q, readings, named, unnamed)
}

// lookUp reads few Nodes one by one, and many with one list.
func (c Cluster) lookUp(ctx context.Context, q *ReadRequest, readings []Reading, named, unnamed []int) {
	if len(unnamed) == 0 && len(named) <= maxGets {
		var all sync.WaitGroup
		for _, i := range named {
			all.Go(func() { readings[i] = c.getNode(ctx, &q.Targets[i]) })
		}
		all.Wait()
		return
	}
	list, err := c.listNodes(ctx)
	for _, i := range append(unnamed, named...) {
		if err != nil {
			readings[i] = unreadable(err)
		} else {
			readings[i] = list.read(&q.Targets[i])
		}
	}
}

// getNode reads one Node.
func (c Cluster) getNode(ctx context.Context, t *Target) Reading {
	unconfirmed := false
	node, err := call(ctx, c, func(ctx context.Context, api client.Client) (*corev1.Node, error) {
		node := &corev1.Node{}
		err := api.Get(ctx, client.ObjectKey{Name: t.Name}, node)
		switch {
		case err == nil && node.Name == t.Name && node.ResourceVersion != "":
			return Strip(node), nil
		case err == nil:
			return nil, &ReadError{Reason: Failing}
		case confirmsNotFound(err, "nodes", t.Name):
			return nil, nil //nolint:nilnil // the Node does not exist.
		case apierrors.IsNotFound(err):
			unconfirmed = true
			return nil, nil //nolint:nilnil // as above.
		}
		return nil, err
	})
	if err == nil && unconfirmed {
		// This status does not confirm it, but a list does. Some API servers return such a status; a load balancer serves no list.
		var all *nodeList
		if all, err = c.listNodes(ctx); err == nil {
			node = all.byName[t.Name]
		}
	}
	if err != nil {
		return unreadable(err)
	}
	return t.read(node)
}

// read returns the reading of a target from an API server's Node; nil if the Node does not exist.
func (t *Target) read(node *corev1.Node) Reading {
	if node == nil {
		return Reading{State: health.Gone, Live: true}
	}
	return Reading{State: health.Present, Node: node, ProviderIDMismatch: t.hasOtherProviderID(node), Live: true}
}

// listNodes lists all Nodes, and keeps for some seconds which have joined.
func (c Cluster) listNodes(ctx context.Context) (*nodeList, *ReadError) {
	return c.state.lists.share(ctx, func() (*nodeList, *ReadError) {
		requested := c.clusters.clock.Now()
		list, err := call(ctx, c, fetchNodes)
		if err == nil {
			c.state.calls.keepJoined(list.byProviderID, requested)
		}
		return list, err
	})
}

// sharedLists lets one list of a cluster be read at a time, because each needs memory. Reconciles that need one meanwhile share the next: the
// present one may be older than what they have to confirm.
type sharedLists struct {
	mu            sync.Mutex
	current, next *sharedList
}

type sharedList struct {
	nodes *nodeList
	err   *ReadError
	ended chan struct{}
}

// share reads a list, or returns one that another reconcile begins to read from now on.
func (s *sharedLists) share(ctx context.Context, read func() (*nodeList, *ReadError)) (*nodeList, *ReadError) {
	for {
		list, before, reads := s.join()
		if !reads {
			before = list.ended
		}
		select {
		case <-before:
		case <-ctx.Done():
			if reads {
				s.end(list, nil, errStopped)
			}
			return nil, errStopped
		}
		if reads {
			nodes, err := read()
			s.end(list, nodes, err)
		}
		// Another reconcile that should have read it may have been stopped.
		if reads || list.err == nil || list.err.Reason != Stopped {
			return list.nodes, list.err
		}
	}
}

// open is a channel that is closed.
var open = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// join returns a list, and whether the caller reads it, when the list before has ended.
func (s *sharedLists) join() (list *sharedList, before <-chan struct{}, reads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current == nil:
		s.current = &sharedList{ended: make(chan struct{})}
		return s.current, open, true
	case s.next == nil:
		s.next = &sharedList{ended: make(chan struct{})}
		return s.next, s.current.ended, true
	default:
		return s.next, nil, false
	}
}

// end records the result of a list.
func (s *sharedLists) end(list *sharedList, nodes *nodeList, err *ReadError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list.nodes, list.err = nodes, err
	if s.next == list {
		s.next = nil
	} else {
		s.current, s.next = s.next, nil
	}
	close(list.ended)
}

func fetchNodes(ctx context.Context, api client.Client) (*nodeList, error) {
	l, kept := &nodeList{byName: map[string]*corev1.Node{}, byProviderID: providerIDs{}}, 0
	page := &corev1.NodeList{}
	err := fetchPages(ctx, api, page, func() error {
		for i := range page.Items {
			node := Strip(&page.Items[i])
			if !HasValidName(node) {
				continue
			}
			if kept += memoryOf(node); kept > maxKept {
				return errTooManyNodes
			}
			l.byName[node.Name] = node
			if node.Spec.ProviderID != "" {
				l.byProviderID[node.Spec.ProviderID] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *nodeList) read(t *Target) Reading {
	switch {
	case t.Name != "":
		return t.read(l.byName[t.Name])
	case l.byProviderID[t.ProviderID]:
		return unreadable(errNoNodeRef)
	default:
		return Reading{State: health.NotJoined, Live: true}
	}
}

// noneJoined reports whether the list has no Node of these targets.
func (p providerIDs) noneJoined(q *ReadRequest, targets []int) bool {
	return !slices.ContainsFunc(targets, func(i int) bool { return p[q.Targets[i].ProviderID] })
}
