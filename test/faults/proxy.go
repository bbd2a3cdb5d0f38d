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

// Speed is how slow Slow is.
type Speed struct {
	// Latency is how long each piece of data takes, in each direction.
	Latency time.Duration
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
}

// ProxyOption changes what a proxy is like.
type ProxyOption func(*Proxy)

// WithClock gives it the clock by which it is slow.
func WithClock(c clock.Clock) ProxyOption { return func(p *Proxy) { p.clock = c } }

// ProxyFor leads to the API server of this config.
func ProxyFor(config *rest.Config, options ...ProxyOption) (*Proxy, error) {
	server, err := url.Parse(config.Host)
	if err != nil || server.Port() == "" {
		return nil, errors.Errorf("the API server %q has no port that a proxy could lead to", config.Host)
	}
	port, err := controlplane.TakePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{port: port, target: server.Host, clock: clock.RealClock{}, mode: Pass, changed: make(chan struct{}), open: map[*link]bool{}}
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

// Config leads through the proxy. The certificate of the API server is still that of its own name.
func (p *Proxy) Config(config *rest.Config) (*rest.Config, error) {
	through := rest.CopyConfig(config)
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
