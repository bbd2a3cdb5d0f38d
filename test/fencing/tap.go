// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"github.com/pkg/errors"
	"k8s.io/client-go/rest"
)

// Tap is between the fencing manager and the API server. It has the ServiceAccount of the manager, and can kill the manager just after a
// write.
type Tap struct {
	manager  *Process
	proxy    *httputil.ReverseProxy
	server   *http.Server
	listener net.Listener

	lock   sync.Mutex
	writes []string
	kill   func(write string) bool
	killed chan string
}

func newTap(account *rest.Config) (*Tap, error) {
	target, err := url.Parse(account.Host)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	transport, err := rest.TransportFor(account)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	t := &Tap{killed: make(chan string, 1000), proxy: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Watches are passed on as they come.
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}}
	if t.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // it does not wait.
		return nil, errors.WithStack(err)
	}
	t.server = &http.Server{Handler: t, ErrorLog: log.New(io.Discard, "", 0)} //nolint:gosec // its only client is the manager.
	go func() { _ = t.server.Serve(t.listener) }()
	return t, nil
}

func (t *Tap) close() { _ = t.server.Close() }

// kubeconfig leads through the tap.
func (t *Tap) kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`, t.listener.Addr())
}

// KillAfter kills the manager after each write that a function selects, until it is called with nil. The answer of the write is lost. The
// channel has each of these writes; the manager is not started again.
func (t *Tap) KillAfter(selects func(write string) bool) <-chan string {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.kill = selects
	return t.killed
}

// Writes are all writes that were accepted, such as "PUT /apis/...", without Events and Leases.
func (t *Tap) Writes() []string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return append([]string{}, t.writes...)
}

// ServeHTTP passes on requests.
func (t *Tap) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if !changes(request) {
		t.proxy.ServeHTTP(answer, request)
		return
	}
	write := request.Method + " " + request.URL.Path
	recorded := httptest.NewRecorder()
	t.proxy.ServeHTTP(recorded, request)
	if recorded.Code < http.StatusMultipleChoices && t.meets(write) {
		t.manager.Kill()
		t.killed <- write
		panic(http.ErrAbortHandler)
	}
	for key, values := range recorded.Header() {
		answer.Header()[key] = values
	}
	answer.WriteHeader(recorded.Code)
	_, _ = answer.Write(recorded.Body.Bytes())
}

// changes reports whether a request changes something that matters. A dry run does not: the manager verifies the policies by one.
func changes(request *http.Request) bool {
	path := request.URL.Path
	return request.Method != http.MethodGet && !request.URL.Query().Has("dryRun") && !strings.HasPrefix(path, "/apis/auth") &&
		!strings.Contains(path, "/events") && !strings.Contains(path, "/leases")
}

// meets records a write, and reports whether the manager is killed after it.
func (t *Tap) meets(write string) bool {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.writes = append(t.writes, write)
	return t.kill != nil && t.kill(write)
}
