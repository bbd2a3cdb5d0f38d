// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The limits of calls to an API server. A manager has hundreds of clusters, and one that hangs must not delay the others.
const (
	// callTimeout is how long one call may take.
	callTimeout = 5 * time.Second
	// maxConcurrentCalls is how many calls one cluster gets at the same time.
	maxConcurrentCalls = 4
	// pauseAfterTimeout is how long calls to a cluster fail at once after a timeout: each call of a reconcile would wait as long.
	pauseAfterTimeout = 5 * time.Second
	// minRetryDelay and maxRetryDelay limit the time until controllers whose read failed are notified.
	minRetryDelay = 10 * time.Second
	maxRetryDelay = 2 * time.Minute
	// maxListAge is how long a reconcile uses a list to see that no Node has joined. A live read does not use it.
	maxListAge = 10 * time.Second
)

// apiCalls limits the calls to one cluster, and schedules retries.
type apiCalls struct {
	// slots are filled by calls that run.
	slots chan struct{}
	mu    sync.Mutex
	// pausedUntil is until when calls fail at once, after a timeout.
	pausedUntil time.Time
	// retryDelay is the delay before the last retry, which was at retriedAt. The next one is due at retryAt; zero if none is.
	retryDelay         time.Duration
	retriedAt, retryAt time.Time
	// joined are the provider IDs of the last list since a call failed, and listedAt is when it was requested.
	joined   providerIDs
	listedAt time.Time
}

// call calls the API server of a cluster. It returns when the context ends or after the timeout, also if the request goes on: not all
// that a client does observes its context.
func call[T any](ctx context.Context, c Cluster, request func(ctx context.Context, api client.Client) (T, error)) (T, *ReadError) {
	var none T
	api, err := c.client(ctx)
	if err != nil {
		return none, err
	}
	inTime, cancel := context.WithTimeout(ctx, c.clusters.callTimeout)
	defer cancel()
	release, err := c.state.calls.acquire(inTime, c.clusters.clock.Now())
	if err != nil {
		return none, c.recordFailure(ctx, err)
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		defer release()
		value, err := request(inTime, api)
		answers <- answer{value, err}
	}()
	select {
	case got := <-answers:
		if got.err != nil {
			return none, c.recordFailure(ctx, readError(got.err))
		}
		c.state.calls.succeeded()
		return got.value, nil
	case <-inTime.Done():
		return none, c.recordFailure(ctx, errNotAnswering)
	}
}

// recordFailure records that a call failed, unless the context of the caller has ended.
func (c Cluster) recordFailure(ctx context.Context, err *ReadError) *ReadError {
	if ctx.Err() != nil {
		return errStopped
	}
	c.state.calls.failed(c.clusters.clock.Now(), err.Reason)
	return err.namingSecret(c.key)
}

// acquire waits for a slot.
func (a *apiCalls) acquire(ctx context.Context, now time.Time) (release func(), err *ReadError) {
	a.mu.Lock()
	paused := now.Before(a.pausedUntil)
	a.mu.Unlock()
	if paused {
		return nil, errNotAnswering
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots }, nil
	case <-ctx.Done():
		return nil, errNotAnswering
	}
}

func (a *apiCalls) succeeded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pausedUntil = time.Time{}
}

// failed pauses the calls after a timeout, schedules a retry, and drops the kept list. The delay grows with each retry after which a
// call fails, also if other calls succeed in between.
func (a *apiCalls) failed(now time.Time, reason ReadErrorReason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.joined = nil
	if reason == NotAnswering && !now.Before(a.pausedUntil) {
		a.pausedUntil = now.Add(pauseAfterTimeout)
	}
	if !a.retryAt.IsZero() {
		return
	}
	if now.After(a.retriedAt.Add(maxRetryDelay)) {
		a.retryDelay = 0
	}
	a.retryDelay = min(max(2*a.retryDelay, minRetryDelay), maxRetryDelay)
	a.retryAt = now.Add(a.retryDelay)
}

// takeRetry reports whether a retry is due, and records that it is done.
func (a *apiCalls) takeRetry(now time.Time) bool {
	if !a.retryDue(now) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.retriedAt, a.retryAt = now, time.Time{}
	return true
}

