// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/pkg/errors"
)

// link is one connection through a proxy. Other fields are under the proxy's lock.
type link struct {
	proxy *Proxy
	here  net.Conn
	// there is nil as long as the connection waits.
	there net.Conn
	// dead: it drops everything. broken: it was closed, and both ends get an error.
	dead, broken bool
	closed       bool
	// gone is closed with the connection.
	gone chan struct{}
}

// close ends both ends. The lock is held.
func (l *link) close() {
	if l.closed {
		return
	}
	l.closed = true
	close(l.gone)
	for _, end := range []net.Conn{l.here, l.there} {
		switch {
		case end == nil:
		case l.broken:
			reset(end)
		default:
			_ = end.Close()
		}
	}
	delete(l.proxy.open, l)
}

// serve carries what is sent, until either end closes.
func (l *link) serve() {
	p := l.proxy
	defer func() {
		p.lock.Lock()
		defer p.lock.Unlock()
		l.close()
	}()
	switch l.pass(true) {
	case drop:
		_, _ = io.Copy(io.Discard, l.here)
		return
	case stop:
		return
	case carry:
	}
	if err := l.connect(); err != nil {
		p.lock.Lock()
		defer p.lock.Unlock()
		l.broken = true
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(l.there, l.here, false) })
	both.Go(func() { l.carry(l.here, l.there, true) })
	both.Wait()
}

// connect reaches the other end.
func (l *link) connect() error {
	p := l.proxy
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	there, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return errors.WithStack(err)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if l.closed {
		_ = there.Close()
		return errors.New("cut while it was being connected")
	}
	l.there = there
	return nil
}

// carry copies data in one direction. It closes the other end after one end was closed, unless the link is dead.
func (l *link) carry(to io.Writer, from io.Reader, back bool) {
	chunk := make([]byte, 32*1024)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			switch l.pass(false) {
			case carry:
				if _, err := to.Write(chunk[:n]); err != nil {
					l.end(back)
					return
				}
			case drop:
			case stop:
				return
			}
		}
		if err != nil {
			l.end(back)
			return
		}
	}
}

// end closes the connection when one end has closed. Of one that is half open the client never learns what the server does.
func (l *link) end(back bool) {
	l.proxy.lock.Lock()
	defer l.proxy.lock.Unlock()
	if !l.dead || !back {
		l.close()
	}
}

// fate is what becomes of a piece of data.
type fate uint8

const (
	carry fate = iota
	drop
	stop
)

// pass waits as the mode requires, and returns what happens to a new connection or a piece of data.
func (l *link) pass(opens bool) fate {
	p, waited := l.proxy, false
	for {
		p.lock.Lock()
		mode, changed, delay := p.mode, p.changed, p.speed.Latency
		switch {
		case l.closed || l.broken:
			p.lock.Unlock()
			return stop
		case l.dead:
			p.lock.Unlock()
			return drop
		case mode != BlackHole && (mode != Slow || waited || opens):
			p.lock.Unlock()
			return carry
		}
		p.lock.Unlock()
		if mode == BlackHole {
			select {
			case <-changed:
			case <-l.gone:
			}
			continue
		}
		timer := p.clock.NewTimer(delay)
		select {
		case <-timer.C():
			waited = true
		case <-changed:
		case <-l.gone:
		}
		timer.Stop()
	}
}
