// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package probes_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

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
	handler := probes.Handler([]probes.Check{probes.Fixed("process", "version v1.2.3")}, []probes.Check{probes.Fixed("mode", "Observe")})
	status, body := get(handler, http.MethodGet, "/healthz")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("ok   process: version v1.2.3\n"))
	status, body = get(handler, http.MethodGet, "/readyz")
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("ok   mode: Observe\n"))
}

func TestAFailedCheckDoesNotHideTheNext(t *testing.T) {
	g := NewWithT(t)
	failing := probes.Check{Name: "first", Probe: func(context.Context) (string, error) { return "", errors.New("broken") }}
	status, body := get(probes.Handler(nil, []probes.Check{failing, probes.Fixed("second", "fine")}), http.MethodGet, "/readyz")
	g.Expect(status).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).To(Equal("FAIL first: broken\nok   second: fine\n"))
}

func TestOnlyTheTwoProbesAreServedAndOnlyRead(t *testing.T) {
	g := NewWithT(t)
	handler := probes.Handler(nil, nil)
	status, _ := get(handler, http.MethodGet, "/debug/pprof")
	g.Expect(status).To(Equal(http.StatusNotFound))
	status, _ = get(handler, http.MethodPost, "/readyz")
	g.Expect(status).To(Equal(http.StatusMethodNotAllowed))
}

type cache bool

func (c cache) WaitForCacheSync(context.Context) bool { return bool(c) }

func TestUnfilledCachesAreNotReady(t *testing.T) {
	g := NewWithT(t)
	_, err := probes.Caches(cache(false)).Probe(t.Context())
	g.Expect(err).To(MatchError("not filled yet"))
	detail, err := probes.Caches(cache(true)).Probe(t.Context())
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
	_, err := check.Probe(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("the Lease cannot be read: forbidden")), "it will never lead")
	close(elected)
	detail, err := check.Probe(t.Context())
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(detail).To(Equal("this instance leads"))
}
