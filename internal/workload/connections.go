// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The times of connections are those of Cluster API.
const (
	// probeInterval and probeTimeout are those of the probes of a connection, and connectInterval is the time between attempts to connect.
	probeInterval, probeTimeout, connectInterval = 10 * time.Second, 5 * time.Second, 30 * time.Second
	// requestTimeout is that of one request.
	requestTimeout = 10 * time.Second
	// defaultQPS and defaultBurst limit the requests to one cluster.
	defaultQPS, defaultBurst = 20, 30
	// probeFailuresUntilClosed is how many probes in a row must fail before a connection is closed, and made again.
	probeFailuresUntilClosed = 5
)

// connections connects Clusters and probes them. Everything that it reads has limits.
type connections struct {
	clusters    *Clusters
	kubeconfigs *kubeconfigReader
	options     *Options
	scheme      *runtime.Scheme
	clock       clock.Clock
	// The constants of these names, unless a test shortens them.
	probeInterval, probeTimeout, connectInterval time.Duration

	mu  sync.RWMutex
	all map[client.ObjectKey]*connectionState
	// shares are those of the namespaces of Clusters.
	shares map[string]answerMemory
}

// connectionState is what is known of the connection to one Cluster.
type connectionState struct {
	uid types.UID
	probes
	// next is when the next probe, or attempt to connect, is due.
	next time.Time
	// link is nil without a connection.
	link *link
}

// probes are the results of the probes of a cluster.
type probes struct {
	// succeeded is when the last successful probe was; zero if there was none. failures counts those since then that failed.
	succeeded time.Time
	failures  int
	// steady is whether the API server was reachable in the grace period before the connection was made, as far as it shows.
	steady bool
}

// link is a connection to a cluster.
type link struct {
	config *rest.Config
	api    client.Client
	prober rest.Interface
	share  answerMemory
	// updates limits the updates of Nodes.
	updates *rate.Limiter
	steady  bool
}

// Client implements connector.
func (c *connections) Client(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	if l := c.linkTo(cluster); l != nil {
		return l.api, nil
	}
	return nil, errNotConnected
}

func (c *connections) linkTo(cluster client.ObjectKey) *link {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if state := c.all[cluster]; state != nil {
		return state.link
	}
	return nil
}

// shareOf returns the memory that the answers of the clusters of a namespace share.
func (c *connections) shareOf(namespace string) answerMemory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.shares[namespace]; !known {
		c.shares[namespace] = allMemory.ofNamespace()
	}
	return c.shares[namespace]
}

// Probes implements connector.
func (c *connections) Probes(cluster client.ObjectKey) probes {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if state := c.all[cluster]; state != nil {
		return state.probes
	}
	return probes{}
}

// Watch implements connector. The cache belongs to one connection, as its config does, and ends with the nodeCache.
func (c *connections) Watch(ctx context.Context, cluster client.ObjectKey, watch *nodeWatch) error {
	watch.state.watching.Lock()
	defer watch.state.watching.Unlock()
	l := c.linkTo(cluster)
	if l == nil {
		return errNotConnected
	}
	if nodes := watch.state.currentNodes(); nodes != nil && nodes.config == l.config && !nodes.retryDue(c.clock.Now()) {
		return nil
	}
	limits := &watchLimits{updates: l.updates}
	cache, err := ctrlcache.New(trimmed(l.config, l.share, limits), nodeCacheOptions(c.scheme, c.options))
	if err != nil {
		return errors.Wrap(err, "failed to create a cache of Nodes")
	}
	next, err := watch.start(ctx, cache, l.config)
	if err != nil {
		return err
	}
	limits.nodes.Store(next)
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

// Reconcile connects a Cluster or probes its connection, if that is due.
func (c *connections) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, cluster := request.NamespacedName, &clusterv1.Cluster{}
	if err := c.clusters.management.Get(ctx, key, cluster); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, errors.Wrapf(err, "failed to read Cluster %s", key)
	}
	// A Cluster that does not exist has no control plane.
	if !c.options.connects(cluster) {
		c.remove(ctx, key)
		return reconcile.Result{}, nil
	}
	if state := c.stateOf(key); state.uid != "" && state.uid != cluster.UID {
		c.remove(ctx, key)
	}
	state := c.stateOf(key)
	if early := state.next.Sub(c.clock.Now()); early > 0 {
		return reconcile.Result{RequeueAfter: early}, nil
	}
	before := state.link
	c.probe(ctx, key, &state)
	if ctx.Err() != nil {
		return reconcile.Result{}, nil //nolint:nilerr // The manager stops.
	}
	state.uid = cluster.UID
	c.mu.Lock()
	c.all[key] = &state
	c.mu.Unlock()
	c.notify(ctx, key, before != state.link)
	return reconcile.Result{RequeueAfter: max(state.next.Sub(c.clock.Now()), time.Millisecond)}, nil
}

