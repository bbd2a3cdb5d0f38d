// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeWatch fills the cache of Nodes of a new connection. ClusterCache calls it once for each connection.
type nodeWatch struct {
	clusters *Clusters
	key      client.ObjectKey
	state    *clusterState
}

// Name identifies the watch, so that ClusterCache adds it once for each connection. It differs for each state: the watch of a deleted
// state must not keep the next one from being added.
func (w *nodeWatch) Name() string { return fmt.Sprintf("remedy-nodes-%d", w.state.id) }

// Object returns a Node.
func (w *nodeWatch) Object() client.Object { return &corev1.Node{} }

// Watch starts the watch. It does not wait until the cache has synced, because the connection is locked meanwhile.
func (w *nodeWatch) Watch(cache ctrlcache.Cache) error {
	informer, err := cache.GetInformer(context.Background(), w.Object(), ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	next := newNodeCache()
	if watched, is := informer.(interface{ LastSyncResourceVersion() string }); is {
		next.watchVersion = watched.LastSyncResourceVersion
	}
	handler := nodeEventHandler{nodeCache: next, notify: w.clusters.nodeNotifier(w.key), ignored: w.clusters.countIgnored}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return errors.Wrap(err, "failed to watch Nodes")
	}
	w.state.setNodeCache(next)
	go func() {
		select {
		case <-registration.HasSyncedChecker().Done():
			next.markSynced()
			w.clusters.subscribers.notifyConnection(w.key)
		case <-next.closed:
		case <-w.clusters.stopped:
		}
	}()
	return nil
}
