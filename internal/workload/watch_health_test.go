// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// examineAll advances the clock, and runs the tests of watches that are due.
func (b *bench) examineAll(t *testing.T, after time.Duration) {
	t.Helper()
	b.clock.Step(after)
	var all sync.WaitGroup
	b.verifyWatches(t.Context(), &all)
	all.Wait()
}

func TestWatchHealth_ListFails_CacheIsUnreadable(t *testing.T) {
	g := NewWithT(t)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", nil)
	b, target := newBench(t, node("a", "id://a")), Target{"a", "id://a"}
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present))
	stands := "7"
	b.stateOf(prod).currentNodes().watchVersion = func() string { return stands }
	b.examineAll(t, time.Second)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present))

	b.api.set(func(a *apiServer) { a.failure = forbidden })
	b.examineAll(t, watchVerifyInterval)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present), "one failure is ignored")
	told := b.notifications()
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.notifications()).To(Equal(told + 1))
	reading := b.read(t, target)[0]
	g.Expect(reading.State).To(Equal(health.Unreadable))
	g.Expect(ReadErrorReasonOf(reading.Err)).To(Equal(Forbidden))
	_, err := b.Get(prod).Nodes(t.Context())
	g.Expect(ReadErrorReasonOf(err)).To(Equal(Forbidden))
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.notifications()).To(Equal(told+1), "an unchanged state notifies no listener")

	b.api.set(func(a *apiServer) { a.failure = nil })
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Unreadable), "the watch has not continued yet")
	stands = "8"
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present))
	g.Expect(b.notifications()).To(Equal(told + 2))
}

// TestWatchHealth_WatchContinues_CacheIsRead has tests of a watch that fail although the watch works, and a watch that has ended
// without an error: its resourceVersion does not change any more.
func TestWatchHealth_WatchContinues_CacheIsRead(t *testing.T) {
	for _, test := range []struct {
		why string
		// during and after are whether the watch continues while tests fail, and after that.
		during, after bool
		state         health.NodeState
	}{
		{"continues", true, true, health.Present},
		{"no event while tests fail", false, true, health.Present},
		{"ends afterwards", true, false, health.Unreadable},
		{"ends before", false, false, health.Unreadable},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			b, target := newBench(t, node("a", "id://a")), Target{"a", "id://a"}
			b.read(t, target)
			stands := 1
			b.stateOf(prod).currentNodes().watchVersion = func() string { return strconv.Itoa(stands) }
			pass := func(goesOn bool, after time.Duration) {
				if goesOn {
					stands++
				}
				b.examineAll(t, after)
			}
			b.api.set(func(a *apiServer) { a.failure = apierrors.NewTooManyRequests("", 1) })
			for range 4 {
				pass(test.during, watchVerifyInterval)
			}
			g.Expect(ReadErrorReasonOf(b.read(t, target)[0].Err)).To(Equal(Busy))
			b.api.set(func(a *apiServer) { a.failure = nil })
			for range 100 {
				pass(test.after, watchVerifyRetry)
			}
			g.Expect(b.read(t, target)[0].State).To(Equal(test.state))
		})
	}
}

func TestWatchHealth_OneFailure_IsIgnored(t *testing.T) {
	g := NewWithT(t)
	b, target := newBench(t, node("a", "id://a")), Target{"a", "id://a"}
	for range 3 {
		b.read(t, target)
		b.api.set(func(a *apiServer) { a.failure = apierrors.NewTooManyRequests("", 1) })
		b.examineAll(t, watchVerifyInterval)
		b.api.set(func(a *apiServer) { a.failure = nil })
		b.examineAll(t, watchVerifyRetry)
	}
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present))
}

func TestWatchHealth_NotConnected_IsNotTested(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", "id://a"))
	b.read(t, Target{"a", "id://a"})
	b.wire.disconnect()
	b.connection(t)
	b.examineAll(t, watchVerifyInterval)
	_, lists := b.api.asked()
	g.Expect(lists).To(BeZero())
	b.wire.connect(b.clock.Now())
	g.Expect(b.read(t, Target{"a", "id://a"})[0].State).To(Equal(health.Present))
}
