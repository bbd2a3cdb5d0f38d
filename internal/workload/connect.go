// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
	// UserAgent is who we say we are. It is required.
	UserAgent string
	// Concurrency is how many clusters are connected or probed at once; a hundred if it is zero. One that hangs takes up one of them.
	Concurrency int
	// QPS and Burst are how many questions one workload cluster is asked.
	QPS   float32
	Burst int
	// SyncPeriod is how often caches of workload clusters are gone through again; that of controller-runtime if it is zero.
	SyncPeriod time.Duration
	// OnStandby: clusters are connected already while another instance leads.
	OnStandby bool
	// Secrets reads the Secrets with kubeconfigs. Where it is nil they are read past the cache, which needs no other right than to get them.
	Secrets client.Reader
}

// defaultConcurrency is that of Cluster API.
const defaultConcurrency = 100

// probeSilence is how long no probe succeeds until Cluster API's cache says so: longer than it waits between two of them.
const probeSilence = 11 * time.Second

// Connect connects the clusters of Cluster API from now on. It is called when Cluster API is there, and again if it has failed: so what asks an API
// server comes first, as the controller of Cluster API's cache can be added to a manager only once.
func (c *Clusters) Connect(ctx context.Context, mgr manager.Manager, options Options) error {
	if err := c.followClusters(ctx, mgr.GetCache()); err != nil {
		return err
	}
	secrets := options.Secrets
	if secrets == nil {
		secrets = mgr.GetAPIReader()
	}
	cache, err := clustercache.SetupWithManager(ctx, mgr, c.cacheOptions(secrets, &options), controller.Options{
		MaxConcurrentReconciles: cmp.Or(options.Concurrency, defaultConcurrency), NeedLeaderElection: ptr.To(!options.OnStandby),
	})
	if err != nil {
		return errors.Wrap(err, "failed to set up the connections to workload clusters")
	}
	news := cache.GetClusterSource("workload", func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}, clustercache.WatchForProbeFailure(probeSilence))
	c.mu.Lock()
	c.remote = cache
	c.mu.Unlock()
	return errors.Wrap(mgr.Add(&follow{clusters: c, news: news}), "failed to add what follows the connections")
}

// cacheOptions are what Cluster API's cache is told. A watch filter is not among them: ours selects checks, whatever their Cluster is labelled, and
// a Cluster that is not connected would leave its checks waiting for ever.
func (c *Clusters) cacheOptions(secrets client.Reader, options *Options) clustercache.Options {
	told := clustercache.Options{
		SecretClient: &screenedSecrets{Reader: secrets, screened: c.screened},
		Cache: clustercache.CacheOptions{
			DefaultTransform: ctrlcache.TransformStripManagedFields(),
			ByObject:         map[client.Object]ctrlcache.ByObject{&corev1.Node{}: StrippedNodes()},
		},
		Client: clustercache.ClientOptions{
			UserAgent: options.UserAgent, QPS: options.QPS, Burst: options.Burst,
			// Nothing but Nodes is ever cached of a workload cluster, and its cached client is not given out. Should it be one day:
			Cache: clustercache.ClientCacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &coordinationv1.Lease{}}},
		},
	}
	if options.SyncPeriod > 0 {
		told.Cache.SyncPeriod = &options.SyncPeriod
	}
	return told
}

// screened notes why the kubeconfig of a Cluster is not used; nil if it is.
func (c *Clusters) screened(key client.ObjectKey, refused *ReadError) {
	r := c.recordOf(key)
	r.mu.Lock()
	r.refused = refused
	r.mu.Unlock()
	if refused != nil {
		c.audience.tellConnection(key)
	}
}

// followClusters sees to it that clusters are forgotten whose Cluster is gone: Cluster API's cache does not tell. What follows them already goes on.
func (c *Clusters) followClusters(ctx context.Context, cache ctrlcache.Cache) error {
	if c.following {
		return nil
	}
	informer, err := cache.GetInformer(ctx, &clusterv1.Cluster{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return errors.Wrap(err, "failed to watch Clusters")
	}
	there := func(object any) {
		if cluster, is := object.(*clusterv1.Cluster); is {
			c.exists(client.ObjectKeyFromObject(cluster))
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    there,
		UpdateFunc: func(_, object any) { there(object) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
				c.recordOf(client.ObjectKey{Namespace: key.Namespace, Name: key.Name}).orphan()
			}
		},
	})
	c.following = err == nil
	return errors.Wrap(err, "failed to watch Clusters")
}

// follow listens to Cluster API's cache, which stands still when nobody does. That is why it is followed on standby, too, and why the
// controllers do not listen to it themselves: one that has not been started would stop it for all.
type follow struct {
	clusters *Clusters
	news     source.Source
}

// NeedLeaderElection is false: an instance on standby has to know who was down, too.
func (f *follow) NeedLeaderElection() bool { return false }

// Start listens until the context ends. What Cluster API's cache has to say after that is still taken from it: it ends later than we do, and would
// wait for a listener until the manager gives up waiting for it.
func (f *follow) Start(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer context.AfterFunc(ctx, queue.ShutDown)()
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.clusters.mu.Lock()
	f.clusters.stopListening = stop
	f.clusters.mu.Unlock()
	if err := f.news.Start(listening, queue); err != nil {
		stop()
		return errors.Wrap(err, "failed to follow the connections to workload clusters")
	}
	for {
		request, shutDown := queue.Get()
		if shutDown {
			return nil
		}
		f.clusters.look(ctx, request.NamespacedName, f.clusters.recordOf(request.NamespacedName))
		f.clusters.audience.tellConnection(request.NamespacedName)
		queue.Forget(request)
		queue.Done(request)
	}
}
