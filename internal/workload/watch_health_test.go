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

// examineAll examines whatever is due after so long.
func (b *bench) examineAll(t *testing.T, after time.Duration) {
	t.Helper()
	b.clock.Step(after)
	var all sync.WaitGroup
	b.verifyWatches(t.Context(), &all)
	all.Wait()
}

func TestARosterIsNotBelievedWhenItsWatchWouldBeRefused(t *testing.T) {
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
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present), "one may be bad luck")
	told := b.timesTold()
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.timesTold()).To(Equal(told + 1))
	reading := b.read(t, target)[0]
	g.Expect(reading.State).To(Equal(health.Unreadable))
	g.Expect(ReadErrorReasonOf(reading.Err)).To(Equal(Forbidden))
	_, err := b.Get(prod).Nodes(t.Context())
	g.Expect(ReadErrorReasonOf(err)).To(Equal(Forbidden))
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.timesTold()).To(Equal(told+1), "that it is still so is no news")

	b.api.set(func(a *apiServer) { a.failure = nil })
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Unreadable), "the watch has not begun anew yet")
	stands = "8"
	b.examineAll(t, watchVerifyRetry)
	g.Expect(b.read(t, target)[0].State).To(Equal(health.Present))
	g.Expect(b.timesTold()).To(Equal(told + 2))
}

// TestAWatchThatLivesOnIsBelievedAgain is about examinations that fail for a reason that says nothing about the watch; and about a watch
// that has died in silence meanwhile, of which only that it does not go on can be seen.
func TestAWatchThatLivesOnIsBelievedAgain(t *testing.T) {
	for _, test := range []struct {
		why string
		// during and after are whether the watch goes on while examinations fail, and when they do not any more.
		during, after bool
		state         health.NodeState
	}{
		{"it goes on all the time", true, true, health.Present},
		{"it had nothing to tell while examinations failed", false, true, health.Present},
		{"it died at the end", true, false, health.Unreadable},
		{"it died before", false, false, health.Unreadable},
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

func TestAnExaminationThatFailsOnceIsForgotten(t *testing.T) {
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

func TestWhoIsNotConnectedIsNotExamined(t *testing.T) {
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
