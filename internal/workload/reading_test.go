// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// TestRead_EachCase_ReturnsState is the table of the four states, for a reconcile and for a live read.
func TestRead_EachCase_ReturnsState(t *testing.T) {
	tests := []struct {
		why    string
		cached []*corev1.Node
		// server is what the API server has; nil if it is as in the cache.
		server        []*corev1.Node
		target        Target
		uninitialized bool

		state    health.NodeState
		reason   ReadErrorReason
		stranger bool
		// asked is the number of calls in a reconcile.
		asked int
		// live is the state of a live read, if it differs from that of the cache.
		live *health.NodeState
	}{
		{why: "Node in the cache", cached: []*corev1.Node{node("a", "id://a")}, target: Target{"a", "id://a"}, state: health.Present},
		{why: "Machine without provider ID", cached: []*corev1.Node{node("a", "id://a")}, target: Target{"a", ""}, state: health.Present},
		{why: "Node without provider ID", cached: []*corev1.Node{node("a", "")}, target: Target{"a", "id://a"}, state: health.Present},
		{
			why: "Node not in the cache yet", server: []*corev1.Node{node("a", "id://a")}, target: Target{"a", "id://a"},
			state: health.Present, asked: 1,
		},
		{why: "no Node", target: Target{"a", "id://a"}, state: health.Gone, asked: 1},
		{why: "no Node and no provider ID", target: Target{"a", ""}, state: health.Gone, asked: 1},
		{
			why: "deleted Node in the cache", cached: []*corev1.Node{node("a", "")}, server: []*corev1.Node{}, target: Target{"a", ""},
			state: health.Present, live: said(health.Gone),
		},
		{
			why: "Node with another provider ID", cached: []*corev1.Node{node("a", "id://b")}, target: Target{"a", "id://a"},
			state: health.Present, stranger: true, asked: 1,
		},
		{
			why: "old provider ID in the cache", cached: []*corev1.Node{node("a", "id://b")},
			server: []*corev1.Node{node("a", "id://a")}, target: Target{"a", "id://a"}, state: health.Present, asked: 1,
		},
		{
			why: "other Node was deleted", cached: []*corev1.Node{node("a", "id://b")}, server: []*corev1.Node{},
			target: Target{"a", "id://a"}, state: health.Gone, asked: 1,
		},
		{why: "Node has not joined", cached: []*corev1.Node{node("b", "id://b")}, target: Target{"", "id://a"}, state: health.NotJoined, asked: 1},
		{why: "Machine without Node and provider ID", cached: []*corev1.Node{node("b", "")}, target: Target{}, state: health.NotJoined, asked: 1},
		{
			why: "Node without nodeRef", cached: []*corev1.Node{node("a", "id://a")}, target: Target{"", "id://a"},
			state: health.Unreadable, reason: NoNodeRef,
		},
		{
			why: "Node has just joined", server: []*corev1.Node{node("a", "id://a")}, target: Target{"", "id://a"},
			state: health.Unreadable, reason: NoNodeRef, asked: 1,
		},
		{why: "no control plane", target: Target{"", "id://a"}, uninitialized: true, state: health.NotJoined},
		{
			why: "no control plane, with nodeRef", cached: []*corev1.Node{node("a", "id://a")}, target: Target{"a", "id://a"},
			uninitialized: true, state: health.Unreadable, reason: NotInitialized,
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, test.cached...)
			if test.server != nil {
				b.api.nodes = map[string]*corev1.Node{}
				for _, n := range test.server {
					b.api.nodes[n.Name] = n
				}
			}
			q := ReadRequest{Initialized: !test.uninitialized, Targets: []Target{test.target}}
			says := func(r Reading, state health.NodeState) {
				g.Expect(r.State).To(Equal(state))
				g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(test.reason))
				g.Expect(r.Node != nil).To(Equal(state == health.Present))
				g.Expect(r.ProviderIDMismatch).To(Equal(test.stranger))
			}
			r := b.Get(prod).Read(t.Context(), q)[0]
			says(r, test.state)
			gets, lists := b.api.asked()
			g.Expect(gets + lists).To(Equal(test.asked))
			g.Expect(r.Live).To(Equal(test.asked > 0 && r.Err == nil))
			look := test.state
			if test.live != nil {
				look = *test.live
			}
			says(b.Get(prod).Live().Read(t.Context(), q)[0], look)
		})
	}
}

func said(state health.NodeState) *health.NodeState { return &state }

