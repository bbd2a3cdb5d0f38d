// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// readings are those of some targets, cached and live, while Machines refer to these, too.
func (b *bench) readings(t *testing.T, known []Target, targets ...Target) []Reading {
	t.Helper()
	q := ReadRequest{Initialized: true, Targets: targets, Known: slices.Values(known)}
	return append(b.Get(prod).Read(t.Context(), q), b.Get(prod).Live().Read(t.Context(), q)...)
}

// connectTo makes a new connection, to an API server that has these Nodes.
func (b *bench) connectTo(nodes ...*corev1.Node) {
	b.wire.disconnect()
	b.api.set(func(a *apiServer) {
		a.nodes = map[string]*corev1.Node{}
		for _, n := range nodes {
			a.nodes[n.Name] = n
		}
	})
	b.wire.set(func(w *wire) { w.nodes = nodes })
	b.wire.connect(b.clock.Now())
}

func TestKnownNode_NoneExists_IsWrongCluster(t *testing.T) {
	a, b, c := Target{"a", "id://a"}, Target{"b", "id://b"}, Target{"c", "id://c"}
	starting := Target{"", "id://new"}
	for _, test := range []struct {
		why     string
		nodes   []*corev1.Node
		known   []Target
		targets []Target
		state   health.NodeState
	}{
		{why: "it is empty", targets: []Target{a, b}, state: health.Unreadable},
		{why: "it is empty, and more are asked for than one by one", targets: slices.Repeat([]Target{a, b, c}, 3), state: health.Unreadable},
		{why: "it has only others", nodes: []*corev1.Node{node("x", "id://x")}, targets: []Target{a, b}, state: health.Unreadable},
		{why: "others have their names", nodes: []*corev1.Node{node("a", "id://x"), node("b", "id://y")}, targets: []Target{a, b}, state: health.Unreadable},
		{why: "none of those is there that other Machines refer to", known: []Target{a, b}, targets: []Target{a}, state: health.Unreadable},
		{why: "one has not joined, and the others are not there", known: []Target{a, b}, targets: []Target{starting}, state: health.Unreadable},
		{why: "it has one that another Machine refers to", nodes: []*corev1.Node{node("b", "id://b")}, known: []Target{a, b}, targets: []Target{a}, state: health.Gone},
		{why: "one has not joined, and another is there", nodes: []*corev1.Node{node("b", "id://b")}, known: []Target{a, b}, targets: []Target{starting}, state: health.NotJoined},
		{why: "there has only ever been one", known: []Target{a}, targets: []Target{a}, state: health.Gone},
		{why: "there has only ever been one, and it has others", nodes: []*corev1.Node{node("x", "id://x")}, targets: []Target{a}, state: health.Gone},
		{why: "there has been none yet", targets: []Target{starting}, state: health.NotJoined},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			bench := newBench(t, test.nodes...)
			for _, reading := range bench.readings(t, test.known, test.targets...) {
				g.Expect(reading.State).To(Equal(test.state))
				if test.state == health.Unreadable {
					g.Expect(ReadErrorReasonOf(reading.Err)).To(Equal(WrongCluster))
				}
			}
			if test.state == health.Unreadable {
				told := bench.notifications()
				bench.clock.Step(minRetryDelay)
				bench.refreshUnreadable(t.Context())
				g.Expect(bench.notifications()).To(Equal(told+1), "listeners are notified after a failed read")
			}
		})
	}
}

// TestKnownNode_AllNodesDeleted_BlocksUntilOneJoins: without its Nodes the right cluster looks like another one.
func TestKnownNode_AllNodesDeleted_BlocksUntilOneJoins(t *testing.T) {
	g := NewWithT(t)
	x, y := Target{"a", "id://a"}, Target{"b", "id://b"}
	all := []*corev1.Node{node("a", "id://a"), node("b", "id://b")}
	bench := newBench(t, all...)
	g.Expect(bench.readings(t, nil, x, y)).To(HaveEach(HaveField("State", health.Present)))
	bench.connectTo()
	for _, reading := range bench.readings(t, nil, x, y) {
		g.Expect(ReadErrorReasonOf(reading.Err)).To(Equal(WrongCluster))
	}
	bench.connectTo(all[0])
	for _, readings := range slices.Collect(slices.Chunk(bench.readings(t, nil, x, y), 2)) {
		g.Expect(readings).To(HaveExactElements(HaveField("State", health.Present), HaveField("State", health.Gone)))
	}
	bench.connectTo(all...)
	g.Expect(bench.readings(t, nil, x, y)).To(HaveEach(HaveField("State", health.Present)))
}

