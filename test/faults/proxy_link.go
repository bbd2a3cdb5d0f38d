// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
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
	from := io.Reader(l.here)
	switch l.pass(0) {
	case drop:
		l.swallow(from)
		return
	case stop:
		return
	case carry:
	}
	from, err := l.connect()
	if err != nil {
		p.lock.Lock()
		defer p.lock.Unlock()
		l.broken = true
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(l.there, from, false) })
	both.Go(func() { l.carry(l.here, l.there, true) })
	both.Wait()
}

// connect reaches the other end. It returns from where to read.
func (l *link) connect() (io.Reader, error) {
	p, target, from := l.proxy, l.proxy.target, io.Reader(l.here)
	if target == "" {
		buffered := bufio.NewReader(l.here)
		request, err := http.ReadRequest(buffered)
		if err != nil || request.Method != http.MethodConnect {
			_, _ = io.WriteString(l.here, "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return nil, errors.New("this is a proxy for CONNECT")
		}
		target, from = request.Host, buffered
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	there, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if l.closed {
		_ = there.Close()
		return nil, errors.New("cut while it was being connected")
	}
	l.there = there
	if p.target == "" {
		if _, err := io.WriteString(l.here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	return from, nil
}

// carry copies data in one direction. It closes the other end after one end was closed, unless the link is dead.
func (l *link) carry(to io.Writer, from io.Reader, back bool) {
	chunk := make([]byte, 32*1024)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			switch l.pass(n) {
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

// swallow reads until the sender closes.
func (l *link) swallow(from io.Reader) {
	chunk := make([]byte, 32*1024)
	for {
		n, err := from.Read(chunk)
		l.proxy.lock.Lock()
		l.proxy.counts.Swallowed += int64(n)
		l.proxy.lock.Unlock()
		if err != nil {
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

// pass waits as the mode requires, and returns what happens to a piece of so many bytes.
func (l *link) pass(n int) fate {
	p, waited := l.proxy, false
	for {
		p.lock.Lock()
		mode, changed, delay := p.mode, p.changed, p.speed.delay(n)
		switch {
		case l.closed || l.broken:
			p.lock.Unlock()
			return stop
		case l.dead:
			p.counts.Swallowed += int64(n)
			p.lock.Unlock()
			return drop
		case mode != BlackHole && (mode != Slow || waited || n == 0):
			p.counts.Carried += int64(n)
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
