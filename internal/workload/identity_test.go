// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// everybody asks about some targets in a pass and past the cache, while Machines refer to these, too.
func (b *bench) everybody(t *testing.T, known []Target, targets ...Target) []Reading {
	t.Helper()
	q := Question{Initialized: true, Targets: targets, Known: slices.Values(known)}
	return append(b.At(prod).Read(t.Context(), q), b.At(prod).Live().Look(t.Context(), q)...)
}

// moves to another API server: it has these Nodes, and the connection is a new one.
func (b *bench) moves(id types.UID, nodes ...*corev1.Node) {
	b.wire.disconnect()
	b.api.set(func(a *apiServer) {
		a.id, a.nodes = id, map[string]*corev1.Node{}
		for _, n := range nodes {
			a.nodes[n.Name] = n
		}
	})
	b.wire.set(func(w *wire) { w.nodes = nodes })
	b.wire.connect(b.clock.Now())
}

func TestNodesAreNotGoneInAClusterThatHasNoneOfThem(t *testing.T) {
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
		{why: "there has been none yet", targets: []Target{starting}, state: health.NotJoined},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			bench := newBench(t, test.nodes...)
			for _, reading := range bench.everybody(t, test.known, test.targets...) {
				g.Expect(reading.State).To(Equal(test.state))
				if test.state == health.Unreadable {
					g.Expect(ObstacleOf(reading.Err)).To(Equal(NoKnownNode))
				}
			}
			if test.state == health.Unreadable {
				told := bench.timesTold()
				bench.clock.Step(firstRetry)
				bench.lookAfter(t.Context())
				g.Expect(bench.timesTold()).To(Equal(told+1), "those who could not read are woken")
			}
		})
	}
}

func TestAClusterIsRecognizedWhenItsNodesAreGone(t *testing.T) {
	a, b := Target{"a", "id://a"}, Target{"b", "id://b"}
	all := []*corev1.Node{node("a", "id://a"), node("b", "id://b")}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", nil)
	for _, test := range []struct {
		why string
		// nodes are those that were there before, and id which cluster it is then.
		nodes   []*corev1.Node
		targets []Target
		id      types.UID
		secret  error
		state   health.NodeState
	}{
		{"it is the same, and all are gone", all, []Target{a, b}, "right", nil, health.Gone},
		{"it is the same, and the only one is gone", all[:1], []Target{a}, "right", nil, health.Gone},
		{"it is another", all, []Target{a, b}, "wrong", nil, health.Unreadable},
		{"it is another, and there has only been one", all[:1], []Target{a}, "wrong", nil, health.Unreadable},
		{"it does not say any more which it is", all[:1], []Target{a}, "right", forbidden, health.Unreadable},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			bench := newBench(t)
			bench.moves("right", test.nodes...)
			for _, reading := range bench.everybody(t, nil, test.targets...) {
				g.Expect(reading.State).To(Equal(health.Present))
			}
			bench.examineAll(t, time.Second)
			bench.moves(test.id)
			bench.api.set(func(a *apiServer) { a.secret = test.secret })
			for _, reading := range bench.everybody(t, nil, test.targets...) {
				g.Expect(reading.State).To(Equal(test.state))
			}
			// One that joins heals it.
			bench.moves(test.id, all[0])
			bench.everybody(t, nil, test.targets...)
			bench.examineAll(t, examineTime)
			bench.moves(test.id)
			bench.api.set(func(a *apiServer) { a.secret = nil })
			for _, reading := range bench.everybody(t, nil, test.targets...) {
				g.Expect(reading.State).To(Equal(health.Gone))
			}
		})
	}
}

// TestARestartDoesNotMakeAnotherClusterTheRightOne has the kubeconfig lead to another cluster, with Nodes of its own, when it is not remembered any
// more which was the right one.
func TestARestartDoesNotMakeAnotherClusterTheRightOne(t *testing.T) {
	all := []*corev1.Node{node("a", "id://a"), node("b", "id://b")}
	targets := []Target{{"a", "id://a"}, {"b", "id://b"}}
	for _, test := range []struct {
		why       string
		machines  int
		restarted bool
		state     health.NodeState
	}{
		{"two, and no restart", 2, false, health.Unreadable},
		{"two, and a restart", 2, true, health.Unreadable},
		{"one, and no restart", 1, false, health.Unreadable},
		{"one, and a restart: of that cluster nothing can be told", 1, true, health.Gone},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			b, targets := newBench(t), targets[:test.machines]
			b.moves("right", all[:test.machines]...)
			b.everybody(t, nil, targets...)
			b.examineAll(t, time.Second)
			if test.restarted {
				b = newBench(t)
			}
			b.moves("wrong", node("x", "id://x"), node("y", "id://y"))
			for _, reading := range b.everybody(t, nil, targets...) {
				g.Expect(reading.State).To(Equal(test.state))
			}
			// When it leads to the right one again, everything is as it was.
			b.moves("right", all[:test.machines]...)
			for _, reading := range b.everybody(t, nil, targets...) {
				g.Expect(reading.State).To(Equal(health.Present))
			}
		})
	}
}

func TestTheNextClusterOfANameIsNoOtherCluster(t *testing.T) {
	g := NewWithT(t)
	b, only := newBench(t), Target{"a", "id://a"}
	b.exists(prod, "earlier")
	b.moves("right", node("a", "id://a"))
	b.everybody(t, nil, only)
	b.examineAll(t, time.Second)
	b.recordOf(prod).orphan()
	b.exists(prod, "later")
	b.moves("next")
	b.lookedAfter(t)
	g.Expect(b.read(t, only)[0].State).To(Equal(health.Gone))
}
