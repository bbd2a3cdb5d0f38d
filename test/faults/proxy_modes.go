// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"net"

	"github.com/pkg/errors"
)

// Mode is what it is like now.
func (p *Proxy) Mode() Mode {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.mode
}

// Set changes what it is like. The speed of Slow is the last one that was given.
func (p *Proxy) Set(mode Mode) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	switch mode {
	case RefuseConnections:
		p.refuse()
	case HalfOpen:
		for l := range p.open {
			l.dead = true
		}
	case Pass, BlackHole, Slow:
	default:
		return errors.Errorf("a proxy cannot be %q", mode)
	}
	p.change(mode)
	if mode != RefuseConnections && p.listener == nil {
		return p.listen()
	}
	return nil
}

// Slow makes it slow.
func (p *Proxy) Slow(speed Speed) error {
	p.lock.Lock()
	p.speed = speed
	p.lock.Unlock()
	return p.Set(Slow)
}

// change wakes all waiters. The lock is held.
func (p *Proxy) change(mode Mode) {
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
}

// refuse stops listening, and breaks what there is. The lock is held.
func (p *Proxy) refuse() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.open {
		l.broken = true
		l.close()
	}
}

// listen begins to accept connections. The lock is held.
func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", p.port.Address()) //nolint:noctx // it does not wait.
	if err != nil {
		return errors.Wrap(err, "a proxy cannot listen")
	}
	p.listener = listener
	p.work.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		l := &link{proxy: p, here: connection, gone: make(chan struct{})}
		p.lock.Lock()
		if p.listener != listener {
			p.lock.Unlock()
			reset(connection)
			continue
		}
		p.counts.Accepted++
		l.dead = p.mode == HalfOpen
		p.open[l] = true
		p.work.Add(1)
		p.lock.Unlock()
		go func() {
			defer p.work.Done()
			l.serve()
		}()
	}
}

// reset breaks a connection with an error for the other end.
func reset(connection net.Conn) {
	if tcp, is := connection.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = connection.Close()
}

// Flapping is a connection that becomes worse and better again, by a seed. The test decides when.
type Flapping struct {
	proxy *Proxy
	dice  *rand.Rand
}

// Flap changes between working and every way to be broken.
func (p *Proxy) Flap(seed uint64) *Flapping {
	return &Flapping{proxy: p, dice: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // it has to be the same every time.
}

// Next changes to another mode than the one before.
func (f *Flapping) Next() (Mode, error) {
	modes := []Mode{Pass, RefuseConnections, BlackHole, HalfOpen}
	for before := f.proxy.Mode(); ; {
		if next := modes[f.dice.IntN(len(modes))]; next != before {
			return next, f.proxy.Set(next)
		}
	}
}
