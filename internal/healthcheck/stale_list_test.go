// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// laggingAPI is an API server that answers lists from its cache as they were recorded, and serves no streaming lists. Lists that must be
// current are.
type laggingAPI struct {
	next http.RoundTripper
	*recordedLists
}

// recordedLists are bodies by path.
type recordedLists struct {
	resources []string
	bodies    sync.Map
	lags      atomic.Bool
}

// startLagging starts an instance that reads from such an API server.
func (s *kindStage) startLagging(lists *recordedLists) *stage.Instance {
	s.T.Helper()
	user := rest.CopyConfig(s.User())
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return laggingAPI{next, lists} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	s.T.Cleanup(c.StopIdle)
	return c
}

// RoundTrip implements http.RoundTripper.
func (l laggingAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	listed := false
	for _, resource := range l.resources {
		plural, _, _ := strings.Cut(resource, ".")
		listed = listed || r.Method == http.MethodGet && name == plural
	}
	switch {
	case listed && query.Has("sendInitialEvents"):
		const invalid = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(invalid)), Request: r,
		}, nil
	case !listed || query.Get("resourceVersion") != "0" || query.Has("watch"):
		return l.next.RoundTrip(r)
	}
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if old, recorded := l.bodies.Load(r.URL.Path); l.lags.Load() && recorded {
		body = old.([]byte)
	} else {
		l.bodies.Store(r.URL.Path, body)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, err
}

// stopIdle ends an instance that has nothing left to do.
func stopIdle(c *stage.Instance) {
	c.WaitIdle()
	c.Crash()
	c.Stop()
}

// The manager restarts, and lists from an API server whose cache is behind: a Node that has recovered is unhealthy there, and the Node of a
// new request is healthy, with the request before. The new request stays, and no other is created.
func TestStaleLists_AfterRestart_AreConfirmedLive(t *testing.T) {
	t.Parallel()
	s := newKindStage(t, true)
	s.Record()
	s.createTargets("m-1", "m-2", "m-3")
	check := s.createCheck()
	first := s.Start()
	s.FailNode("m-2")
	before := s.waitRequest("m-2")
	stopIdle(first)
	s.SetReady("m-2", corev1.ConditionTrue, 0)
	s.FailNode("m-1")

	lists := &recordedLists{resources: []string{s.targets, s.requests}}
	second := s.startLagging(lists)
	s.waitRequest("m-1")
	s.Eventually(s.request("m-2")).Should(BeNil())
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(s.request("m-1")).Should(BeNil())
	s.FailNode("m-2")
	after := s.waitRequest("m-2")
	s.Expect(after.GetUID()).ToNot(Equal(before.GetUID()))
	stopIdle(second)

	lists.lags.Store(true)
	third := s.startLagging(lists)
	third.Watches().Hold(s.targets, s.requests)
	s.Eventually(check.decision("m-1"), stage.OutcomeTimeout).Should(Equal("Blocked PreflightFailed"))
	s.Expect(s.request("m-1")()).To(BeNil())
	s.Expect(s.waitRequest("m-2").GetUID()).To(Equal(after.GetUID()))
	third.Watches().Release()
	third.WaitIdle()
	s.Expect(s.request("m-1")()).To(BeNil())
	s.Expect(s.waitRequest("m-2").GetUID()).To(Equal(after.GetUID()))
}