// stateOf returns a copy of the state. One reconcile at a time changes it.
func (c *connections) stateOf(key client.ObjectKey) connectionState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if state := c.all[key]; state != nil {
		return *state
	}
	return connectionState{}
}

// remove closes the connection to a Cluster that does not exist, or must not be connected.
func (c *connections) remove(ctx context.Context, key client.ObjectKey) {
	state := c.stateOf(key)
	c.mu.Lock()
	delete(c.all, key)
	c.mu.Unlock()
	if state.link != nil {
		c.notify(ctx, key, true)
	}
}

// notify passes on a connection that has begun or ended, or that went up or down.
func (c *connections) notify(ctx context.Context, key client.ObjectKey, changed bool) {
	if c.clusters.refresh(ctx, key, c.clusters.stateOf(key)) || changed {
		c.clusters.connectionListeners.notify(key)
	}
}

// probe connects a Cluster, or probes its connection, and closes one that fails.
func (c *connections) probe(ctx context.Context, key client.ObjectKey, state *connectionState) {
	var err error
	if state.link == nil {
		state.link, err = c.connect(ctx, key)
	} else {
		err = c.answers(ctx, state.link)
	}
	now := c.clock.Now()
	state.next = now.Add(c.probeInterval)
	if err == nil {
		state.probes = probes{succeeded: now, steady: state.link.steady}
		return
	}
	state.failures++
	switch {
	case apierrors.IsUnauthorized(err) && state.link != nil:
		// The kubeconfig may have been renewed.
		state.link, state.next = nil, now
	case state.link == nil || state.failures >= probeFailuresUntilClosed:
		state.link, state.next = nil, now.Add(c.connectInterval)
		// The text contains no secret and no address.
		ctrl.LoggerFrom(ctx).Info("Workload cluster is not connected", "cause", CauseOf(err))
	}
}

// connect makes a connection, and verifies that it leads to an API server with Nodes.
func (c *connections) connect(ctx context.Context, key client.ObjectKey) (*link, error) {
	config, err := c.kubeconfigs.read(ctx, key)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.Timeout = c.options.UserAgent, requestTimeout
	config.QPS, config.Burst = cmp.Or(c.options.QPS, defaultQPS), cmp.Or(c.options.Burst, defaultBurst)
	l := &link{config: config, share: c.shareOf(key.Namespace).ofCluster(), updates: newUpdateLimiter()}
	limited := rest.CopyConfig(config)
	limitAnswers(limited, l.share)
	if observed := c.clusters.observed; observed != nil {
		observed.FenceChanges(limited)
	}
	transport, err := rest.HTTPClientFor(limited)
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a transport")
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(limited, transport)
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a client for probes")
	}
	l.prober = served.RESTClient()
	if err := c.answers(ctx, l); err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(limited, transport)
	if err == nil {
		_, err = mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), corev1.SchemeGroupVersion.Version)
	}
	if err != nil {
		return nil, errors.Wrap(err, "failed to discover the API")
	}
	api, err := client.New(limited, client.Options{Scheme: c.scheme, HTTPClient: transport, Mapper: mapper})
	if err != nil {
		return nil, errors.Wrap(err, "failed to create a client")
	}
	l.api = holdingClient{api}
	l.steady = c.steady(ctx, l.prober)
	return l, nil
}

// controllerManager is the Lease of kube-controller-manager, which needs the API server all the time, and ends when it cannot renew it.
const controllerManager = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"

// steady reports whether kube-controller-manager has held its Lease for a grace period, and still does. Without such a Lease, it is false. It
// loses the Lease when it cannot renew it for less than the duration of the Lease.
func (c *connections) steady(ctx context.Context, api rest.Interface) bool {
	ctx, cancel := context.WithTimeout(ctx, c.probeTimeout)
	defer cancel()
	var lease coordinationv1.Lease
	answer, err := api.Get().AbsPath(controllerManager).DoRaw(ctx)
	if err != nil || json.Unmarshal(answer, &lease) != nil || lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil {
		return false
	}
	acquired, renewed := lease.Spec.AcquireTime.Time, lease.Spec.RenewTime.Time
	short := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, math.MaxInt32))*time.Second <= ShortOutage
	return LeaseHolder(&lease) != "" && short && renewed.Sub(acquired) >= ReconnectGracePeriod && c.clock.Now().Sub(renewed).Abs() < ShortOutage
}

// answers returns an error unless the API server is ready. One that does not serve /readyz, or not for this user, or reports that a part of it
// is not ready, has to serve discovery.
func (c *connections) answers(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, c.probeTimeout)
	defer cancel()
	_, err := l.prober.Get().AbsPath("/readyz").DoRaw(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsUnauthorized(err) && !apierrors.IsTooManyRequests(err) {
		_, err = l.prober.Get().AbsPath("/api").DoRaw(ctx)
	}
	return err
}
