// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
)

// Link is the network between the managers and the API server of one workload cluster. It is the proxy-url in the cluster's kubeconfig
// Secret, so that addresses and certificates stay what they are: the in-memory API server distinguishes its clusters by the requested
// port.
type Link struct {
	port   *controlplane.Port
	server *http.Server

	lock  sync.Mutex
	state linkState
	// changed is closed when the state changes.
	changed chan struct{}
	open    map[net.Conn]bool
	carried int
}

type linkState struct {
	cut, silent bool
	delay       time.Duration
}

// newLink makes a link that works.
func newLink() (*Link, error) {
	port, err := controlplane.TakePort()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", port.Address()) //nolint:noctx // it does not wait.
	if err != nil {
		port.Release()
		return nil, errors.Wrap(err, "a link cannot listen")
	}
	l := &Link{port: port, changed: make(chan struct{}), open: map[net.Conn]bool{}}
	l.server = &http.Server{Handler: l, ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // its clients are the managers.
	go func() { _ = l.server.Serve(listener) }()
	return l, nil
}

// URL is the proxy that leads through this link.
func (l *Link) URL() string { return "http://" + l.port.Address() }

// Cut breaks every connection, and every new one.
func (l *Link) Cut() { l.set(linkState{cut: true}) }

// Silence lets nothing through any more: connections stay, without an answer, as when packets are dropped.
func (l *Link) Silence() { l.set(linkState{silent: true}) }

// Slow lets everything wait for this long, in each direction.
func (l *Link) Slow(delay time.Duration) { l.set(linkState{delay: delay}) }

// Restore makes it work again. Silent connections continue, cut ones must connect again.
func (l *Link) Restore() { l.set(linkState{}) }

// Carried is how many connections it has carried so far.
func (l *Link) Carried() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.carried
}

func (l *Link) set(state linkState) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.state = state
	close(l.changed)
	l.changed = make(chan struct{})
	if state.cut {
		l.breakAll()
	}
}

func (l *Link) breakAll() {
	for connection := range l.open {
		_ = connection.Close()
		delete(l.open, connection)
	}
}

func (l *Link) close() {
	l.set(linkState{cut: true})
	_ = l.server.Close()
	l.port.Release()
}

// ServeHTTP answers CONNECT: it becomes a tunnel.
func (l *Link) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodConnect {
		http.Error(answer, "this is a link to a workload cluster", http.StatusMethodNotAllowed)
		return
	}
	if !l.pass() {
		panic(http.ErrAbortHandler)
	}
	there, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(request.Context(), "tcp", request.Host)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadGateway)
		return
	}
	here, buffered, err := http.NewResponseController(answer).Hijack()
	if err != nil {
		_ = there.Close()
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	if !l.keep(here, there) {
		return
	}
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		l.drop(here, there)
		return
	}
	go l.carry(there, readerOf(buffered, here), here, there)
	l.carry(here, there, here, there)
}

// readerOf gives what the server has read too much already before what is still to come.
func readerOf(buffered *bufio.ReadWriter, connection net.Conn) io.Reader {
	return io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), connection)
}

// carry moves what comes in one direction, until either end closes.
func (l *Link) carry(to io.Writer, from io.Reader, ends ...net.Conn) {
	defer l.drop(ends...)
	chunk := make([]byte, 32*1024)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			if !l.pass() {
				return
			}
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits as long as the state demands, and returns false if the link is cut.
func (l *Link) pass() bool {
	waited := false
	for {
		l.lock.Lock()
		state, changed := l.state, l.changed
		l.lock.Unlock()
		switch {
		case state.cut:
			return false
		case state.silent:
			<-changed
		case state.delay > 0 && !waited:
			select {
			case <-changed:
			case <-time.After(state.delay):
				waited = true
			}
		default:
			return true
		}
	}
}

// keep notes the connections, so that a cut can break them. It returns false if it is cut already.
func (l *Link) keep(connections ...net.Conn) bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, c := range connections {
		if l.state.cut {
			_ = c.Close()
			continue
		}
		l.open[c] = true
	}
	l.carried++
	return !l.state.cut
}

func (l *Link) drop(connections ...net.Conn) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, c := range connections {
		_ = c.Close()
		delete(l.open, c)
	}
}
