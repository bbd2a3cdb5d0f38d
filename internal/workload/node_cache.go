// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// nodeCache holds the Nodes of a cluster that one connection has delivered. It shares its objects with the informer, so they must
// not be changed.
type nodeCache struct {
	mu           sync.RWMutex
	byName       map[string]*corev1.Node
	byProviderID map[string]string
	synced       bool
	watch        watchHealth
	// watchVersion returns the last resourceVersion of the watch; empty if the informer does not report one.
	watchVersion func() string

	// closed is closed when the connection ends.
	closed chan struct{}
	once   sync.Once
}

func newNodeCache() *nodeCache {
	return &nodeCache{
		byName: map[string]*corev1.Node{}, byProviderID: map[string]string{}, watchVersion: func() string { return "" },
		closed: make(chan struct{}),
	}
}

func (n *nodeCache) close() { n.once.Do(func() { close(n.closed) }) }

// markSynced records that the first list of Nodes is complete.
func (n *nodeCache) markSynced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced = true
}

// put stores a Node and returns the one that it replaces.
func (n *nodeCache) put(node *corev1.Node) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.byName[node.Name]
	n.removeLocked(before)
	n.byName[node.Name] = node
	if node.Spec.ProviderID != "" {
		n.byProviderID[node.Spec.ProviderID] = node.Name
	}
	return before
}

// remove deletes a Node and returns it.
func (n *nodeCache) remove(name string) *corev1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.byName[name]
	n.removeLocked(before)
	return before
}

func (n *nodeCache) removeLocked(node *corev1.Node) {
	if node == nil {
		return
	}
	delete(n.byName, node.Name)
	if n.byProviderID[node.Spec.ProviderID] == node.Name {
		delete(n.byProviderID, node.Spec.ProviderID)
	}
}

// list returns the Nodes, sorted by name, and whether the cache has synced.
func (n *nodeCache) list() ([]*corev1.Node, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	nodes := make([]*corev1.Node, 0, len(n.byName))
	for _, node := range n.byName {
		nodes = append(nodes, node)
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, n.synced
}

// readTargets sets the readings that the cache can answer, and returns the indexes of the other targets. It returns false if the
// cache has not synced.
func (n *nodeCache) readTargets(q *ReadRequest, readings []Reading) (missed []int, synced bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.synced {
		return nil, false
	}
	for i := range q.Targets {
		t := &q.Targets[i]
		if known, is := q.answerWithoutReading(t); is {
			readings[i] = known
			continue
		}
		if node := n.byName[t.Name]; t.Name != "" && node != nil && !t.hasOtherProviderID(node) {
			readings[i].State, readings[i].Node = health.Present, node
			continue
		}
		if _, joined := n.byProviderID[t.ProviderID]; t.Name == "" && t.ProviderID != "" && joined {
			readings[i] = unreadable(errNoNodeRef)
			continue
		}
		missed = append(missed, i)
	}
	return missed, true
}

// nodeEventHandler fills a nodeCache and notifies of changes. An informer calls its methods one after the other.
type nodeEventHandler struct {
	*nodeCache
	notify func(before, after *corev1.Node)
	// ignored counts updates without a notification.
	ignored func()
}

// OnAdd stores a Node. It does not notify of the Nodes of the first list: one notification follows when the cache has synced.
func (h nodeEventHandler) OnAdd(object any, first bool) {
	node, is := object.(*corev1.Node)
	if !is {
		return
	}
	before := h.put(node)
	if !first {
		h.notifyIfChanged(before, node)
	}
}

// OnUpdate stores a Node. It compares the Node with the cache and not with the informer's old object, so that each change is
// notified once.
func (h nodeEventHandler) OnUpdate(_, object any) {
	if node, is := object.(*corev1.Node); is {
		h.notifyIfChanged(h.put(node), node)
	}
}

// OnDelete removes a Node, also if the informer has missed the event of its deletion.
func (h nodeEventHandler) OnDelete(object any) {
	if late, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = late.Obj
	}
	node, is := object.(*corev1.Node)
	if !is {
		return
	}
	if before := h.remove(node.Name); before != nil {
		h.notify(before, nil)
	}
}

func (h nodeEventHandler) notifyIfChanged(before, after *corev1.Node) {
	if before == nil || changed(before, after) {
		h.notify(before, after)
	} else {
		h.ignored()
	}
}

// nodeWatch fills the cache of Nodes of a new connection. ClusterCache calls it once for each connection.
type nodeWatch struct {
	clusters *Clusters
	key      client.ObjectKey
	state    *clusterState
}

// Name identifies the watch, so that ClusterCache adds it once for each connection. It differs for each state: the watch of a deleted
// state must not keep the next one from being added.
func (w *nodeWatch) Name() string { return fmt.Sprintf("remedy-nodes-%d", w.state.id) }

// Object returns a Node.
func (w *nodeWatch) Object() client.Object { return &corev1.Node{} }

// Watch starts the watch. It does not wait until the cache has synced, because the connection is locked meanwhile.
func (w *nodeWatch) Watch(cache ctrlcache.Cache) error {
	informer, err := cache.GetInformer(context.Background(), w.Object(), ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	next := newNodeCache()
	if watched, is := informer.(interface{ LastSyncResourceVersion() string }); is {
		next.watchVersion = watched.LastSyncResourceVersion
	}
	handler := nodeEventHandler{nodeCache: next, notify: w.clusters.nodeNotifier(w.key), ignored: w.clusters.countIgnored}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	w.state.setNodeCache(next)
	go func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			next.markSynced()
			w.clusters.connectionListeners.notify(w.key)
		case <-next.closed:
		case <-w.clusters.stopped:
		}
	}()
	return nil
}
