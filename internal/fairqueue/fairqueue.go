// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue is the queue of a controller that many tenants share: namespaces take turns, so that one with many checks does not
// delay those of another.
package fairqueue

import (
	"k8s.io/client-go/util/workqueue"
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
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{
			Name: name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{
				Name: name, Queue: &turns{checks: map[string][]reconcile.Request{}},
			}),
		}),
	})
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
