// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
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

// maxAnswer is how many bytes of an answer of a workload cluster are read. A list of 5,000 Nodes, which is the maximum that Kubernetes
// supports, has less.
const maxAnswer = 128 << 20

// limitedConnections are those of ClusterCache, with other clients for live reads and for the watch of Nodes: their answers have a limit, and
// they follow no redirect. ClusterCache itself probes and discovers the API. It has no hook for that; kubeconfigReader disables its
// compression.
type limitedConnections struct {
	clustercache.ClusterCache
	scheme *runtime.Scheme
	// nodes are the options of the caches of Nodes.
	nodes ctrlcache.Options

	mu      sync.Mutex
	clients map[client.ObjectKey]limitedClient
}

// limitedClient is the client of the connection that has this config.
type limitedClient struct {
	client.Client
	config *rest.Config
}

// GetUncachedClient implements connector.
func (l *limitedConnections) GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
	config, err := l.GetRESTConfig(ctx, cluster)
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.clients[cluster]
	switch {
	case err != nil:
		delete(l.clients, cluster)
		return nil, err
	case known.config == config:
		return known.Client, nil
	}
	limited := rest.CopyConfig(config)
	LimitAnswers(limited)
	api, err := client.New(limited, client.Options{Scheme: l.scheme})
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a client")
	}
	l.clients[cluster] = limitedClient{api, config}
	return api, nil
}

// Watch implements connector. The cache of ClusterCache would decode all of each Node. The one that is used here belongs to one connection,
// as its config does, and ends with the nodeCache.
func (l *limitedConnections) Watch(ctx context.Context, cluster client.ObjectKey, watch *nodeWatch) error {
	watch.state.watching.Lock()
	defer watch.state.watching.Unlock()
	config, err := l.GetRESTConfig(ctx, cluster)
	if err != nil {
		return err
	}
	if nodes := watch.state.currentNodes(); nodes != nil && nodes.config == config {
		return nil
	}
	cache, err := ctrlcache.New(trimmed(config), l.nodes)
	if err != nil {
		return errors.Wrap(err, "failed to create a cache of Nodes")
	}
	next, err := watch.start(ctx, cache, config)
	if err != nil {
		return err
	}
	// The watch outlives the reconcile that starts it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = cache.Start(running) }()
	go func() {
		defer stop()
		select {
		case <-next.closed:
		case <-watch.clusters.stopped:
		}
	}()
	return nil
}

// LimitAnswers makes clients reject redirects, and answers of a workload cluster that are too large. Answers are not compressed, because a
// small one could become a large one.
func LimitAnswers(config *rest.Config) {
	config.DisableCompression = true
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return answerLimit{next} })
}

// answerLimit is a transport that rejects redirects and answers that are too large.
type answerLimit struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answerLimit) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := withoutRedirect(a.next, request)
	if err == nil {
		response.Body = &limitedBody{response.Body, maxAnswer}
	}
	return response, err
}

func withoutRedirect(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	response, err := next.RoundTrip(request)
	if err == nil && response.Header.Get("Location") != "" && response.StatusCode/100 == http.StatusMultipleChoices/100 {
		_ = response.Body.Close()
		return nil, errRedirected
	}
	return response, err
}

// limitedBody is a body of which at most a number of bytes can be read.
type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (l *limitedBody) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if l.left -= n; l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
