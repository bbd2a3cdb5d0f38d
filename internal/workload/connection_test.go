// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestConnection_NeverConnected_HasNoGracePeriod(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.wire.set(func(w *wire) {
		w.connected, w.probes.succeeded = false, time.Time{}
	})
	seen := b.connection(t)
	g.Expect(seen.Up).To(BeFalse())
	g.Expect(ReadErrorReasonOf(seen.Err)).To(Equal(NotConnected))
	b.wire.connect(noon.Add(time.Minute))
	g.Expect(b.connection(t).GracePeriodEnd()).To(BeZero())
}

// Two goroutines read the connection. The first reads that it is not up and is slow; meanwhile it comes up, and the second reads that.
func TestConnection_ReadTwiceAtOnce_KeepsTheNewerResult(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.wire.set(func(w *wire) { w.connected, w.probes = false, probes{} })
	second := make(chan struct{})
	b.management.duringGet = func() {
		b.wire.connect(noon)
		go func() {
			defer close(second)
			b.connection(t)
		}()
		// Either the second waits for the first, or it does not and gets its result now.
		if s := b.stateOf(prod); s.refreshing.TryLock() {
			s.refreshing.Unlock()
			<-second
		}
	}
	b.connection(t)
	<-second
	g.Expect(b.connection(t)).To(Equal(Connection{Up: true, LastSeen: noon}), "no grace period: the connection was never down")
}

func TestConnection_Restored_HasGracePeriod(t *testing.T) {
	tests := []struct {
		why  string
		down func(b *bench)
		err  ReadErrorReason
	}{
		{"the connection was cut", func(b *bench) { b.wire.disconnect() }, NotConnected},
		{"two probes in a row failed", func(b *bench) { b.wire.fails(2) }, NotAnswering},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, node("a", ""))
			b.connection(t)
			test.down(b)
			b.clock.Step(time.Minute)
			seen := b.connection(t)
			g.Expect(seen.Up).To(BeFalse())
			g.Expect(ReadErrorReasonOf(seen.Err)).To(Equal(test.err))
			g.Expect(seen.LastSeen).To(Equal(noon))
			for _, r := range append(b.read(t, Target{Name: "a"}), b.readLive(t, Target{Name: "a"})...) {
				g.Expect(r.State).To(Equal(health.Unreadable), "what the cache holds is old")
				g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(test.err))
			}
			_, err := b.Get(prod).Nodes(t.Context())
			g.Expect(ReadErrorReasonOf(err)).To(Equal(test.err))
			_, err = b.Get(prod).Client(t.Context())
			g.Expect(ReadErrorReasonOf(err)).To(Equal(test.err))
			gets, lists := b.api.asked()
			g.Expect(gets+lists).To(BeZero(), "no call waits for a cluster that is down")

			b.clock.Step(time.Minute)
			back := noon.Add(2 * time.Minute)
			b.wire.connect(back)
			seen = b.connection(t)
			g.Expect(seen).To(Equal(Connection{Up: true, LastSeen: back, RestoredAt: back}))
			g.Expect(seen.GracePeriodEnd()).To(Equal(back.Add(50 * time.Second)))
			g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
			b.clock.Step(time.Hour)
			g.Expect(b.connection(t).RestoredAt).To(Equal(back), "that stays")
			g.Expect(b.notifications()).To(Equal(3), "up, down, and up")
		})
	}
}

func TestConnection_OneFailedProbe_StaysUp(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.connection(t)
	b.wire.fails(1)
	g.Expect(b.connection(t).Up).To(BeTrue())
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	b.wire.fails(0)
	g.Expect(b.connection(t).GracePeriodEnd()).To(BeZero())
}

func TestConnection_DownAtStart_HasGracePeriod(t *testing.T) {
	for _, initialized := range []bool{true, false} {
		g := NewWithT(t)
		b := newBench(t)
		b.management.initialized = initialized
		b.wire.disconnect()
		g.Expect(b.connection(t).Up).To(BeFalse())
		b.wire.connect(noon)
		g.Expect(b.connection(t).GracePeriodEnd().IsZero()).To(Equal(!initialized))
	}
	for failure, restored := range map[error]bool{
		errors.New("unreadable"): true, apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, prod.Name): false,
	} {
		g := NewWithT(t)
		b := newBench(t)
		b.management.failure = failure
		b.wire.disconnect()
		b.connection(t)
		b.wire.connect(noon)
		g.Expect(b.connection(t).GracePeriodEnd().IsZero()).To(Equal(!restored), failure.Error())
	}
}

