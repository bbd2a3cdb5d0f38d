// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package probes_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/pkg/errors"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/probes"
)

func get(handler http.Handler, method, path string) (status int, body string) {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, http.NoBody))
	return recorder.Code, recorder.Body.String()
}

func TestAProbeTellsWhatIsWell(t *testing.T) {
	g := NewWithT(t)
	live, ready := probes.Fixed("process", "version v1.2.3"), probes.Fixed("mode", "Observe")
	handler := probes.Handler(logr.Discard(), []probes.Check{live}, []probes.Check{ready})
	status, body := get(handler, http.MethodGet, "/healthz")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("ok   process: version v1.2.3\n"))
	status, body = get(handler, http.MethodGet, "/readyz")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("ok   mode: Observe\n"))
}

// Every Pod can read the response. The errors of an API server are for the log.
func TestProbe_FailedCheck_ShowsNoError(t *testing.T) {
	g := NewWithT(t)
	failing := probes.Check{Name: "first", Probe: func(context.Context) (string, error) { return "broken", errors.New("10.0.0.1: no route") }}
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	status, body := get(probes.Handler(log, nil, []probes.Check{failing, probes.Fixed("second", "fine")}), http.MethodGet, "/readyz")
	g.Expect(status).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).To(Equal("FAIL first: broken; see the log\nok   second: fine\n"))
	g.Expect(logged).To(HaveExactElements(And(ContainSubstring("10.0.0.1: no route"), ContainSubstring(`"check"="first"`))))
}

func TestOnlyTheTwoProbesAreServedAndOnlyRead(t *testing.T) {
	g := NewWithT(t)
	handler := probes.Handler(logr.Discard(), nil, nil)
	status, _ := get(handler, http.MethodGet, "/debug/pprof")
	g.Expect(status).To(Equal(http.StatusNotFound))
	status, _ = get(handler, http.MethodPost, "/readyz")
	g.Expect(status).To(Equal(http.StatusMethodNotAllowed))
}

type cache bool

func (c cache) WaitForCacheSync(context.Context) bool { return bool(c) }

func TestUnfilledCachesAreNotReady(t *testing.T) {
	g := NewWithT(t)
	detail, err := probes.Caches(cache(false)).Probe(t.Context())
	g.Expect(err).To(HaveOccurred())
	g.Expect(detail).To(Equal("not filled yet"))
	detail, err = probes.Caches(cache(true)).Probe(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(detail).To(Equal("filled"))
}

func TestAStandbyIsAsWellAsTheLeader(t *testing.T) {
	g := NewWithT(t)
	elected := make(chan struct{})
	var holder string
	var failure error
	check := probes.Leader(elected, func(context.Context) (string, error) { return holder, failure })
	for name, expected := range map[string]string{"": "on standby, no instance leads yet", "other-1": "on standby, other-1 leads"} {
		holder = name
		detail, err := check.Probe(t.Context())
		g.Expect(err).ToNot(HaveOccurred())
		g.Expect(detail).To(Equal(expected))
	}
	failure = errors.New("forbidden")
	detail, err := check.Probe(t.Context())
	g.Expect(err).To(MatchError("forbidden"), "it will never lead")
	g.Expect(detail).To(Equal("on standby, and the Lease cannot be read"))
	close(elected)
	detail, err = check.Probe(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(detail).To(Equal("this instance leads"))
}
