// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// StartInterrupted runs the reconcilers, and calls a function when the first of some writes has succeeded.
func (s *Stage) StartInterrupted(is func(r *http.Request, body string) bool, then func()) *Instance {
	s.T.Helper()
	user, once := s.User(), &sync.Once{}
	user = rest.CopyConfig(user)
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &interrupter{next, is, once, then} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	return c
}

// RequestsOwner matches a request of owner remediation.
func RequestsOwner(r *http.Request, body string) bool {
	return r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") && strings.Contains(r.URL.Path, "/machines/") &&
		strings.Contains(body, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)
}

// interrupter calls a function when the first of some writes has succeeded, before the writer receives the response.
type interrupter struct {
	next http.RoundTripper
	is   func(r *http.Request, body string) bool
	once *sync.Once
	then func()
}

// RoundTrip implements http.RoundTripper.
func (i *interrupter) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	response, err := i.next.RoundTrip(r)
	if err == nil && response.StatusCode/100 == 2 && i.is(r, string(body)) {
		i.once.Do(i.then)
	}
	return response, err
}

// StartBlocked runs the reconcilers and blocks just before the first of some writes: reached is closed then, and release lets it
// continue.
func (s *Stage) StartBlocked(is func(r *http.Request, body string) bool) (c *Instance, reached <-chan struct{}, release func()) {
	s.T.Helper()
	at, released := make(chan struct{}), make(chan struct{})
	user, once := rest.CopyConfig(s.User()), &sync.Once{}
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return &blocker{next, is, once, at, released} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	release = sync.OnceFunc(func() { close(released) })
	// A blocked instance could not be stopped.
	s.T.Cleanup(release)
	return c, at, release
}

// blocker blocks the first of some writes until it is released.
type blocker struct {
	next              http.RoundTripper
	is                func(r *http.Request, body string) bool
	once              *sync.Once
	reached, released chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (b *blocker) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.is(r, "") {
		b.once.Do(func() {
			close(b.reached)
			<-b.released
		})
	}
	return b.next.RoundTrip(r)
}