func TestConnectionSource_ProbesChange_NotifiesOnce(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.connection(t)
	b.wire.fails(1)
	b.connection(t)
	told := b.notifications()
	refresh := func(more int) {
		t.Helper()
		b.refreshUnreadable(t.Context())
		told += more
		g.Expect(b.notifications()).To(Equal(told))
	}
	b.wire.fails(2)
	refresh(1)
	refresh(0)
	b.wire.connect(b.clock.Now())
	refresh(1)
	g.Expect(b.connection(t).RestoredAt).To(Equal(noon))
	refresh(0)
}

// expectBackoff reads these targets, and again after each notification.
func (b *bench) expectBackoff(t *testing.T, reason ReadErrorReason, targets ...Target) {
	t.Helper()
	g := NewWithT(t)
	for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute} {
		g.Expect(ReadErrorReasonOf(b.read(t, targets...)[0].Err)).To(Equal(reason))
		told := b.notifications()
		b.clock.Step(wait - time.Second)
		b.refreshUnreadable(t.Context())
		g.Expect(b.notifications()).To(Equal(told), "before %s", wait)
		b.clock.Step(time.Second)
		b.refreshUnreadable(t.Context())
		g.Expect(b.notifications()).To(Equal(told+1), "after %s", wait)
	}
	g.Expect(ReadErrorReasonOf(b.read(t, targets...)[0].Err)).To(Equal(reason))
}

func TestConnectionSource_FailedRead_NotifiesWithBackoff(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.api.failure = apierrors.NewInternalError(errors.New("etcd"))
	b.expectBackoff(t, Failing, Target{Name: "a"})
	b.api.set(func(a *apiServer) { a.failure = nil })
	b.clock.Step(2 * time.Minute)
	b.refreshUnreadable(t.Context())
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Gone))
	b.clock.Step(time.Hour)
	told := b.notifications()
	b.refreshUnreadable(t.Context())
	g.Expect(b.notifications()).To(Equal(told), "it could be read")
	b.api.set(func(a *apiServer) { a.failure = apierrors.NewInternalError(errors.New("etcd")) })
	b.read(t, Target{Name: "a"})
	b.clock.Step(minRetryDelay)
	b.refreshUnreadable(t.Context())
	g.Expect(b.notifications()).To(Equal(told+1), "the delay starts again at its minimum")
}

// TestConnectionSource_WrongCluster_NotifiesWithBackoff has a cluster whose API server answers every call.
func TestConnectionSource_WrongCluster_NotifiesWithBackoff(t *testing.T) {
	newBench(t, node("x", "id://x")).expectBackoff(t, WrongCluster, Target{"a", "id://a"}, Target{"b", "id://b"})
}

func TestRead_CacheNotSynced_IsUnreadable(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.wire.set(func(w *wire) { w.read = false })
	g.Expect(ReadErrorReasonOf(b.read(t, Target{Name: "a"})[0].Err)).To(Equal(NotReadYet))
	_, err := b.Get(prod).Nodes(t.Context())
	g.Expect(ReadErrorReasonOf(err)).To(Equal(NotReadYet))
	b.stateOf(prod).currentNodes().markSynced()
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
}

func TestRead_WatchFails_IsUnreadable(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.wire.set(func(w *wire) { w.refuse = errors.New("no such kind") })
	r := b.read(t, Target{Name: "a"})[0]
	g.Expect(r.State).To(Equal(health.Unreadable))
	g.Expect(ReadErrorReasonOf(r.Err)).To(Equal(Failing))
}

func TestConnection_Restored_HasNewCache(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	first := b.stateOf(prod).currentNodes()
	b.wire.disconnect()
	b.connection(t)
	g.Expect(b.stateOf(prod).currentNodes()).To(BeNil())
	g.Expect(first.closed).To(BeClosed())
	b.wire.connect(noon)
	g.Expect(b.read(t, Target{Name: "a"})[0].State).To(Equal(health.Present))
	second := b.stateOf(prod).currentNodes()
	g.Expect(second).ToNot(BeIdenticalTo(first))
	g.Expect(second.closed).ToNot(BeClosed())
}

// TestRefresh_NewCacheMeanwhile_IsKept has a refresh that reads that the connection is down, and continues when a new connection is up.
func TestRefresh_NewCacheMeanwhile_IsKept(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, node("a", ""))
	b.read(t, Target{Name: "a"})
	b.wire.disconnect()
	next := newNodeCache(transitions{clock.RealClock{}, ClockTolerance})
	next.markSynced()
	b.wire.meanwhile = func() { b.stateOf(prod).setNodeCache(next) }
	b.connection(t)
	g.Expect(b.stateOf(prod).currentNodes()).To(BeIdenticalTo(next))
	g.Expect(next.closed).ToNot(BeClosed())
}

