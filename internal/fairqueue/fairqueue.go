// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue is the queue of a controller that many tenants share: checks of a namespace with many events give way to those of other
// namespaces.
package fairqueue

import (
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A namespace may add burst checks at once, and perSecond each second, before its checks give way. On a bad day of one Cluster, each of its
// checks is in the queue once.
const (
	burst     = 100
	perSecond = 20
)

// givesWay is the priority of what is over that: below events of other namespaces, above the first list.
const givesWay = -1

// queue gives less priority to what one namespace adds in excess.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]

	mu         sync.Mutex
	namespaces map[string]*rate.Limiter
}

type (
	limiter = workqueue.TypedRateLimiter[reconcile.Request]
	limited = workqueue.TypedRateLimitingInterface[reconcile.Request]
)

// New returns a constructor of queues, for controller.Options.
func New(log logr.Logger) func(name string, limiter limiter) limited {
	return func(name string, limiter limiter) limited {
		inner := priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) {
			o.Log, o.RateLimiter = log.WithValues("controller", name), limiter
		})
		return &queue{PriorityQueue: inner, namespaces: map[string]*rate.Limiter{}}
	}
}

// Add adds a check because of an event.
func (q *queue) Add(check reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, check) }

// AddWithOpts adds checks. What is not added because of an event, such as a retry, keeps its priority.
func (q *queue) AddWithOpts(options priorityqueue.AddOpts, checks ...reconcile.Request) {
	for _, check := range checks {
		each := options
		if each.Priority == nil && each.After == 0 && !each.RateLimited && !q.allows(check.Namespace) {
			low := givesWay
			each.Priority = &low
		}
		q.PriorityQueue.AddWithOpts(each, check)
	}
}

// allows reports whether a namespace has not added too much. Limiters that are full again are as good as new ones.
func (q *queue) allows(namespace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limiter := q.namespaces[namespace]
	if limiter == nil {
		for other, l := range q.namespaces {
			if l.Tokens() >= burst {
				delete(q.namespaces, other)
			}
		}
		limiter = rate.NewLimiter(perSecond, burst)
		q.namespaces[namespace] = limiter
	}
	return limiter.Allow()
}
