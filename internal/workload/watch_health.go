// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A reflector whose watch is rejected retries without an error, and its cache keeps the old Nodes: a Node that becomes unhealthy
// would count as healthy for ever. ClusterCache's probes do not notice, because they read no Node. So the manager regularly tests
// whether it can list Nodes. If it can, a broken watch restarts by itself.
const (
	// watchVerifyInterval is the time between two tests.
	watchVerifyInterval = 30 * time.Second
	// watchVerifyRetry is the time until the next test after one that failed.
	watchVerifyRetry = 10 * time.Second
	// watchVerifyFailures is how many tests in a row must fail before the cache is not trusted.
	watchVerifyFailures = 2
)

// watchHealth holds whether the watch of a nodeCache works.
type watchHealth struct {
	mu sync.Mutex
	// verifying is set while a test runs; nextVerify is when the next test is due.
	verifying  bool
	nextVerify time.Time
	// failures counts tests in a row that failed.
	failures int
	// err is why the cache is not trusted; nil if it is.
	err *ReadError
	// versionAtFailure is the resourceVersion of the watch at the last test that failed.
	versionAtFailure string
}

// startVerify reports whether a test is due, and records that it starts.
func (w *watchHealth) startVerify(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.verifying || now.Before(w.nextVerify) {
		return false
	}
	w.verifying, w.nextVerify = true, now.Add(watchVerifyInterval)
	return true
}

// failure returns why the cache is not trusted; nil if it is.
func (w *watchHealth) failure() *ReadError {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// verified records the result of a test and the resourceVersion of the watch, and reports whether the error has changed.
// After a failure, the cache is trusted again only when its watch has continued: until then it holds old Nodes.
func (w *watchHealth) verified(failure *ReadError, version string, now time.Time) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verifying = false
	before := w.err
	if failure == nil {
		w.failures = 0
		if w.err != nil && (version == "" || version != w.versionAtFailure) {
			w.err = nil
		}
	} else if w.failures++; w.failures >= watchVerifyFailures {
		// The watch may have moved on between two tests that failed.
		w.err, w.versionAtFailure = failure, version
	}
	if failure != nil || w.err != nil {
		w.nextVerify = now.Add(watchVerifyRetry)
	}
	return before.reason() != w.err.reason()
}

// cancelVerify records that a test has no result.
func (w *watchHealth) cancelVerify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verifying = false
}

// verifyWatch tests whether Nodes can be listed. It blocks until the API server answers.
func (c Cluster) verifyWatch(ctx context.Context, nodes *nodeCache) {
	_, err := call(ctx, c, func(ctx context.Context, api client.Client) (struct{}, error) {
		return struct{}{}, api.List(ctx, &corev1.NodeList{}, client.Limit(1))
	})
	// Without a connection, no cache is trusted, and the next connection has another cache.
	if err != nil && (err.Reason == Stopped || !c.Connection(ctx).Up) {
		nodes.watch.cancelVerify()
		return
	}
	if nodes.watch.verified(err, nodes.watchVersion(), c.clusters.clock.Now()) {
		c.clusters.connectionListeners.notify(c.key)
	}
}

// watchToVerify returns the cache of the present connection, and whether a test of its watch is due.
func (s *clusterState) watchToVerify(now time.Time) (*nodeCache, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes, s.Up && s.nodes != nil && s.nodes.watch.startVerify(now)
}
