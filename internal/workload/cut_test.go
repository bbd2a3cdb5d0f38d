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

// cut is what is wrong with the way to an API server.
type cut string

const (
	whole cut = ""
	// refused: every connection breaks, and nobody accepts a new one.
	refused cut = "refused"
	// blackHoled: connections are accepted and stay, and nothing comes through in any direction.
	blackHoled cut = "black-holed"
	// halfOpen: the connections that are open lead to nowhere, and nobody says so; new ones work.
	halfOpen cut = "half-open"
)

// road is the way to an API server: a TCP proxy on loopback that can be cut.
type road struct {
	t    *testing.T
	to   string
	at   string
	mu   sync.Mutex
	cut  cut
	hold net.Listener
	// open are connections that work, dead are those that lead to nowhere.
	open, dead map[net.Conn]bool
	// changed is closed when the cut changes.
	changed chan struct{}
}

func newRoad(t *testing.T, to string) *road {
	t.Helper()
	r := &road{t: t, to: to, open: map[net.Conn]bool{}, dead: map[net.Conn]bool{}, changed: make(chan struct{})}
	// It is listened on again after it was closed, and must belong to nobody else in between.
	port, err := controlplane.TakePort()
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	t.Cleanup(port.Release)
	r.listen(port.Address())
	t.Cleanup(func() { r.set(refused) })
	return r
}

func (r *road) listen(at string) {
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

func (r *road) set(next cut) {
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

// count is how many connections lead through it.
func (r *road) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) + len(r.dead)
}

func (r *road) lead(here net.Conn) {
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

// carry moves what comes until either end closes.
func (r *road) carry(connection, from, to net.Conn) {
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

// pass waits as long as nothing comes through, and returns false when nothing ever will.
func (r *road) pass(connection net.Conn) bool {
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

// used reports whether a connection was ever open.
func (r *road) used() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)+len(r.dead) > 0
}
