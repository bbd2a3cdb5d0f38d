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
			// This status does not confirm it, but a list does. Some API servers return such a status; a load balancer serves no list.
			all, err := fetchNodes(ctx, api)
			if err != nil {
				return nil, err
			}
			return all.byName[t.Name], nil
		}
		return nil, err
	})
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

// listNodes lists all Nodes, and keeps the list for some seconds.
func (c Cluster) listNodes(ctx context.Context) (*nodeList, *ReadError) {
	requested := c.clusters.clock.Now()
	list, err := call(ctx, c, fetchNodes)
	if err == nil {
		c.state.calls.keepJoined(list.byProviderID, requested)
	}
	return list, err
}

func fetchNodes(ctx context.Context, api client.Client) (*nodeList, error) {
	nodes := &corev1.NodeList{}
	if err := fetchComplete(ctx, api, nodes); err != nil {
		return nil, err
	}
	l := &nodeList{byName: make(map[string]*corev1.Node, len(nodes.Items)), byProviderID: providerIDs{}}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		l.byName[node.Name] = Strip(node)
		if node.Spec.ProviderID != "" {
			l.byProviderID[node.Spec.ProviderID] = true
		}
	}
	return l, nil
}

// fetchComplete lists objects without paging, because a list in pages may miss a change. It requires the resourceVersion that every
// API server sets: another kind of server may return what looks like an empty list.
func fetchComplete(ctx context.Context, api client.Client, list client.ObjectList, options ...client.ListOption) error {
	if err := api.List(ctx, list, options...); err != nil {
		return err
	}
	if list.GetContinue() != "" || list.GetResourceVersion() == "" {
		return &ReadError{Reason: Failing}
	}
	return nil
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
