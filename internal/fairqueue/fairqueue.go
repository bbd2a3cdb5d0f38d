// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue is the queue of a controller that many tenants share: namespaces take turns, so that one with many checks does not
// delay those of another.
package fairqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// turns is the order of a queue: each namespace in turn, and its checks as they came.
type turns struct {
	// namespaces have checks; the first one is next.
	namespaces []string
	checks     map[string][]reconcile.Request
	length     int
}

type (
	limiter = workqueue.TypedRateLimiter[reconcile.Request]
	limited = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// New constructs a queue, for controller.Options. It is a work queue of client-go: controller-runtime's priority queue can block for ever
// while it shuts down (controller-runtime#3538), and a manager that stops would then keep its leader election Lease for its grace period.
func New(name string, limiter limiter) limited {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{
		Name: name,
		DelayingQueue: &delaying{
			TypedInterface: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
				Name: name, Queue: &turns{checks: map[string][]reconcile.Request{}},
			}),
			clock: clock.RealClock{}, timers: map[reconcile.Request]*timer{},
		},
	})
}

// delaying adds checks later. A check has one timer, the earliest, and loses it when it is taken: its reconcile sets the next
// one. In client-go's own delaying queue the timer stays, and each event would cause a second reconcile when it fires.
type delaying struct {
	workqueue.TypedInterface[reconcile.Request]
	clock clock.WithDelayedExecution

	mu     sync.Mutex
	timers map[reconcile.Request]*timer
}

type timer struct {
	clock.Timer
	at time.Time
}

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *delaying) AddAfter(check reconcile.Request, delay time.Duration) {
	if delay <= 0 {
		q.Add(check)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	added := &timer{at: q.clock.Now().Add(delay)}
	if current := q.timers[check]; current != nil {
		if !added.at.Before(current.at) {
			return
		}
		current.Stop()
	}
	q.timers[check] = added
	added.Timer = q.clock.AfterFunc(delay, func() {
		if q.remove(check, added) {
			q.Add(check)
		}
	})
}

// remove removes a timer of a check and returns whether the check still had it.
func (q *delaying) remove(check reconcile.Request, fired *timer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timers[check] != fired {
		return false
	}
	delete(q.timers, check)
	return true
}

// Get implements workqueue.TypedInterface.
func (q *delaying) Get() (reconcile.Request, bool) {
	check, stopped := q.TypedInterface.Get()
	q.mu.Lock()
	defer q.mu.Unlock()
	if current := q.timers[check]; current != nil {
		current.Stop()
		delete(q.timers, check)
	}
	return check, stopped
}

// Touch implements workqueue.Queue: a check that is added again keeps its place.
func (*turns) Touch(reconcile.Request) {}

// Push implements workqueue.Queue.
func (q *turns) Push(check reconcile.Request) {
	if len(q.checks[check.Namespace]) == 0 {
		q.namespaces = append(q.namespaces, check.Namespace)
	}
	q.checks[check.Namespace] = append(q.checks[check.Namespace], check)
	q.length++
}

// Len implements workqueue.Queue.
func (q *turns) Len() int { return q.length }

// Pop implements workqueue.Queue.
func (q *turns) Pop() reconcile.Request {
	namespace := q.namespaces[0]
	check, rest := q.checks[namespace][0], q.checks[namespace][1:]
	q.namespaces = q.namespaces[1:]
	if len(rest) > 0 {
		q.checks[namespace], q.namespaces = rest, append(q.namespaces, namespace)
	} else {
		delete(q.checks, namespace)
	}
	q.length--
	return check
}
