// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fairqueue

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func check(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func queue() limited {
	return New("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
}

// One tenant adds 2,000 checks at once, and then another tenant adds one: it is next but one.
func TestQueue_OneNamespaceAddsMany_OthersTakeTurns(t *testing.T) {
	g := NewWithT(t)
	q := queue()
	t.Cleanup(q.ShutDown)
	for i := range 2000 {
		q.Add(check("attacker", fmt.Sprintf("c-%d", i)))
	}
	q.Add(check("victim", "workers"))
	for range 2 {
		next, _ := q.Get()
		q.Done(next)
		if next.Namespace == "victim" {
			return
		}
	}
	g.Expect(q.Len()).To(BeZero(), "checks that come before that of the victim")
}

// Whatever is added and taken, no check is lost or taken twice, those of one namespace keep their order, and a namespace that waits is
// passed over at most once by each other namespace.
func TestQueue_AnyOrder_KeepsChecksAndTakesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &turns{checks: map[string][]reconcile.Request{}}
		var waiting []reconcile.Request
		// The namespaces that had a turn since a waiting namespace had its own, or began to wait.
		passedOver := map[string]map[string]bool{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(waiting) == 0 || rapid.Bool().Draw(t, "add") {
				added := check(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"), fmt.Sprint(i))
				q.Push(added)
				waiting = append(waiting, added)
				if passedOver[added.Namespace] == nil {
					passedOver[added.Namespace] = map[string]bool{}
				}
				continue
			}
			taken := q.Pop()
			namespace := taken.Namespace
			first := slices.IndexFunc(waiting, func(w reconcile.Request) bool { return w.Namespace == namespace })
			if first < 0 || waiting[first] != taken {
				t.Fatalf("%s was taken, and waiting are %v", taken, waiting)
			}
			waiting = slices.Delete(waiting, first, first+1)
			delete(passedOver, namespace)
			for other, had := range passedOver {
				if had[namespace] {
					t.Fatalf("namespace %s had two turns while %s waited", namespace, other)
				}
				had[namespace] = true
			}
			if slices.ContainsFunc(waiting, func(w reconcile.Request) bool { return w.Namespace == namespace }) {
				passedOver[namespace] = map[string]bool{}
			}
			if q.Len() != len(waiting) {
				t.Fatalf("Len is %d with %d waiting", q.Len(), len(waiting))
			}
		}
	})
}

// Workers that wait for checks, take and add them all return when the queue shuts down.
func TestQueue_ShutDownUnderLoad_WorkersReturn(*testing.T) {
	for range 200 {
		q := queue()
		var workers, started sync.WaitGroup
		started.Add(10)
		for w := range 10 {
			workers.Go(func() {
				first := sync.OnceFunc(started.Done)
				for i := 0; ; i++ {
					q.Add(check(fmt.Sprint(w), fmt.Sprint(i)))
					next, stopped := q.Get()
					if first(); stopped {
						return
					}
					q.Done(next)
				}
			})
		}
		started.Wait()
		q.ShutDown()
		workers.Wait()
	}
}

// A check has the earliest of its timers, and none once it is taken: what caused the reconcile decides when the next one is.
func TestQueue_AddedAfter_HasOneTimerUntilItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		q := queue()
		defer q.ShutDown()
		workers := check("default", "workers")
		lenAfter := func(d time.Duration) int {
			time.Sleep(d)
			synctest.Wait()
			return q.Len()
		}
		take := func() {
			taken, _ := q.Get()
			g.Expect(taken).To(Equal(workers))
			q.Done(taken)
		}
		for _, seconds := range []time.Duration{20, 10, 30, 0} {
			q.AddAfter(workers, seconds*time.Second)
		}
		g.Expect(q.Len()).To(Equal(1), "no delay adds it at once")
		take()
		g.Expect(lenAfter(time.Minute)).To(BeZero(), "the timers of a check that was taken")

		for _, seconds := range []time.Duration{20, 10, 30} {
			q.AddAfter(workers, seconds*time.Second)
		}
		g.Expect(lenAfter(9 * time.Second)).To(BeZero())
		g.Expect(lenAfter(time.Second)).To(Equal(1), "the earliest timer")
		take()
		g.Expect(lenAfter(time.Minute)).To(BeZero(), "the later timers")

		// A timer that is set while the check is being reconciled stays.
		q.Add(workers)
		taken, _ := q.Get()
		q.AddAfter(workers, 10*time.Second)
		q.Done(taken)
		g.Expect(lenAfter(10 * time.Second)).To(Equal(1))
	})
}