func TestFacts_OtherProviderID_IsNodeDeleted(t *testing.T) {
	g := NewWithT(t)
	stranger := node("a", "id://b")
	stranger.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	b := newBench(t, stranger)
	target := Target{"a", "id://a"}
	facts := b.read(t, target)[0].Facts(&target)
	g.Expect(facts).To(Equal(health.NodeFacts{
		State: health.Present, Name: "a", ProviderID: "id://b", CreatedAt: stranger.CreationTimestamp.Time, Conditions: stranger.Status.Conditions,
	}))
	snapshot := &health.Snapshot{
		Cluster: health.ClusterFacts{ControlPlaneInitialized: health.Milestone{Reached: true}, InfrastructureReady: health.Milestone{Reached: true}},
		Targets: []health.Target{{Name: "m", Machine: &health.MachineFacts{ProviderID: "id://a"}, Node: facts}},
	}
	verdict := health.Evaluate(snapshot, &health.Policy{}, noon).Verdicts[0]
	g.Expect(verdict.Kind).To(Equal(health.Unhealthy))
	g.Expect(verdict.Reason).To(Equal(health.NodeDeleted))
}

func TestFacts_UnreadNode_HasOnlyName(t *testing.T) {
	target := Target{Name: "a"}
	r := Reading{}
	NewWithT(t).Expect(r.Facts(&target)).To(Equal(health.NodeFacts{State: health.Unreadable, Name: "a"}))
}

func TestRead_ManyMissed_UsesOneList(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("there", ""))
	known := slices.Values([]Target{{Name: "there"}})
	targets := make([]Target, 100)
	for i := range targets {
		targets[i] = Target{Name: fmt.Sprintf("node-%d", i)}
	}
	for _, r := range b.Get(prod).Read(t.Context(), ReadRequest{Initialized: true, Targets: targets, Known: known}) {
		g.Expect(r.State).To(Equal(health.Gone))
	}
	gets, lists := b.api.asked()
	g.Expect([]int{gets, lists}).To(Equal([]int{0, 1}))
	for _, r := range b.Get(prod).Read(t.Context(), ReadRequest{Initialized: true, Targets: targets[:maxGets], Known: known}) {
		g.Expect(r.State).To(Equal(health.Gone))
	}
	gets, lists = b.api.asked()
	g.Expect([]int{gets, lists}).To(Equal([]int{maxGets, 1}))
	g.Expect(b.api.max).To(BeNumerically("<=", maxConcurrentCalls))
}

func TestRead_NotJoined_UsesRecentList(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	target := Target{ProviderID: "id://a"}
	for range 5 {
		g.Expect(b.read(t, target)[0].State).To(Equal(health.NotJoined))
	}
	_, lists := b.api.asked()
	g.Expect(lists).To(Equal(1))
	b.clock.Step(maxListAge)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.NotJoined))
	_, lists = b.api.asked()
	g.Expect(lists).To(Equal(2))
	b.readLive(t, target)
	b.readLive(t, target)
	_, lists = b.api.asked()
	g.Expect(lists).To(Equal(4), "a live read uses no earlier list")
}

// After a rollout, no Machine waits for its Node any more, so nothing is read live. What was listed is not kept.
func TestRead_OldList_IsReleased(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	for i := range 5000 {
		name := fmt.Sprintf("node-%d", i)
		b.api.nodes[name] = node(name, strings.Repeat("x", 100)+name)
	}
	before := int64(heldBytes())
	g.Expect(b.read(t, Target{ProviderID: "id://a"})[0].State).To(Equal(health.NotJoined))
	recent := int64(heldBytes()) - before
	b.clock.Step(maxListAge)
	b.refreshUnreadable(t.Context())
	old := int64(heldBytes()) - before
	t.Logf("%d bytes of a recent list, %d of an old one", recent, old)
	g.Expect(old).To(BeNumerically("<", recent/4))
	g.Expect(old).To(BeNumerically("<", 64<<10))
	runtime.KeepAlive(b)
}

func TestRead_RecentList_ProvesNoNode(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	joined, named := Target{ProviderID: "id://a"}, Target{Name: "a", ProviderID: "id://a"}
	b.api.nodes["a"] = node("a", "id://a")
	for range 3 {
		g.Expect(ReadErrorReasonOf(b.read(t, joined)[0].Err)).To(Equal(NoNodeRef))
	}
	b.api.set(func(a *apiServer) { delete(a.nodes, "a") })
	g.Expect(b.read(t, joined)[0].State).To(Equal(health.NotJoined))
	g.Expect(b.read(t, named)[0].State).To(Equal(health.Gone))
	b.api.set(func(a *apiServer) { a.nodes["a"] = node("a", "id://a") })
	g.Expect(b.read(t, named)[0].State).To(Equal(health.Present))
}

