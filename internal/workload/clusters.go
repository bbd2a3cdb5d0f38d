// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Clusters are all clusters whose Nodes can be read: the one we run in, and those of Cluster API once Connect was called.
type Clusters struct {
	clock      clock.WithTicker
	management client.Reader
	answerTime time.Duration
	home       connector
	audience   audience
	// stopped is closed when the program ends.
	stopped chan struct{}
	// ignored counts updates that wake nobody. stopListening ends what takes the news from Cluster API's cache.
	ignored, stopListening func()
	// following: there is a handler that follows the Clusters. Nobody but Connect asks.
	following bool

	mu      sync.RWMutex
	remote  connector
	records map[client.ObjectKey]*record
	// made is how many records there have been.
	made int
}

// New returns the clusters, of which only Home can be reached until Connect was called. The manager's cache has to keep Nodes as
// StrippedNodes says.
func New(mgr manager.Manager, clk clock.WithTicker) (*Clusters, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	api, err := client.New(config, client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, errors.Wrap(err, "failed to make a client without a cache")
	}
	c := newClusters(clk, &home{api: api, cache: mgr.GetCache(), now: clk.Now}, mgr.GetClient())
	return c, errors.Wrap(mgr.Add(c), "failed to add what follows the clusters")
}

func newClusters(clk clock.WithTicker, local connector, management client.Reader) *Clusters {
	return &Clusters{
		clock: clk, management: management, answerTime: answerTime, home: local, remote: nowhere{}, ignored: func() {}, stopListening: func() {},
		stopped: make(chan struct{}), records: map[client.ObjectKey]*record{},
	}
}

// CountIgnored counts updates of Nodes that wake nobody, such as heartbeats. It is called before anything is read.
func (c *Clusters) CountIgnored(count func()) { c.ignored = count }

// At is the cluster of this Cluster, or Home.
func (c *Clusters) At(key client.ObjectKey) Cluster {
	return &cluster{clusters: c, key: key, record: c.recordOf(key)}
}

func (c *Clusters) connectorOf(key client.ObjectKey) connector {
	if key == Home {
		return c.home
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.remote
}

func (c *Clusters) recordOf(key client.ObjectKey) *record {
	c.mu.RLock()
	r := c.records[key]
	c.mu.RUnlock()
	if r != nil {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r = c.records[key]; r == nil {
		c.made++
		r = &record{number: c.made}
		c.records[key] = r
	}
	return r
}

// exists notes that the Cluster exists.
func (c *Clusters) exists(key client.ObjectKey) {
	r := c.recordOf(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exists, r.orphaned = true, false
}

// orphan notes that the Cluster is gone. What is remembered of it goes when the connection does.
func (r *record) orphan() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orphaned = true
}

// forget drops what is remembered of an orphan without a connection, and says whether it did.
func (c *Clusters) forget(ctx context.Context, key client.ObjectKey, r *record) bool {
	if !r.isOrphaned() {
		return false
	}
	if _, err := c.connectorOf(key).GetUncachedClient(ctx, key); err == nil {
		return false
	}
	c.mu.Lock()
	delete(c.records, key)
	c.mu.Unlock()
	if last := r.present(); last != nil {
		last.end()
	}
	return true
}

func (r *record) isOrphaned() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphaned
}

// tick is how often it is looked whether a cluster that could not be read can be read again. It takes no more than a look at memory.
const tick = time.Second

// Start looks after the clusters that could not be read, until the context ends.
func (c *Clusters) Start(ctx context.Context) error {
	defer close(c.stopped)
	ticker := c.clock.NewTicker(tick)
	defer ticker.Stop()
	var examinations sync.WaitGroup
	defer examinations.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			c.lookAfter(ctx)
			c.examine(ctx, &examinations)
		}
	}
}

// examine sees whether what has been read of clusters can still be believed. Nobody waits for one that hangs.
func (c *Clusters) examine(ctx context.Context, examinations *sync.WaitGroup) {
	now := c.clock.Now()
	c.mu.RLock()
	defer c.mu.RUnlock()
	for key, r := range c.records {
		if roster, due := r.toExamine(now); due {
			examinations.Go(func() { (&cluster{clusters: c, key: key, record: r}).examine(ctx, roster) })
		}
	}
}

// CloseConnections ends what Cluster API's cache leaves to the end of the process, for whoever starts another manager in this one. It is called when
// the manager has ended, and not before: a connection that is being made meanwhile would keep that from ending.
func (c *Clusters) CloseConnections() {
	c.mu.RLock()
	remote, stop := c.remote, c.stopListening
	c.mu.RUnlock()
	stop()
	if closes, can := remote.(interface{ Shutdown() }); can {
		closes.Shutdown()
	}
}

// NeedLeaderElection is false: an instance on standby has to know who was down, too.
func (c *Clusters) NeedLeaderElection() bool { return false }

// lookAfter wakes those who could not read, where they can try again. Cluster API's cache tells when a connection comes and goes, but not when
// a probe that failed succeeds again.
func (c *Clusters) lookAfter(ctx context.Context) {
	type troubled struct {
		key    client.ObjectKey
		record *record
	}
	var all []troubled
	now := c.clock.Now()
	c.mu.RLock()
	for key, r := range c.records {
		if r.isTroubled(now) || key != Home && !r.hasCluster() {
			all = append(all, troubled{key, r})
		}
	}
	c.mu.RUnlock()
	for _, t := range all {
		if t.key != Home && !t.record.hasCluster() {
			// Whoever was about to connect it, or asks about it, may have noted something when its Cluster was gone.
			if exists, _ := c.known(ctx, c.connectorOf(t.key), t.key); !exists {
				t.record.orphan()
			}
		}
		if c.forget(ctx, t.key, t.record) {
			continue
		}
		turned := c.look(ctx, t.key, t.record)
		if retry := t.record.live.retry(now); turned || retry {
			c.audience.tellConnection(t.key)
		}
	}
}

// hasCluster reports whether the watch of Clusters has delivered its Cluster.
func (r *record) hasCluster() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exists
}

func (r *record) isTroubled(now time.Time) bool {
	r.mu.Lock()
	troubled := r.wavering || r.down || r.orphaned
	r.mu.Unlock()
	return troubled || r.live.due(now)
}
