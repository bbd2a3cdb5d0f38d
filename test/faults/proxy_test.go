// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

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

func TestProxy_RefuseConnections_BreaksOpenOnes(t *testing.T) {
	g := NewWithT(t)
	proxy := proxyFor(t)
	c := through(t, proxy)
	g.Expect(ask(t.Context(), c)).To(Succeed())
	g.Expect(proxy.Counts().Open).To(Equal(1))
	g.Expect(proxy.Set(faults.RefuseConnections)).To(Succeed())
	g.Expect(proxy.Counts().Open).To(BeZero())
	g.Eventually(func() bool { return utilnet.IsConnectionRefused(ask(t.Context(), c)) }).Should(BeTrue())
	g.Expect(proxy.Set(faults.Pass)).To(Succeed())
	g.Expect(ask(t.Context(), c)).To(Succeed())
}

// A request gets no answer. When the connection works again, it continues only if its packets were delayed, not if they were dropped.
func TestProxy_NoAnswer_ContinuesOnlyIfDelayed(t *testing.T) {
	for _, mode := range []faults.Mode{faults.BlackHole, faults.HalfOpen, faults.Slow} {
		t.Run(string(mode), func(t *testing.T) {
			g := NewWithT(t)
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			proxy := proxyFor(t, faults.WithClock(clock))
			c := through(t, proxy)
			g.Expect(ask(t.Context(), c)).To(Succeed())
			g.Expect(proxy.Slow(faults.Speed{Latency: time.Hour})).To(Succeed())
			g.Expect(proxy.Set(mode)).To(Succeed())
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			established, fresh := make(chan error, 1), make(chan error, 1)
			go func() { established <- ask(ctx, c) }()
			go func() { fresh <- ask(ctx, through(t, proxy)) }()
			g.Eventually(func() int { return proxy.Counts().Accepted }).Should(Equal(2), "it accepts")
			g.Expect(impatient(t, c)).To(MatchError(context.DeadlineExceeded))
			g.Expect(established).To(BeEmpty())
			g.Expect(fresh).To(BeEmpty())

			g.Expect(proxy.Set(faults.Pass)).To(Succeed())
			if mode == faults.HalfOpen {
				g.Expect(impatient(t, c)).To(MatchError(context.DeadlineExceeded), "what was half open stays so")
				giveUp()
				g.Eventually(established).Should(Receive(MatchError(context.Canceled)))
				g.Eventually(fresh).Should(Receive(MatchError(context.Canceled)))
			} else {
				g.Eventually(established).Should(Receive(BeNil()))
				g.Eventually(fresh).Should(Receive(BeNil()))
			}
			g.Expect(ask(t.Context(), through(t, proxy))).To(Succeed(), "new connections work")
		})
	}
}