func TestRead_AfterFailure_ListIsDropped(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	target := Target{ProviderID: "id://a"}
	g.Expect(b.read(t, target)[0].State).To(Equal(health.NotJoined))
	b.api.set(func(a *apiServer) { a.failure = apierrors.NewInternalError(errors.New("etcd")) })
	g.Expect(b.read(t, target)[0].State).To(Equal(health.NotJoined), "the list is used")
	b.readLive(t, Target{Name: "a"})
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Unreadable))
}

func TestRead_MixedTargets_KeepsOrder(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, manyNodes(3)...)
	b.api.nodes["late"] = node("late", "id://late")
	readings := b.read(t, Target{"node-1", "id://1"}, Target{"gone", ""}, Target{"", "id://x"}, Target{"", "id://0"}, Target{"late", "id://late"}, Target{"node-2", "id://other"})
	states := make([]health.NodeState, 0, len(readings))
	for _, r := range readings {
		states = append(states, r.State)
	}
	g.Expect(states).To(Equal([]health.NodeState{health.Present, health.Gone, health.NotJoined, health.Unreadable, health.Present, health.Present}))
	g.Expect(b.read(t)).To(BeEmpty())
	g.Expect(b.readLive(t)).To(BeEmpty())
}

func TestCall_HungCluster_PausesCalls(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.callTimeout = 20 * time.Millisecond
	hangs := make(chan struct{})
	b.api.set(func(a *apiServer) { a.hangs = hangs })
	for range 3 {
		for _, r := range b.readLive(t, Target{Name: "a"}, Target{Name: "b"}, Target{Name: "c"}) {
			g.Expect(r.State).To(Equal(health.Unreadable))
			g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(NotAnswering))
		}
	}
	gets, _ := b.api.asked()
	g.Expect(gets).To(BeNumerically("<=", 3), "after the first that hung, the others were not even asked for")

	for range 10 {
		b.readLive(t, Target{Name: "a"}, Target{Name: "b"}, Target{Name: "c"})
		b.clock.Step(pauseAfterTimeout)
	}
	b.api.set(func(a *apiServer) { g.Expect(a.max).To(BeNumerically("<=", maxConcurrentCalls)) })

	close(hangs)
	b.api.set(func(a *apiServer) { a.hangs = nil })
	g.Eventually(func() health.NodeState {
		b.clock.Step(pauseAfterTimeout)
		return b.readLive(t, Target{Name: "a"})[0].State
	}).Should(Equal(health.Gone))
}

func TestCall_CanceledContext_RecordsNothing(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	hangs := make(chan struct{})
	defer close(hangs)
	b.api.set(func(a *apiServer) { a.hangs = hangs })
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan []Reading)
	go func() {
		answers <- b.Get(prod).Live().Read(ctx, ReadRequest{Initialized: true, Targets: []Target{{Name: "a"}}})
	}()
	g.Eventually(func() int { gets, _ := b.api.asked(); return gets }).Should(Equal(1))
	cancel()
	r := (<-answers)[0]
	g.Expect(r.State).To(Equal(health.Unreadable))
	g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(Stopped))
	g.Expect(b.stateOf(prod).calls.retryDue(noon.Add(time.Hour))).To(BeFalse(), "a canceled call is no failure of the cluster")
}

func TestGuard_CachedNodes_AreNotCopied(t *testing.T) {
	g := NewWithT(t)
	nodes := manyNodes(1000)
	b := newBench(t, nodes...)
	targets := make([]Target, len(nodes))
	for i := range nodes {
		targets[i] = Target{Name: nodes[i].Name, ProviderID: nodes[i].Spec.ProviderID}
	}
	for i, r := range b.read(t, targets...) {
		g.Expect(r.Node).To(BeIdenticalTo(nodes[i]))
	}
	few, many := targets[:10], targets
	cluster := b.Get(prod)
	allocs := func(targets []Target) float64 {
		read := func() { cluster.Read(t.Context(), ReadRequest{Initialized: true, Targets: targets}) }
		// What the rest of the process allocates meanwhile is counted, too.
		return min(testing.AllocsPerRun(20, read), testing.AllocsPerRun(20, read), testing.AllocsPerRun(20, read))
	}
	g.Expect(allocs(many)).To(Equal(allocs(few)), "a hundred times the Nodes, and no allocation more")
	all, err := cluster.Nodes(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(all).To(HaveLen(1000))
	g.Expect(all[2]).To(BeIdenticalTo(nodes[10]), "they come by their names")
}