// TestKnownNode_LiveRead_AsksForTheCachedOne reads a missing Node live. One get shows that it is the right cluster. The cache
// alone does not: it may still hold the Nodes of an API server that was replaced.
func TestKnownNode_LiveRead_AsksForTheCachedOne(t *testing.T) {
	g := NewWithT(t)
	missing, other, third := Target{"a", "id://a"}, Target{"b", "id://b"}, node("c", "id://c")
	b := newBench(t, node("b", "id://b"))
	ask := func() Reading {
		return b.Get(prod).Live().Read(t.Context(), ReadRequest{
			Initialized: true, Targets: []Target{missing}, Known: slices.Values([]Target{other, {"c", "id://c"}}),
		})[0]
	}
	b.read(t, other)
	g.Expect(b.readings(t, []Target{other}, missing)).To(HaveEach(HaveField("State", health.Gone)))
	gets, lists := b.api.asked()
	g.Expect([]int{gets, lists}).To(Equal([]int{3, 0}), "one to reconcile, and two to read live")

	b.api.set(func(a *apiServer) { a.nodes = map[string]*corev1.Node{"b": node("b", "id://another")} })
	g.Expect(ReadErrorReasonOf(ask().Err)).To(Equal(WrongCluster))
	b.api.set(func(a *apiServer) { a.nodes["c"] = third })
	g.Expect(ask().State).To(Equal(health.Gone), "a list shows the third Node")
	b.api.set(func(a *apiServer) { a.failure = apierrors.NewTooManyRequests("", 1) })
	g.Expect(ReadErrorReasonOf(ask().Err)).To(Equal(Busy))
}

// TestReadError_WrongKubeconfig_NamesTheSecret covers the errors that name the Secret to correct.
func TestReadError_WrongKubeconfig_NamesTheSecret(t *testing.T) {
	g := NewWithT(t)
	targets := []Target{{"a", "id://a"}, {"b", "id://b"}}
	b := newBench(t)
	g.Expect(b.read(t, targets...)[0].Err).To(MatchError("none of the Nodes that Machines refer to exists: " +
		"this may be another cluster; if so, correct Secret team-a/prod-kubeconfig and restart the manager"))
	b.api.set(func(a *apiServer) {
		a.failure = apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	})
	g.Expect(b.read(t, targets...)[0].Err).To(MatchError(And(
		HavePrefix("the user of the cluster's kubeconfig lacks a permission; allow it to get, list and watch Nodes"),
		HaveSuffix("; or correct Secret team-a/prod-kubeconfig and restart the manager"))))
	b.home = b.wire
	readings := b.Get(ManagementCluster).Read(t.Context(), ReadRequest{Initialized: true, Targets: targets})
	g.Expect(ReadErrorReasonOf(readings[0].Err)).To(Equal(Forbidden))
	g.Expect(readings[0].Err).ToNot(MatchError(ContainSubstring("Secret")), "the management cluster has no such Secret")
}

// One list is read at a time. Who needs one meanwhile gets one that begins later.
func TestSharedLists_OneAtATime_IsNeverOlder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		lists, begun, running := &sharedLists{}, 0, 0
		proceed := make(chan struct{})
		read := func() (*nodeList, *ReadError) {
			begun++
			running++
			g.Expect(running).To(Equal(1))
			mine := &nodeList{byProviderID: providerIDs{fmt.Sprint(begun): true}}
			<-proceed
			running--
			return mine, map[bool]*ReadError{true: errNotAnswering}[begun > 3]
		}
		got := make([]*nodeList, 5)
		var all sync.WaitGroup
		ask := func(ctx context.Context, i int) {
			all.Go(func() { got[i], _ = lists.share(ctx, read) })
			synctest.Wait()
		}
		ask(t.Context(), 0)
		stopped, stop := context.WithCancel(t.Context())
		ask(stopped, 1)
		ask(t.Context(), 2)
		ask(t.Context(), 3)
		g.Expect(begun).To(Equal(1))
		// The one that would have read the next list is stopped. Another one reads it.
		stop()
		synctest.Wait()
		proceed <- struct{}{}
		synctest.Wait()
		ask(t.Context(), 4)
		close(proceed)
		all.Wait()
		g.Expect(begun).To(Equal(3))
		g.Expect(got[0].byProviderID).To(HaveKey("1"))
		g.Expect(got[1]).To(BeNil())
		g.Expect(got[2].byProviderID).To(HaveKey("2"))
		g.Expect(got[3]).To(BeIdenticalTo(got[2]))
		g.Expect(got[4].byProviderID).To(HaveKey("3"))
		g.Expect(lists.current).To(BeNil())
	})
}
