// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"maps"
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

// tap stands between a manager and the API server. It is the manager's ServiceAccount for the API server, counts what is written,
// and can fail at a given write.
type tap struct {
	server *http.Server
	proxy  *httputil.ReverseProxy
	// manager is whom a crash kills.
	manager *Process

	lock   sync.Mutex
	writes []Write
	faults []*fault
}

func newTap(account *rest.Config, address string, own *certificate, manager *Process) (*tap, error) {
	target, err := url.Parse(account.Host)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	transport, err := rest.TransportFor(account)
	if err != nil {
		return nil, errors.Wrap(err, "no way to the API server for a manager")
	}
	t := &tap{manager: manager}
	t.proxy = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport,
		// Watches are passed on as they come.
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	listener, err := net.Listen("tcp", address) //nolint:noctx // it does not wait.
	if err != nil {
		return nil, errors.Wrap(err, "the tap cannot listen")
	}
	t.server = &http.Server{ //nolint:gosec // its only client is the manager.
		Handler:   t,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own.Pair}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	go func() { _ = t.server.ServeTLS(listener, "", "") }()
	return t, nil
}

func (t *tap) close() { _ = t.server.Close() }

// ServeHTTP passes on what is no write; what is one is counted, and may meet its fault.
func (t *tap) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	write, is, err := asWrite(request)
	if err != nil {
		// The client has closed the connection.
		panic(http.ErrAbortHandler)
	}
	if !is {
		t.proxy.ServeHTTP(answer, request)
		return
	}
	switch met := t.count(write); {
	case met == nil:
		t.proxy.ServeHTTP(answer, request)
	case met.mode == Refuse:
		http.Error(answer, "the world refuses this write", http.StatusInternalServerError)
		met.happened <- write
	default:
		if met.mode != CrashBefore && !t.lands(met, answer, request) {
			return
		}
		if met.mode != LoseAnswer {
			_ = t.manager.Kill()
		}
		met.happened <- write
		panic(http.ErrAbortHandler)
	}
}

// lands lets a write happen whose answer is lost. One that lost a race is answered, and its fault is that of the next: nothing has happened
// yet.
func (t *tap) lands(met *fault, answer http.ResponseWriter, request *http.Request) bool {
	told := httptest.NewRecorder()
	if t.proxy.ServeHTTP(told, request); told.Code != http.StatusConflict {
		return true
	}
	t.lock.Lock()
	met.armed = true
	t.lock.Unlock()
	maps.Copy(answer.Header(), told.Header())
	answer.WriteHeader(told.Code)
	_, _ = answer.Write(told.Body.Bytes())
	return false
}

// count notes the write, and returns the fault that it meets.
func (t *tap) count(write Write) *fault {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.writes = append(t.writes, write)
	for _, f := range t.faults {
		if f.armed && f.selects(write) {
			f.armed = false
			return f
		}
	}
	return nil
}

// asWrite distinguishes writes from reads, and from reviews that are sent by POST.
func asWrite(r *http.Request) (Write, bool, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return Write{}, false, nil
	}
	for _, asking := range []string{"/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"} {
		if strings.HasPrefix(r.URL.Path, asking) {
			return Write{}, false, nil
		}
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return Write{Verb: r.Method, Path: r.URL.Path, Body: string(body)}, true, errors.WithStack(err)
}
