// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// Mode is what a way to an API server is like. The set is closed.
type Mode string

// The modes.
const (
	// Pass: it works.
	Pass Mode = "Pass"
	// RefuseConnections: the port is closed, and open connections break.
	RefuseConnections Mode = "RefuseConnections"
	// BlackHole: everything that is sent waits, as when packets are dropped. New connections are accepted and get no answer. Afterwards all of
	// it goes on, as after packets were sent again.
	BlackHole Mode = "BlackHole"
	// HalfOpen: data is dropped without an error, as if the other end had lost the state of the connection. Such connections never work
	// again, new ones included: the client has to detect that.
	HalfOpen Mode = "HalfOpen"
	// Slow: everything takes its time.
	Slow Mode = "Slow"
)

// Modes are all of them.
func Modes() []Mode { return []Mode{Pass, RefuseConnections, BlackHole, HalfOpen, Slow} }

// Speed is how slow Slow is.
type Speed struct {
	// Latency is how long each piece of data takes, in each direction.
	Latency time.Duration
	// BytesPerSecond is how much passes in a second; 0 is as much as there is.
	BytesPerSecond int
}

// delay is how long a piece of so many bytes takes.
func (s Speed) delay(n int) time.Duration {
	if s.BytesPerSecond <= 0 {
		return s.Latency
	}
	return s.Latency + time.Duration(n)*time.Second/time.Duration(s.BytesPerSecond)
}

// Proxy is the way to an API server, on a port of its own on loopback. It copies bytes only, so that encryption and certificates stay what
// they are.
type Proxy struct {
	port   *controlplane.Port
	target string
	clock  clock.Clock
	work   sync.WaitGroup

	lock     sync.Mutex
	mode     Mode
	speed    Speed
	listener net.Listener
	// changed is closed when the mode changes.
	changed chan struct{}
	open    map[*link]bool
	counts  ProxyCounts
}

// ProxyCounts count what a proxy has done so far.
type ProxyCounts struct {
	// Accepted is how many connections there were, Open how many there are.
	Accepted, Open int
	// Carried and Swallowed are bytes, of both directions.
	Carried, Swallowed int64
}

// ProxyOption changes what a proxy is like.
type ProxyOption func(*Proxy)

// WithClock gives it the clock by which it is slow.
func WithClock(c clock.Clock) ProxyOption { return func(p *Proxy) { p.clock = c } }

// NewProxy leads to one host:port.
func NewProxy(target string, options ...ProxyOption) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, errors.Wrapf(err, "%q is no host:port", target)
	}
	return newProxy(target, options)
}

// NewConnectProxy leads to whatever its clients ask for by CONNECT: it is a proxy-url. Addresses stay what they are with it.
func NewConnectProxy(options ...ProxyOption) (*Proxy, error) { return newProxy("", options) }

// ProxyFor leads to the API server of this config.
func ProxyFor(config *rest.Config, options ...ProxyOption) (*Proxy, error) {
	server, err := url.Parse(config.Host)
	if err != nil || server.Port() == "" {
		return nil, errors.Errorf("the API server %q has no port that a proxy could lead to", config.Host)
	}
	return newProxy(server.Host, options)
}

func newProxy(target string, options []ProxyOption) (*Proxy, error) {
	port, err := controlplane.TakePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{port: port, target: target, clock: clock.RealClock{}, mode: Pass, changed: make(chan struct{}), open: map[*link]bool{}}
	for _, option := range options {
		option(p)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := p.listen(); err != nil {
		port.Release()
		return nil, err
	}
	return p, nil
}

// Address is where it listens.
func (p *Proxy) Address() string { return p.port.Address() }

// URL is what a proxy-url has to be, for a proxy of NewConnectProxy.
func (p *Proxy) URL() string { return "http://" + p.port.Address() }

// Config leads through the proxy. The certificate of the API server is still that of its own name.
func (p *Proxy) Config(config *rest.Config) (*rest.Config, error) {
	through := rest.CopyConfig(config)
	if p.target == "" {
		at, err := url.Parse(p.URL())
		through.Proxy = httpProxy(at)
		return through, errors.WithStack(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.Wrapf(err, "the address %q of the API server cannot be read", config.Host)
	}
	if through.ServerName == "" {
		through.ServerName = server.Hostname()
	}
	server.Host = p.Address()
	through.Host = server.String()
	return through, nil
}

// Kubeconfig leads through the proxy.
func (p *Proxy) Kubeconfig(kubeconfig []byte) ([]byte, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.Wrap(err, "this is no kubeconfig")
	}
	for name, cluster := range config.Clusters {
		if p.target == "" {
			cluster.ProxyURL = p.URL()
			continue
		}
		server, err := url.Parse(cluster.Server)
		if err != nil {
			return nil, errors.Wrapf(err, "the address of cluster %q in the kubeconfig cannot be read", name)
		}
		if cluster.TLSServerName == "" {
			cluster.TLSServerName = server.Hostname()
		}
		server.Host = p.Address()
		cluster.Server = server.String()
	}
	through, err := clientcmd.Write(*config)
	return through, errors.Wrap(err, "failed to write a kubeconfig")
}

// Counts returns what it has done so far.
func (p *Proxy) Counts() ProxyCounts {
	p.lock.Lock()
	defer p.lock.Unlock()
	counts := p.counts
	counts.Open = len(p.open)
	return counts
}

// Close ends it and every connection, and waits until nothing is left of it.
func (p *Proxy) Close() {
	p.lock.Lock()
	p.refuse()
	p.change(RefuseConnections)
	p.lock.Unlock()
	p.work.Wait()
	p.port.Release()
}
