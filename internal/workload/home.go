// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Home is the key of the cluster that this program runs in.
var Home = client.ObjectKey{}

// connector is what is needed of Cluster API's ClusterCache. The other connector is that of the cluster we run in.
type connector interface {
	GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	GetHealthCheckingState(ctx context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState
	// Watch hands the cache of the present connection to the watcher, once for each connection.
	Watch(ctx context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error
}

// home is the cluster we run in, by what the manager has of it. It is always connected: without its API server the lead is lost, and we end.
type home struct {
	api   client.Client
	cache ctrlcache.Cache
	now   func() time.Time

	mu      sync.Mutex
	watched bool
}

// GetUncachedClient is that of a connector.
func (h *home) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return h.api, nil
}

// GetHealthCheckingState is that of a connector.
func (h *home) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	now := h.now()
	return clustercache.HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
}

// Watch is that of a connector.
func (h *home) Watch(_ context.Context, _ client.ObjectKey, watcher clustercache.Watcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched {
		return nil
	}
	if err := watcher.Watch(h.cache); err != nil {
		return err
	}
	h.watched = true
	return nil
}

// nowhere is the connector as long as Cluster API is not there.
type nowhere struct{}

// GetUncachedClient is that of a connector.
func (nowhere) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, clustercache.ErrClusterNotConnected
}

// GetHealthCheckingState is that of a connector.
func (nowhere) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{}
}

// Watch is that of a connector.
func (nowhere) Watch(context.Context, client.ObjectKey, clustercache.Watcher) error {
	return clustercache.ErrClusterNotConnected
}
