// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// roster is what is known of a cluster's Nodes over one connection. It holds the very objects that the informer holds: nothing is copied,
// and nobody may change them.
type roster struct {
	mu           sync.RWMutex
	byName       map[string]*corev1.Node
	byProviderID map[string]string
	read         bool
	trust        trust
	// version is how far the watch is that fills it; nil if that is not known.
	version func() string

	// over is closed when the connection is.
	over chan struct{}
	once sync.Once
}

func newRoster() *roster {
	return &roster{byName: map[string]*corev1.Node{}, byProviderID: map[string]string{}, over: make(chan struct{})}
}

// stands is how far the watch is that fills it.
func (r *roster) stands() string {
	if r.version == nil {
		return ""
	}
	return r.version()
}

func (r *roster) end() { r.once.Do(func() { close(r.over) }) }

// complete notes that all Nodes have been read once.
func (r *roster) complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = true
}

// put notes a Node and returns the one that was there.
func (r *roster) put(node *corev1.Node) *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byName[node.Name]
	r.forget(before)
	r.byName[node.Name] = node
	if node.Spec.ProviderID != "" {
		r.byProviderID[node.Spec.ProviderID] = node.Name
	}
	return before
}

// remove returns the Node that was there.
func (r *roster) remove(name string) *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byName[name]
	r.forget(before)
	return before
}

func (r *roster) forget(node *corev1.Node) {
	if node == nil {
		return
	}
	delete(r.byName, node.Name)
	if r.byProviderID[node.Spec.ProviderID] == node.Name {
		delete(r.byProviderID, node.Spec.ProviderID)
	}
}

// all are the Nodes by their names.
func (r *roster) all() ([]*corev1.Node, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	nodes := make([]*corev1.Node, 0, len(r.byName))
	for _, node := range r.byName {
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, r.read
}

// answer fills in what the roster knows, and returns the targets that only the API server can tell about; false if it has not been filled yet.
func (r *roster) answer(q *Question, readings []Reading) (missed []int, complete bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.read {
		return nil, false
	}
	for i := range q.Targets {
		t := &q.Targets[i]
		if known, is := q.unread(t); is {
			readings[i] = known
			continue
		}
		if node := r.byName[t.Name]; t.Name != "" && node != nil && !t.stranger(node) {
			readings[i].State, readings[i].Node = health.Present, node
			continue
		}
		if _, joined := r.byProviderID[t.ProviderID]; t.Name == "" && t.ProviderID != "" && joined {
			readings[i] = unreadable(errNotNamed)
			continue
		}
		missed = append(missed, i)
	}
	return missed, true
}

// follower keeps a roster and tells of what changed in it. Its methods are called by an informer, one after the other.
type follower struct {
	*roster
	tell func(before, after *corev1.Node)
	// ignored counts updates that nobody is told about.
	ignored func()
}

// OnAdd notes a Node. The first ones are not told about one by one: that the connection is there is told when all have come.
func (f follower) OnAdd(object any, first bool) {
	node, is := object.(*corev1.Node)
	if !is {
		return
	}
	before := f.put(node)
	if !first {
		f.told(before, node)
	}
}

// OnUpdate notes a Node. What is in the roster counts as what was there before: no change is told twice, and none is lost.
func (f follower) OnUpdate(_, object any) {
	if node, is := object.(*corev1.Node); is {
		f.told(f.put(node), node)
	}
}

// OnDelete notes that a Node is gone, which may have been noticed late.
func (f follower) OnDelete(object any) {
	if late, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = late.Obj
	}
	node, is := object.(*corev1.Node)
	if !is {
		return
	}
	if before := f.remove(node.Name); before != nil {
		f.tell(before, nil)
	}
}

func (f follower) told(before, after *corev1.Node) {
	if before == nil || changed(before, after) {
		f.tell(before, after)
	} else {
		f.ignored()
	}
}
