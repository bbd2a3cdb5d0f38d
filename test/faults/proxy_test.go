// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

func proxyFor(t *testing.T, options ...faults.ProxyOption) *faults.Proxy {
	t.Helper()
	proxy, err := faults.ProxyFor(cp.Admin, options...)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(proxy.Close)
	return proxy
}

// through is a client with connections of its own.
func through(t *testing.T, proxy *faults.Proxy) rest.Interface {
	t.Helper()
	config, err := proxy.Config(cp.Admin)
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return rawClient(t, config)
}

// rawClient asks nothing by itself.
func rawClient(t *testing.T, config *rest.Config) rest.Interface {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(ownConnections(config))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return c.RESTClient()
}

func ask(ctx context.Context, c rest.Interface) error {
	return c.Get().AbsPath("/api/v1/namespaces").Do(ctx).Error()
}

// impatient asks, and gives up after a short while. It is for where no answer ever comes.
func impatient(t *testing.T, c rest.Interface) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	return ask(ctx, c)
}

func TestProxy_Pass_ForwardsRequests(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	c := through(t, proxy)
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Counts().Accepted).To(Equal(1))
	g.Expect(proxy.Counts().Open).To(Equal(1))
	g.Expect(proxy.Counts().Carried).To(BeNumerically(">", 1000))
	proxy.Close()
	g.Expect(proxy.Counts().Open).To(BeZero())
	g.Expect(ask(t.Context(), c)).ToNot(Succeed())
}

func TestProxy_RefuseConnections_ClosesConnections(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	c := through(t, proxy)
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Set(faults.RefuseConnections)).To(Succeed())
	g.Expect(proxy.Counts().Open).To(BeZero())
	g.Eventually(func() bool { return utilnet.IsConnectionRefused(ask(t.Context(), c)) }).Should(BeTrue())
	g.Expect(proxy.Set(faults.Pass)).To(Succeed())
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Counts().Accepted).To(Equal(2))
}

func TestProxy_RefuseConnections_ResetsOpenConnection(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	connection, err := net.Dial("tcp", proxy.Address())
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(func() { _ = connection.Close() })
	g.Eventually(func() int { return proxy.Counts().Open }).Should(Equal(1))
	g.Expect(proxy.Set(faults.RefuseConnections)).To(Succeed())
	_, err = connection.Read(make([]byte, 1))
	g.Expect(utilnet.IsConnectionReset(err)).To(BeTrue(), "got %v", err)
}

func TestProxy_BlackHoleEnds_RequestsContinue(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	c := through(t, proxy)
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Set(faults.BlackHole)).To(Succeed())
	before := proxy.Counts().Carried
	// One waits on a connection that there is, the other on a new one.
	established, fresh := make(chan error, 1), make(chan error, 1)
	go func() { established <- ask(t.Context(), c) }()
	go func() { fresh <- ask(t.Context(), through(t, proxy)) }()
	g.Eventually(func() int { return proxy.Counts().Accepted }).Should(Equal(2), "it accepts")
	g.Expect(impatient(t, c)).To(MatchError(context.DeadlineExceeded))
	g.Expect(proxy.Counts().Carried).To(Equal(before), "nothing passes")
	g.Expect(established).To(BeEmpty())
	g.Expect(fresh).To(BeEmpty())

	g.Expect(proxy.Set(faults.Pass)).To(Succeed())
	g.Eventually(established).Should(Receive(BeNil()))
	g.Eventually(fresh).Should(Receive(BeNil()))
}

func TestProxy_HalfOpen_ClientTimesOut(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	c := through(t, proxy)
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Set(faults.HalfOpen)).To(Succeed())
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	other, established, fresh := through(t, proxy), make(chan error, 1), make(chan error, 1)
	go func() { established <- ask(ctx, c) }()
	g.Eventually(func() int64 { return proxy.Counts().Swallowed }).Should(BeNumerically(">", 0))
	go func() { fresh <- ask(ctx, other) }()
	g.Eventually(func() int { return proxy.Counts().Accepted }).Should(Equal(2), "new connections as well")
	g.Expect(impatient(t, c)).To(MatchError(context.DeadlineExceeded))
	g.Expect(established).To(BeEmpty())
	g.Expect(fresh).To(BeEmpty())
	giveUp()
	g.Eventually(established).Should(Receive(MatchError(context.Canceled)))
	g.Eventually(fresh).Should(Receive(MatchError(context.Canceled)))

	g.Expect(proxy.Set(faults.Pass)).To(Succeed())
	g.Expect(impatient(t, c)).To(MatchError(context.DeadlineExceeded), "what was half open stays so")
	g.Expect(ask(t.Context(), through(t, proxy))).To(Succeed())
}

