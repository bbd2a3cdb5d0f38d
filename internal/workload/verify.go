// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// fewGets is how many Nodes are asked for one by one. For more of them one list of all costs less than the questions would.
const fewGets = 5

// listing is what a live list of all Nodes said.
type listing struct {
	byName       map[string]*corev1.Node
	byProviderID map[string]bool
}

// verify asks live about targets that the cache does not have, or not as the target's own.
func (c *cluster) verify(ctx context.Context, q *Question, readings []Reading, missed []int) {
	var unnamed []int
	named := missed[:0:0]
	for _, i := range missed {
		if q.Targets[i].Name == "" {
			unnamed = append(unnamed, i)
			continue
		}
		named = append(named, i)
	}
	// That nobody had joined a moment ago is good enough for a pass: the cache tells if one has since.
	if recent := c.record.live.recent(c.clusters.clock.Now()); recent != nil && recent.hasNone(q, unnamed) {
		for _, i := range unnamed {
			readings[i] = Reading{State: health.NotJoined, Live: true}
		}
		unnamed = nil
	}
	c.resolve(ctx, q, readings, named, unnamed)
}

// resolve asks for Nodes one by one if they are few, else for all of them at once.
func (c *cluster) resolve(ctx context.Context, q *Question, readings []Reading, named, unnamed []int) {
	if len(unnamed) == 0 && len(named) <= fewGets {
		var all sync.WaitGroup
		for _, i := range named {
			all.Go(func() { readings[i] = c.get(ctx, &q.Targets[i]) })
		}
		all.Wait()
		return
	}
	list, err := c.list(ctx)
	for _, i := range append(unnamed, named...) {
		if err != nil {
			readings[i] = unreadable(err)
			continue
		}
		readings[i] = list.answer(&q.Targets[i])
	}
}

// get asks for one Node.
func (c *cluster) get(ctx context.Context, t *Target) Reading {
	node, err := ask(ctx, c, func(ctx context.Context, api client.Client) (*corev1.Node, error) {
		node := &corev1.Node{}
		err := api.Get(ctx, client.ObjectKey{Name: t.Name}, node)
		switch {
		case err == nil && node.Name == t.Name && node.ResourceVersion != "":
			return Strip(node), nil
		case err == nil:
			return nil, &ReadError{Obstacle: Failing}
		case saysNotFound(err, "nodes", t.Name):
			return nil, nil //nolint:nilnil // that there is none is an answer.
		case apierrors.IsNotFound(err):
			// Not in the words of an API server. One that is of few words still has a list; a load balancer has none.
			all, failed := listNodes(ctx, api)
			if failed != nil {
				return nil, failed
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

// read is what an API server said about the target; nil is that there is no such Node.
func (t *Target) read(node *corev1.Node) Reading {
	if node == nil {
		return Reading{State: health.Gone, Live: true}
	}
	return Reading{State: health.Present, Node: node, Stranger: t.stranger(node), Live: true}
}

// list asks for all Nodes.
func (c *cluster) list(ctx context.Context) (*listing, *ReadError) {
	asked := c.clusters.clock.Now()
	list, err := ask(ctx, c, listNodes)
	if err == nil {
		c.record.live.keep(list, asked)
	}
	return list, err
}

func listNodes(ctx context.Context, api client.Client) (*listing, error) {
	nodes := &corev1.NodeList{}
	if err := listAll(ctx, api, nodes); err != nil {
		return nil, err
	}
	return listed(nodes), nil
}

// listAll gets a list from an API server: in one part, as one in parts could miss what changes meanwhile, and with the version that every API
// server gives it. Whatever else answers may well look like an empty list.
func listAll(ctx context.Context, api client.Client, list client.ObjectList, options ...client.ListOption) error {
	if err := api.List(ctx, list, options...); err != nil {
		return err
	}
	if list.GetContinue() != "" || list.GetResourceVersion() == "" {
		return &ReadError{Obstacle: Failing}
	}
	return nil
}

func listed(nodes *corev1.NodeList) *listing {
	l := &listing{byName: make(map[string]*corev1.Node, len(nodes.Items)), byProviderID: map[string]bool{}}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		l.byName[node.Name] = Strip(node)
		if node.Spec.ProviderID != "" {
			l.byProviderID[node.Spec.ProviderID] = true
		}
	}
	return l
}

func (l *listing) answer(t *Target) Reading {
	switch {
	case t.Name != "":
		return t.read(l.byName[t.Name])
	case t.ProviderID != "" && l.byProviderID[t.ProviderID]:
		return unreadable(errNotNamed)
	default:
		return Reading{State: health.NotJoined, Live: true}
	}
}

// hasNone says that none of these targets had joined.
func (l *listing) hasNone(q *Question, targets []int) bool {
	for _, i := range targets {
		if id := q.Targets[i].ProviderID; id != "" && l.byProviderID[id] {
			return false
		}
	}
	return true
}