// TestRefresh_ManagementClusterHangs_TimesOut reads a Cluster from the management cluster.
func TestRefresh_ManagementClusterHangs_TimesOut(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.callTimeout = 20 * time.Millisecond
	b.management.hangs = true
	b.wire.disconnect()
	g.Expect(b.connection(t).Up).To(BeFalse())
	b.wire.connect(noon)
	g.Expect(b.connection(t).GracePeriodEnd()).ToNot(BeZero(), "where that cannot be found out it was an outage")
}

func TestRead_NoClusterAPI_OnlyManagementCluster(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.remote = notConnected{}
	g.Expect(ReadErrorReasonOf(b.connection(t).Err)).To(Equal(NotConnected))
	g.Expect(ReadErrorReasonOf(b.read(t, Target{Name: "a"})[0].Err)).To(Equal(NotConnected))
	g.Expect(notConnected{}.Watch(t.Context(), prod, nil)).ToNot(Succeed())
	local := &home{api: b.api, now: b.clock.Now}
	b.home = local
	g.Expect(b.Get(ManagementCluster).Connection(t.Context())).To(Equal(Connection{Up: true, LastSeen: noon}))
	g.Expect(b.Get(ManagementCluster).Live().Read(t.Context(), ReadRequest{Initialized: true, Targets: []Target{{Name: "a"}}})[0].State).To(Equal(health.Gone))
}

func TestSources_Notification_EnqueuesRequests(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	request := func(cluster client.ObjectKey, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: cluster.Name, Name: name}}
	}
	g.Expect(b.NodeSource(func(_ context.Context, c NodeChange) []reconcile.Request {
		return []reconcile.Request{request(c.Cluster, c.Name)}
	}).Start(t.Context(), queue)).To(Succeed())
	g.Expect(b.ConnectionSource(func(ctx context.Context, key client.ObjectKey) []reconcile.Request {
		b.Get(key).Connection(ctx) // A listener may read.
		return []reconcile.Request{request(key, "")}
	}).Start(t.Context(), queue)).To(Succeed())
	b.nodeNotifier(prod)(nil, node("a", ""))
	b.nodeNotifier(client.ObjectKey{Name: "other"})(node("a", ""), nil)
	b.connection(t)
	g.Expect(queue.Len()).To(Equal(3))
}

func TestStart_ContextEnds_Returns(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t)
	b.connection(t)
	b.wire.fails(2)
	b.connection(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	g.Eventually(b.clock.HasWaiters).Should(BeTrue())
	told := b.notifications()
	b.wire.connect(noon)
	b.clock.Step(refreshInterval)
	g.Eventually(b.notifications).Should(Equal(told + 1))
	cancel()
	g.Expect(<-done).To(Succeed())
	g.Expect(b.stopped).To(BeClosed())
	g.Expect(b.NeedLeaderElection()).To(BeFalse())
}

// Each connection has one cache of Nodes, which ends when another connection replaces it, and when the state is forgotten.
func TestNodeWatch_NewConnection_HasNewCache(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	b := newBench(t)
	remote := &connections{scheme: clientgoscheme.Scheme, options: &Options{}, clock: b.clock, all: map[client.ObjectKey]*connectionState{}, shares: map[string]answerMemory{}}
	// Nothing listens there, so the watches are retried until they are stopped.
	connect := func() {
		remote.all[prod] = &connectionState{link: &link{
			config: &rest.Config{Host: "http://127.0.0.1:1"}, share: allMemory.ofNamespace().ofCluster(), updates: newUpdateLimiter(),
		}}
	}
	state := b.stateOf(prod)
	watch := func() *nodeCache {
		g.Expect(remote.Watch(t.Context(), prod, &nodeWatch{clusters: b.Clusters, key: prod, state: state})).To(Succeed())
		return state.currentNodes()
	}
	g.Expect(remote.Watch(t.Context(), prod, &nodeWatch{clusters: b.Clusters, key: prod, state: state})).To(MatchError(errNotConnected))
	connect()
	first := watch()
	g.Expect(watch()).To(BeIdenticalTo(first))
	connect()
	second := watch()
	g.Expect(second).ToNot(BeIdenticalTo(first))
	g.Expect(first.closed).To(BeClosed())
	g.Expect(second.closed).ToNot(BeClosed())

	state.markClusterDeleted()
	b.wire.disconnect()
	g.Expect(b.forgetDeleted(t.Context(), prod, state)).To(BeTrue())
	g.Expect(second.closed).To(BeClosed())
	connect()
	g.Expect(watch().closed).To(BeClosed(), "a late reader has the state that was forgotten")
}
