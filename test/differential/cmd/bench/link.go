// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"sync"
)

// link is a listener on loopback that forwards to the API server.
type link struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

func newLink(to string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends by close.
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, open: map[net.Conn]bool{}}
	go l.serve(to)
	return l, nil
}

// serve forwards connections until the listener is closed.
func (l *link) serve(to string) {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.forward(in, to)
	}
}

func (l *link) forward(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", to) //nolint:noctx // it ends with the connection.
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.open[in], l.open[out] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, in)
		delete(l.open, out)
	}()
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// setCut closes all connections and refuses new ones, or ends that.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for connection := range l.open {
		_ = connection.Close()
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.setCut(true)
}
