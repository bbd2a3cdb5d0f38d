// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options are how workload clusters are connected.
type Options struct {
	// UserAgent is sent with each request. It is required.
	UserAgent string
	// Concurrency is how many clusters are connected or probed at the same time; 100 if it is zero. A cluster that hangs takes one.
	Concurrency int
	// QPS and Burst limit the requests to one workload cluster.
	QPS   float32
	Burst int
	// SyncPeriod is the resync period of the caches of workload clusters; controller-runtime's default if it is zero.
	SyncPeriod time.Duration
	// OnStandby is whether clusters are connected while another instance leads.
	OnStandby bool
	// Only is the only Cluster to connect; empty for all.
	Only client.ObjectKey
	// RefuseInsecure is whether kubeconfigs with insecure fields are not used.
	RefuseInsecure bool
}

// defaultConcurrency is that of Cluster API.
const defaultConcurrency = 100

// Connect starts to connect the clusters of Cluster API. It is called when Cluster API is served, and again if it has failed. So what calls
// an API server comes first: a controller can be added to a manager only once.
func (c *Clusters) Connect(ctx context.Context, mgr manager.Manager, options Options) error {
	if options.UserAgent == "" {
		return errors.New("failed to set up the connections to workload clusters: a user agent is required")
	}
	if err := c.watchClusters(ctx, mgr.GetCache()); err != nil {
		return err
	}
	remote := &connections{
		clusters: c, options: &options, scheme: mgr.GetScheme(), clock: c.clock,
		// Kubeconfig Secrets are read without a cache, which needs only the permission to get them.
		kubeconfigs:   &kubeconfigReader{Reader: mgr.GetAPIReader(), refuseInsecure: options.RefuseInsecure, checked: c.kubeconfigChecked},
		probeInterval: probeInterval, probeTimeout: probeTimeout, connectInterval: connectInterval,
		all: map[client.ObjectKey]*connectionState{}, shares: map[string]answerMemory{},
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("connection").For(&clusterv1.Cluster{}).WithOptions(controller.Options{
		MaxConcurrentReconciles: cmp.Or(options.Concurrency, defaultConcurrency), NeedLeaderElection: ptr.To(!options.OnStandby),
	}).Complete(remote)
	if err != nil {
		return errors.Wrap(err, "failed to set up the connections to workload clusters")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remote = remote
	return nil
}

// connects reports whether a Cluster is connected. There is no watch filter: the manager's own filter selects checks, also of Clusters
// without the label, and the checks of a Cluster that is not connected would wait for ever.
func (o *Options) connects(cluster *clusterv1.Cluster) bool {
	return hasControlPlane(cluster) && (o.Only == client.ObjectKey{} || o.Only == client.ObjectKeyFromObject(cluster))
}

// nodeCacheOptions returns the options of the caches of Nodes. No other kind is cached, and its resource needs no discovery.
func nodeCacheOptions(scheme *runtime.Scheme, options *Options) ctrlcache.Options {
	nodes := meta.NewDefaultRESTMapper(nil)
	nodes.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	result := ctrlcache.Options{
		Scheme: scheme, Mapper: nodes, ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Node{}: StrippedNodes()},
		NewInformer: newNodeInformer,
	}
	if options.SyncPeriod > 0 {
		result.SyncPeriod = &options.SyncPeriod
	}
	return result
}

// hasControlPlane reports whether a Cluster can be connected: until its control plane is initialized, each attempt would fail and be logged.
// The event of that change connects it. All other Clusters are connected, also without a check: a new check is evaluated at once then.
func hasControlPlane(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) ||
		meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
}

// kubeconfigChecked records the insecure fields of the kubeconfig of a Cluster, and why it is not used; nil if it is.
func (c *Clusters) kubeconfigChecked(key client.ObjectKey, insecure string, refused *ReadError) {
	s := c.stateOf(key)
	s.mu.Lock()
	s.Insecure, s.kubeconfigErr = insecure, refused
	s.mu.Unlock()
	if refused != nil {
		c.connectionListeners.notify(key)
	}
}

// watchClusters records which Clusters exist, and which were deleted. A second call does nothing.
func (c *Clusters) watchClusters(ctx context.Context, cache ctrlcache.Cache) error {
	if c.watchingClusters {
		return nil
	}
	informer, err := cache.GetInformer(ctx, &clusterv1.Cluster{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return errors.Wrap(err, "failed to watch Clusters")
	}
	markExisting := func(object any) {
		if cluster, is := object.(*clusterv1.Cluster); is {
			c.markClusterExists(client.ObjectKeyFromObject(cluster))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    markExisting,
		UpdateFunc: func(_, object any) { markExisting(object) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				c.stateOf(client.ObjectKey{Namespace: key.Namespace, Name: key.Name}).markClusterDeleted()
			}
		},
	})
	c.watchingClusters = err == nil
	return errors.Wrap(err, "failed to watch Clusters")
}

// ManagementCluster is the key of the management cluster.
var ManagementCluster = client.ObjectKey{}

// connector makes connections. home implements it for the management cluster.
type connector interface {
	// Client returns a client without a cache of the present connection.
	Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	Probes(cluster client.ObjectKey) probes
	// Watch starts the watch with a cache of the present connection, unless it has started.
	Watch(ctx context.Context, cluster client.ObjectKey, watch *nodeWatch) error
}

// home is the management cluster. It is always connected: without its API server the manager loses leadership and exits.
type home struct {
	api   client.Client
	cache ctrlcache.Cache
	now   func() time.Time

	mu      sync.Mutex
	watched bool
}

// Client implements connector.
func (h *home) Client(context.Context, client.ObjectKey) (client.Client, error) {
	return h.api, nil
}

// Probes implements connector.
func (h *home) Probes(client.ObjectKey) probes { return probes{succeeded: h.now(), steady: true} }

// Watch implements connector.
func (h *home) Watch(ctx context.Context, _ client.ObjectKey, watch *nodeWatch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched {
		return nil
	}
	if _, err := watch.start(ctx, h.cache, nil); err != nil {
		return err
	}
	h.watched = true
	return nil
}

// notConnected is the connector while Cluster API is not served.
type notConnected struct{}

// Client implements connector.
func (notConnected) Client(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, errNotConnected
}

// Probes implements connector.
func (notConnected) Probes(client.ObjectKey) probes { return probes{} }

// Watch implements connector.
func (notConnected) Watch(context.Context, client.ObjectKey, *nodeWatch) error {
	return errNotConnected
}
