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

// ManagementCluster is the key of the management cluster.
var ManagementCluster = client.ObjectKey{}

// connector is the part of ClusterCache that this package uses. home implements it for the management cluster.
type connector interface {
	GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	GetHealthCheckingState(ctx context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState
	// Watch passes the cache of the present connection to the watcher, once for each connection.
	Watch(ctx context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error
}

// home is the management cluster. It is always connected: without its API server the manager loses leadership and exits.
type home struct {
	api   client.Client
	cache ctrlcache.Cache
	now   func() time.Time

	mu      sync.Mutex
	watched bool
}

// GetUncachedClient implements connector.
func (h *home) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return h.api, nil
}

// GetHealthCheckingState implements connector.
func (h *home) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	now := h.now()
	return clustercache.HealthCheckingState{LastProbeTime: now, LastProbeSuccessTime: now}
}

// Watch implements connector.
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

// notConnected is the connector while Cluster API is not served.
type notConnected struct{}

// GetUncachedClient implements connector.
func (notConnected) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, clustercache.ErrClusterNotConnected
}

// GetHealthCheckingState implements connector.
func (notConnected) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{}
}

// Watch implements connector.
func (notConnected) Watch(context.Context, client.ObjectKey, clustercache.Watcher) error {
	return clustercache.ErrClusterNotConnected
}
