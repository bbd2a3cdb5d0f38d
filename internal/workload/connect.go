// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
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

// probeFailureDelay is how long no probe succeeds before ClusterCache sends an event. It is longer than the interval of the probes.
const probeFailureDelay = 11 * time.Second

// Connect starts to connect the clusters of Cluster API. It is called when Cluster API is served, and again if it has failed. So what calls
// an API server comes first: ClusterCache's controller can be added to a manager only once.
func (c *Clusters) Connect(ctx context.Context, mgr manager.Manager, options Options) error {
	if err := c.watchClusters(ctx, mgr.GetCache()); err != nil {
		return err
	}
	// Kubeconfig Secrets are read without a cache, which needs only the permission to get them.
	cache, err := clustercache.SetupWithManager(ctx, mgr, c.cacheOptions(mgr.GetAPIReader(), &options), controller.Options{
		MaxConcurrentReconciles: cmp.Or(options.Concurrency, defaultConcurrency), NeedLeaderElection: ptr.To(!options.OnStandby),
	})
	if err != nil {
		return errors.Wrap(err, "failed to set up the connections to workload clusters")
	}
	events := cache.GetClusterSource("workload", func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}, clustercache.WatchForProbeFailure(probeFailureDelay))
	c.mu.Lock()
	c.remote = &limitedConnections{
		ClusterCache: cache, scheme: mgr.GetScheme(), nodes: nodeCacheOptions(mgr.GetScheme(), &options),
		clients: map[client.ObjectKey]limitedClient{},
	}
	c.mu.Unlock()
	return errors.Wrap(mgr.Add(&connectionEvents{clusters: c, source: events}), "failed to add the receiver of connection events")
}

// cacheOptions returns the options of ClusterCache. They have no watch filter: the manager's own filter selects checks, also of Clusters
// without the label, and the checks of a Cluster that is not connected would wait for ever.
func (c *Clusters) cacheOptions(secrets client.Reader, options *Options) clustercache.Options {
	return clustercache.Options{
		ClusterFilter: func(cluster *clusterv1.Cluster) bool {
			return hasControlPlane(cluster) && (options.Only == client.ObjectKey{} || options.Only == client.ObjectKeyFromObject(cluster))
		},
		SecretClient: &kubeconfigReader{Reader: secrets, refuseInsecure: options.RefuseInsecure, checked: c.kubeconfigChecked},
		Client: clustercache.ClientOptions{
			UserAgent: options.UserAgent, QPS: options.QPS, Burst: options.Burst,
			// The cached client is not used. These kinds must not be cached if it ever is.
			Cache: clustercache.ClientCacheOptions{DisableFor: []client.Object{
				&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &coordinationv1.Lease{},
			}},
		},
	}
}

// nodeCacheOptions returns the options of the caches of Nodes. No other kind is cached, and its resource needs no discovery.
func nodeCacheOptions(scheme *runtime.Scheme, options *Options) ctrlcache.Options {
	nodes := meta.NewDefaultRESTMapper(nil)
	nodes.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	result := ctrlcache.Options{
		Scheme: scheme, Mapper: nodes, ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Node{}: StrippedNodes()},
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

// watchClusters records which Clusters exist, because ClusterCache sends no event when one is deleted. A second call does nothing.
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

// connectionEvents receives the events of ClusterCache, which blocks until each event is received. So it runs on standby, too, and
// controllers do not receive them directly: a controller that has not started would block ClusterCache.
type connectionEvents struct {
	clusters *Clusters
	source   source.Source
}

// NeedLeaderElection is false: an instance on standby has to record which connections were down.
func (e *connectionEvents) NeedLeaderElection() bool { return false }

// Start handles events until the context ends. Later events are received and dropped: ClusterCache ends after this runnable, and would
// block until the manager's timeout.
func (e *connectionEvents) Start(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer context.AfterFunc(ctx, queue.ShutDown)()
	if err := e.source.Start(context.WithoutCancel(ctx), queue); err != nil {
		return errors.Wrap(err, "failed to receive the events of connections to workload clusters")
	}
	for {
		request, shutDown := queue.Get()
		if shutDown {
			return nil
		}
		e.clusters.refresh(ctx, request.NamespacedName, e.clusters.stateOf(request.NamespacedName))
		e.clusters.connectionListeners.notify(request.NamespacedName)
		queue.Forget(request)
		queue.Done(request)
	}
}

// ManagementCluster is the key of the management cluster.
var ManagementCluster = client.ObjectKey{}

// connector is the part of ClusterCache that this package uses. home implements it for the management cluster.
type connector interface {
	GetUncachedClient(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	GetHealthCheckingState(ctx context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState
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

// GetUncachedClient implements connector.
func (notConnected) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	return nil, clustercache.ErrClusterNotConnected
}

// GetHealthCheckingState implements connector.
func (notConnected) GetHealthCheckingState(context.Context, client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{}
}

// Watch implements connector.
func (notConnected) Watch(context.Context, client.ObjectKey, *nodeWatch) error {
	return clustercache.ErrClusterNotConnected
}
