// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload_test

import (
	"net"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// cut is how the connection to an API server is broken.
type cut string

const (
	whole cut = ""
	// refused: every connection breaks, and new ones are refused.
	refused cut = "refused"
	// blackHoled: connections are accepted and stay open, and deliver nothing in either direction.
	blackHoled cut = "black-holed"
	// halfOpen: open connections deliver nothing and are not closed; new ones work.
	halfOpen cut = "half-open"
)

// proxy is a TCP proxy to an API server, whose connections can be cut.
type proxy struct {
	t    *testing.T
	to   string
	at   string
	mu   sync.Mutex
	cut  cut
	hold net.Listener
	// open are connections that work, dead are those that deliver nothing.
	open, dead map[net.Conn]bool
	// changed is closed when the cut changes.
	changed chan struct{}
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	r := &proxy{t: t, to: to, open: map[net.Conn]bool{}, dead: map[net.Conn]bool{}, changed: make(chan struct{})}
	// The proxy closes its port and listens on it again. No other process may use the port in between.
	port, err := controlplane.TakePort()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	r.listen(port.Address())
	t.Cleanup(func() { r.set(refused) })
	return r
}

func (r *proxy) listen(at string) {
	listener, err := net.Listen("tcp", at)
	NewWithT(r.t).Expect(err).ToNot(HaveOccurred())
	r.hold, r.at = listener, listener.Addr().String()
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			go r.lead(here)
		}
	}()
}

func (r *proxy) set(next cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.cut
	r.cut = next
	close(r.changed)
	r.changed = make(chan struct{})
	switch {
	case next == refused && was != refused:
		_ = r.hold.Close()
		for c := range r.open {
			_ = c.Close()
		}
		for c := range r.dead {
			_ = c.Close()
		}
		r.open, r.dead = map[net.Conn]bool{}, map[net.Conn]bool{}
	case next != refused && was == refused:
		r.listen(r.at)
	}
	if next == halfOpen {
		r.dead, r.open = r.open, map[net.Conn]bool{}
	}
}

// count returns the number of connections.
func (r *proxy) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) + len(r.dead)
}

func (r *proxy) lead(here net.Conn) {
	there, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = here.Close()
		return
	}
	r.mu.Lock()
	r.open[here] = true
	r.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
		both.Go(func() {
			r.carry(here, way[0], way[1])
			_, _ = here.Close(), there.Close()
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, here)
	delete(r.dead, here)
}

// carry copies data until either end closes.
func (r *proxy) carry(connection, from, to net.Conn) {
	chunk := make([]byte, 32*1024)
	for {
		n, err := from.Read(chunk)
		if err != nil || !r.pass(connection) {
			return
		}
		if _, err := to.Write(chunk[:n]); err != nil {
			return
		}
	}
}

// pass waits while no data may pass. It returns false if the connection is dead.
func (r *proxy) pass(connection net.Conn) bool {
	for {
		r.mu.Lock()
		closed := !r.open[connection] && !r.dead[connection]
		stuck := r.cut == blackHoled || r.dead[connection]
		changed := r.changed
		r.mu.Unlock()
		if closed || !stuck {
			return !closed
		}
		<-changed
	}
}
