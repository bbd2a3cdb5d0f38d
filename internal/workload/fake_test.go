// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var prod = client.ObjectKey{Namespace: "team-a", Name: "prod"}

// apiServer is a fake API server of a workload cluster. The embedded client is nil: other calls panic.
type apiServer struct {
	client.Client
	mu sync.Mutex
	// nodes are its Nodes; failure is the error that it returns instead.
	nodes   map[string]*corev1.Node
	failure error
	// hangs: it never answers, and ignores the context.
	hangs       chan struct{}
	gets, lists int
	atOnce, max int
}

// begin counts a call, and waits while the server hangs.
func (a *apiServer) begin(gets, lists int) error {
	a.mu.Lock()
	a.gets, a.lists = a.gets+gets, a.lists+lists
	a.atOnce++
	a.max = max(a.max, a.atOnce)
	hangs, failure := a.hangs, a.failure
	a.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return failure
}

func (a *apiServer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.atOnce--
}

func (a *apiServer) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	defer a.end()
	if err := a.begin(1, 0); err != nil {
		return err
	}
	node, is := object.(*corev1.Node)
	if !is {
		return errors.Errorf("a %T was asked for", object)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nodes[key.Name] == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	a.nodes[key.Name].DeepCopyInto(node)
	return nil
}

func (a *apiServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	defer a.end()
	if err := a.begin(0, 1); err != nil {
		return err
	}
	nodes, is := list.(*corev1.NodeList)
	if !is {
		return errors.Errorf("a %T was asked for", list)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes.ResourceVersion = "1"
	for _, node := range a.nodes {
		nodes.Items = append(nodes.Items, *node.DeepCopy())
	}
	return nil
}

func (a *apiServer) asked() (gets, lists int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gets, a.lists
}

func (a *apiServer) set(change func(a *apiServer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// wire is a fake connector.
type wire struct {
	mu        sync.Mutex
	connected bool
	probes    probes
	api       client.Client
	refuse    error
	// meanwhile runs during a call.
	meanwhile func()
	// caches of Nodes have these Nodes, and are synced if read is set.
	nodes []*corev1.Node
	read  bool
	// config differs for each connection.
	config *rest.Config
}

func (w *wire) Client(context.Context, client.ObjectKey) (client.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.meanwhile != nil {
		w.meanwhile()
	}
	if !w.connected {
		return nil, errNotConnected
	}
	return w.api, nil
}

func (w *wire) Probes(client.ObjectKey) probes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.probes
}

func (w *wire) Watch(_ context.Context, _ client.ObjectKey, watch *nodeWatch) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.connected {
		return errNotConnected
	}
	if nodes := watch.state.currentNodes(); w.refuse != nil || nodes != nil && nodes.config == w.config {
		return w.refuse
	}
	next := newNodeCache(watch.clusters.transitions)
	next.config = w.config
	for _, node := range w.nodes {
		next.put(node)
	}
	if w.read {
		next.markSynced()
	}
	watch.state.setNodeCache(next)
	return nil
}

func (w *wire) set(change func(w *wire)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// disconnect ends the connection, as it happens after five failed probes in a row.
func (w *wire) disconnect() {
	w.set(func(w *wire) {
		w.connected, w.config, w.probes.failures = false, &rest.Config{}, 5
	})
}

func (w *wire) connect(at time.Time) {
	w.set(func(w *wire) {
		w.connected, w.probes = true, probes{succeeded: at}
	})
}

func (w *wire) fails(times int) {
	w.set(func(w *wire) { w.probes.failures = times })
}

// management is a fake management cluster, which has Clusters only.
type management struct {
	client.Reader
	initialized bool
	failure     error
	hangs       bool
	// duringGet runs once, during the next read.
	duringGet func()
}

func (m *management) Get(ctx context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if during := m.duringGet; during != nil {
		m.duringGet = nil
		during()
	}
	if m.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	object.(*clusterv1.Cluster).Status.Initialization.ControlPlaneInitialized = ptr.To(m.initialized)
	return m.failure
}

// bench is a cluster with a fake clock.
type bench struct {
	*Clusters
	clock      *clocktesting.FakeClock
	wire       *wire
	api        *apiServer
	management *management

	mu   sync.Mutex
	told []client.ObjectKey
}

// newBench has a cluster with these Nodes, connected and read.
func newBench(t *testing.T, nodes ...*corev1.Node) *bench {
	t.Helper()
	b := &bench{clock: clocktesting.NewFakeClock(noon), management: &management{initialized: true}, api: &apiServer{nodes: map[string]*corev1.Node{}}}
	for _, node := range nodes {
		b.api.nodes[node.Name] = node
	}
	b.wire = &wire{api: b.api, nodes: nodes, read: true, config: &rest.Config{}}
	b.wire.connect(noon)
	b.Clusters = newClusters(b.clock, &wire{}, b.management)
	b.remote = b.wire
	b.callTimeout = time.Minute
	b.connectionListeners.add(func(key client.ObjectKey) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.told = append(b.told, key)
	})
	return b
}

func (b *bench) notifications() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.told)
}

func (b *bench) connection(t *testing.T) Connection {
	t.Helper()
	return b.Get(prod).Connection(t.Context())
}

func (b *bench) read(t *testing.T, targets ...Target) []Reading {
	t.Helper()
	return b.Get(prod).Read(t.Context(), ReadRequest{Initialized: true, Targets: targets})
}

func (b *bench) readLive(t *testing.T, targets ...Target) []Reading {
	t.Helper()
	return b.Get(prod).Live().Read(t.Context(), ReadRequest{Initialized: true, Targets: targets})
}

func node(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", ResourceVersion: "1"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// manyNodes returns Nodes with the names node-0, node-1 and so on.
func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, 0, count)
	for i := range count {
		nodes = append(nodes, node(fmt.Sprintf("node-%d", i), fmt.Sprintf("id://%d", i)))
	}
	return nodes
}