func TestProxy_Slow_DelaysBytes(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	proxy := proxyFor(t, faults.WithClock(clock))
	g.Expect(proxy.Slow(faults.Speed{Latency: time.Hour, BytesPerSecond: 1 << 20})).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- ask(t.Context(), through(t, proxy)) }()
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	g.Expect(proxy.Counts().Carried).To(BeZero())
	clock.Step(time.Hour)
	g.Expect(proxy.Counts().Carried).To(BeZero(), "its bytes take some time more")
	g.Eventually(func() int {
		clock.Step(2 * time.Hour)
		return len(done)
	}).Should(Equal(1))
	g.Expect(<-done).To(Succeed())

	go func() { done <- ask(t.Context(), through(t, proxy)) }()
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	g.Expect(proxy.Set(faults.Pass)).To(Succeed(), "what waits does not wait any longer")
	g.Eventually(done).Should(Receive(BeNil()))
}

func TestProxy_FlapWithSameSeed_HasSameModes(t *testing.T) {
	g := NewWithT(t)
	draw := func(seed uint64, modes ...faults.Mode) []faults.Mode {
		proxy := proxyFor(t)
		flapping, err := proxy.Flap(seed, modes...)
		g.Expect(err).ToNot(HaveOccurred())
		var seen []faults.Mode
		for before := faults.Pass; len(seen) < 30; {
			next, err := flapping.Next()
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(next).ToNot(Equal(before))
			g.Expect(proxy.Mode()).To(Equal(next))
			before = next
			seen = append(seen, next)
		}
		g.Expect(proxy.Set(faults.Pass)).To(Succeed())
		g.Expect(ask(t.Context(), through(t, proxy))).To(Succeed(), "the proxy always recovers")
		return seen
	}
	g.Expect(draw(1)).To(Equal(draw(1)))
	g.Expect(draw(1)).ToNot(Equal(draw(2)))
	g.Expect(draw(1)).To(ContainElements(faults.Pass, faults.RefuseConnections, faults.BlackHole, faults.HalfOpen))
	g.Expect(draw(1, faults.Modes()...)).To(ContainElement(faults.Slow))
	_, err := proxyFor(t).Flap(1, faults.Pass, faults.Pass)
	g.Expect(err).To(MatchError(ContainSubstring("cannot flap between [Pass Pass] only")))
	g.Expect(proxyFor(t).Set("Moody")).To(MatchError(ContainSubstring(`cannot be "Moody"`)))
}

func TestProxy_Kubeconfig_LeadsThroughProxy(t *testing.T) {
	g := NewWithT(t)
	connect, err := faults.NewConnectProxy()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(connect.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(cp.WriteKubeconfig(controlplane.User{Name: "admin", Groups: []string{"system:masters"}}, path)).To(Succeed())
	for reason, proxy := range map[string]*faults.Proxy{"by its address": proxyFor(t), "as a proxy-url": connect} {
		t.Run(reason, func(t *testing.T) {
			g := NewWithT(t)
			loaded, err := clientcmd.LoadFromFile(path)
			g.Expect(err).ToNot(HaveOccurred())
			content, err := clientcmd.Write(*loaded)
			g.Expect(err).ToNot(HaveOccurred())
			content, err = proxy.Kubeconfig(content)
			g.Expect(err).ToNot(HaveOccurred())
			config, err := clientcmd.RESTConfigFromKubeConfig(content)
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(ask(t.Context(), rawClient(t, config))).To(Succeed())
			g.Expect(ask(t.Context(), through(t, proxy))).To(Succeed())
			g.Expect(proxy.Counts().Accepted).To(Equal(2))
			g.Expect(proxy.Set(faults.RefuseConnections)).To(Succeed())
			g.Expect(ask(t.Context(), rawClient(t, config))).ToNot(Succeed())
		})
	}
	_, err = connect.Kubeconfig([]byte("{"))
	g.Expect(err).To(MatchError(ContainSubstring("this is no kubeconfig")))
}

func TestProxy_ManyConnections_AreClosed(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	for i := range 200 {
		connection, err := net.Dial("tcp", proxy.Address())
		g.Expect(err).ToNot(HaveOccurred())
		if i%2 == 0 {
			_, err = connection.Write([]byte("hello"))
			g.Expect(err).ToNot(HaveOccurred())
		}
		g.Expect(connection.Close()).To(Succeed())
	}
	g.Eventually(func() faults.ProxyCounts { return proxy.Counts() }).Should(And(HaveField("Accepted", 200), HaveField("Open", 0)))
}

func TestProxy_InvalidTarget_IsRejected(t *testing.T) {
	g := NewWithT(t)
	_, err := faults.NewProxy("nowhere")
	g.Expect(err).To(MatchError(ContainSubstring(`"nowhere" is no host:port`)))
	port, err := controlplane.TakePort()
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	proxy, err := faults.NewProxy(port.Address())
	g.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(proxy.Close)
	// A client of Kubernetes reads again ten times, a second apart, when a connection is reset.
	once := through(t, proxy).Get().AbsPath("/api/v1/namespaces").MaxRetries(0)
	g.Expect(once.Do(t.Context()).Error()).To(HaveOccurred(), "no process listens there")
}
