// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
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
	// size is the memory of all Nodes. tooMany is set when the cache has ended because of too many Nodes.
	size    int
	tooMany bool
	watch   watchHealth
	// watchVersion returns the last resourceVersion of the watch; nil if the informer does not report one.
	watchVersion func() string

	transitions transitions
	// earlier are the conditions of Nodes that the connection before has delivered until a time. It is nil when this one has delivered all.
	earlier      map[string]*corev1.Node
	earlierUntil time.Time
	// config is that of the connection; nil for the management cluster, which has no limits.
	config *rest.Config
	// started is when the connection was made.
	started time.Time
	// closed is closed when the connection ends.
	closed chan struct{}
	once   sync.Once
}

func newNodeCache(t transitions) *nodeCache {
	return &nodeCache{
		transitions: t, started: t.clock.Now(), byName: map[string]*corev1.Node{}, byProviderID: map[string]string{}, closed: make(chan struct{}),
	}
}

func (n *nodeCache) close() { n.once.Do(func() { close(n.closed) }) }

// markSynced records that the first list of Nodes is complete.
func (n *nodeCache) markSynced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced, n.earlier = true, nil
}

// put stores a Node, and returns the one that it replaces, and itself with the times that the manager has observed.
func (n *nodeCache) put(node *corev1.Node) (before, after *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before = n.byName[node.Name]
	node = n.correctLocked(node)
	n.removeLocked(before)
	if n.size += memoryOf(node); n.tooMany || n.config != nil && (n.size > maxKept || len(n.byName) >= maxItems) {
		n.overflowLocked()
		return before, node
	}
	n.byName[node.Name] = node
	if node.Spec.ProviderID != "" {
		n.byProviderID[node.Spec.ProviderID] = node.Name
	}
	return before, node
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
	n.size -= memoryOf(node)
	if n.byProviderID[node.Spec.ProviderID] == node.Name {
		delete(n.byProviderID, node.Spec.ProviderID)
	}
}

// overflow ends the cache of a cluster with too many Nodes, and releases its memory.
func (n *nodeCache) overflow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.overflowLocked()
}

func (n *nodeCache) overflowLocked() {
	n.tooMany, n.byName, n.byProviderID, n.size, n.watchVersion = true, map[string]*corev1.Node{}, map[string]string{}, 0, nil
	n.close()
}

// version returns the last resourceVersion of the watch; empty if the informer does not report one.
func (n *nodeCache) version() string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.watchVersion == nil {
		return ""
	}
	return n.watchVersion()
}

// retryDue reports whether the Nodes of a cluster that had too many can be read again.
func (n *nodeCache) retryDue(now time.Time) bool {
	return n.overflowed() && !now.Before(n.started.Add(maxRetryDelay))
}

// overflowed reports whether the cluster has too many Nodes.
func (n *nodeCache) overflowed() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.tooMany
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
	if !is || !HasValidName(node) {
		return
	}
	before, after := h.put(node)
	if !first {
		h.notifyIfChanged(before, after)
	}
}

// OnUpdate stores a Node. It compares the Node with the cache and not with the informer's old object, so that each change is
// notified once.
func (h nodeEventHandler) OnUpdate(_, object any) {
	if node, is := object.(*corev1.Node); is && HasValidName(node) {
		h.notifyIfChanged(h.put(node))
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

// nodeWatch fills the cache of Nodes of a new connection.
type nodeWatch struct {
	clusters *Clusters
	key      client.ObjectKey
	state    *clusterState
}

// start starts the watch. It makes no call, and does not wait until the cache has synced.
func (w *nodeWatch) start(ctx context.Context, cache ctrlcache.Cache, config *rest.Config) (*nodeCache, error) {
	informer, err := cache.GetInformer(ctx, &corev1.Node{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, errors.Wrap(err, "failed to watch Nodes")
	}
	next := newNodeCache(w.clusters.transitions)
	next.config = config
	if watched, is := informer.(interface{ LastSyncResourceVersion() string }); is {
		next.watchVersion = watched.LastSyncResourceVersion
	}
	handler := nodeEventHandler{nodeCache: next, notify: w.clusters.nodeNotifier(w.key), ignored: w.clusters.countIgnored}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, errors.Wrap(err, "failed to watch Nodes")
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
	return next, nil
}

// A reflector whose watch is rejected retries without an error, and its cache keeps the old Nodes: a Node that becomes unhealthy
// would count as healthy for ever. Probes do not notice, because they read no Node. So the manager regularly tests
// whether it can list Nodes. If it can, a broken watch restarts by itself.
const (
	// watchVerifyInterval is the time between two tests.
	watchVerifyInterval = 30 * time.Second
	// watchVerifyRetry is the time until the next test after one that failed.
	watchVerifyRetry = 10 * time.Second
	// watchVerifyFailures is how many tests in a row must fail before the cache is not trusted.
	watchVerifyFailures = 2
)

// watchHealth holds whether the watch of a nodeCache works.
type watchHealth struct {
	mu sync.Mutex
	// verifying is set while a test runs; nextVerify is when the next test is due.
	verifying  bool
	nextVerify time.Time
	// failures counts tests in a row that failed.
	failures int
	// err is why the cache is not trusted; nil if it is.
	err *ReadError
	// versionAtFailure is the resourceVersion of the watch at the last test that failed.
	versionAtFailure string
}

// startVerify reports whether a test is due, and records that it starts.
func (w *watchHealth) startVerify(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.verifying || now.Before(w.nextVerify) {
		return false
	}
	w.verifying, w.nextVerify = true, now.Add(watchVerifyInterval)
	return true
}

// failure returns why the cache is not trusted; nil if it is.
func (w *watchHealth) failure() *ReadError {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// verified records the result of a test and the resourceVersion of the watch, and reports whether the error has changed.
// After a failure, the cache is trusted again only when its watch has continued: until then it holds old Nodes.
func (w *watchHealth) verified(failure *ReadError, version string, now time.Time) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verifying = false
	before := w.err
	if failure == nil {
		w.failures = 0
		if w.err != nil && (version == "" || version != w.versionAtFailure) {
			w.err = nil
		}
	} else if w.failures++; w.failures >= watchVerifyFailures {
		// The watch may have moved on between two tests that failed.
		w.err, w.versionAtFailure = failure, version
	}
	if failure != nil || w.err != nil {
		w.nextVerify = now.Add(watchVerifyRetry)
	}
	return before.reason() != w.err.reason()
}

// cancelVerify records that a test has no result.
func (w *watchHealth) cancelVerify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verifying = false
}

// verifyWatch tests whether Nodes can be listed. It blocks until the API server answers.
func (c Cluster) verifyWatch(ctx context.Context, nodes *nodeCache) {
	_, err := call(ctx, c, func(ctx context.Context, api client.Client) (struct{}, error) {
		return struct{}{}, api.List(ctx, &corev1.NodeList{}, client.Limit(1))
	})
	// Without a connection, no cache is trusted, and the next connection has another cache.
	if err != nil && (err.Reason == Stopped || !c.Connection(ctx).Up) {
		nodes.watch.cancelVerify()
		return
	}
	if nodes.watch.verified(err, nodes.version(), c.clusters.clock.Now()) {
		c.clusters.connectionListeners.notify(c.key)
	}
}

// watchToVerify returns the cache of the present connection, and whether a test of its watch is due.
func (s *clusterState) watchToVerify(now time.Time) (*nodeCache, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes, s.Up && s.nodes != nil && s.nodes.watch.startVerify(now)
}