// recentlyJoined returns the provider IDs of the last list if it is recent, otherwise nil.
func (a *apiCalls) recentlyJoined(now time.Time) providerIDs {
	a.releaseOld(now)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.joined
}

// releaseOld releases a list that is no longer used.
func (a *apiCalls) releaseOld(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.listedAt.Add(maxListAge)) {
		a.joined = nil
	}
}

// keepJoined keeps of a list only what is read again: the Nodes themselves would be held in memory twice.
func (a *apiCalls) keepJoined(joined providerIDs, requested time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.joined, a.listedAt = joined, requested
}

// retryDue reports whether a retry is due.
func (a *apiCalls) retryDue(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.retryAt.IsZero() && !now.Before(a.retryAt)
}

// pageSize is how many objects of a list are read at the same time. A page that is too large, or that a network is too slow for, is read in
// halves, but not in smaller pages than minPageSize.
const pageSize, minPageSize = 250, 25

// fetchPages lists objects in pages, and passes each of them on. It requires the resourceVersion that every API server sets: another kind of
// server may return what looks like an empty list.
func fetchPages(ctx context.Context, api client.Client, page client.ObjectList, next func() error, options ...client.ListOption) error {
	return eachPage(page, next, tooLargePage, func(token string, limit int64) error {
		return api.List(ctx, page, append(slices.Clone(options), client.Limit(limit), client.Continue(token))...)
	})
}

// eachPage reads pages until the last. All of them show the state at the resourceVersion of the first, so no change is missed.
func eachPage(
	page client.ObjectList, next func() error, halves func(err error) bool, fetch func(token string, limit int64) error,
) error {
	version, items, token, limit := "", 0, "", int64(pageSize)
	for {
		err := fetch(token, limit)
		if err != nil && limit/2 >= minPageSize && halves(err) {
			limit /= 2
			continue
		}
		if err != nil {
			return err
		}
		if version == "" {
			version = page.GetResourceVersion()
		}
		if version == "" || page.GetResourceVersion() != version {
			return &ReadError{Reason: Failing}
		}
		length := meta.LenList(page)
		if items += length; items > maxItems {
			return errTooManyItems
		}
		if err := next(); err != nil {
			return err
		}
		switch token = page.GetContinue(); {
		case token == "":
			return nil
		case length == 0:
			// Pages without objects could follow each other without an end.
			return &ReadError{Reason: Failing}
		}
	}
}

// tooLargePage reports whether a page was larger than an answer can be.
func tooLargePage(err error) bool {
	return errors.Is(err, errTooLarge) || errors.Is(err, errTooManyValues) || errors.Is(err, errTooMuchMemory)
}

// newNodeInformer returns an informer whose lists have pages and limits. client-go lists where an API server does not stream its lists, at a
// resourceVersion at which API servers return all Nodes at once.
func newNodeInformer(
	api toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	from := toolscache.ToListerWatcherWithContext(api)
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			return listAllNodes(ctx, from)
		},
		WatchFuncWithContext: from.WatchWithContext,
	}, example, resync, indexers)
}

// pageTimeout is that of one page for an informer, which may wait for the answers of other clusters. answerTimeout ends a slow one earlier.
const pageTimeout = 30 * time.Second

// listAllNodes lists all Nodes for an informer, stripped.
func listAllNodes(ctx context.Context, from toolscache.ListerWithContext) (runtime.Object, error) {
	all, page, kept := &corev1.NodeList{}, &corev1.NodeList{}, 0
	next := func() error {
		all.ResourceVersion = page.ResourceVersion
		for i := range page.Items {
			node := Strip(&page.Items[i])
			if kept += memoryOf(node); kept > maxKept {
				return errTooManyNodes
			}
			all.Items = append(all.Items, *node)
		}
		return nil
	}
	// The API server may have answered, and the network is too slow.
	slow := func(err error) bool {
		var status apierrors.APIStatus
		return ctx.Err() == nil && !errors.As(err, &status)
	}
	return all, eachPage(page, next, slow, func(token string, limit int64) error {
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		ctx, release := holdMemory(ctx)
		defer release()
		answer, err := from.ListWithContext(ctx, metav1.ListOptions{Limit: limit, Continue: token})
		if nodes, is := answer.(*corev1.NodeList); is {
			page.ListMeta, page.Items = nodes.ListMeta, nodes.Items
		}
		return err
	})
}
