// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"

	. "github.com/onsi/gomega"
	"github.com/pkg/errors"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// WithWorkloadWrites makes the writes in the workload cluster writes of the process: they are recorded, and faults apply to them. Its
// kubeconfig leads to a server that forwards all calls.
func WithWorkloadWrites(s *Stage) {
	s.T.Helper()
	target, err := url.Parse(Workload.Admin.Host)
	s.Expect(err).ToNot(HaveOccurred())
	s.forwarder = &forwarder{}
	s.forwarder.api, err = rest.TransportFor(Workload.Admin)
	s.Expect(err).ToNot(HaveOccurred())
	server := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     s.forwarder,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		// A call that has failed is a broken connection, as without the server.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	s.T.Cleanup(server.Close)
	config := rest.CopyConfig(Workload.Admin)
	config.Host = server.URL
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s.forwarder.config = config
}

// forwarder forwards calls to the API server of the workload cluster.
type forwarder struct {
	// config leads to the server that forwards.
	config *rest.Config
	api    http.RoundTripper
	// process is the one whose calls are forwarded: there is one at a time.
	process atomic.Pointer[faults.Process]
	// answer returns the answer to some calls instead of the API server; nil for the others.
	answer atomic.Pointer[func(*http.Request) *http.Response]
}

// AnswerWorkload answers some calls instead of the API server of the workload cluster, if the stage is WithWorkloadWrites: those for which
// the function returns an answer.
func (s *Stage) AnswerWorkload(answer func(*http.Request) *http.Response) {
	s.forwarder.answer.Store(&answer)
}

// RoundTrip implements http.RoundTripper.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := f.answer.Load(); answer != nil {
		if response := (*answer)(r); response != nil {
			return response, nil
		}
	}
	process := f.process.Load()
	if process == nil {
		return nil, errors.New("no process runs")
	}
	return process.Wrap("workload", f.api).RoundTrip(r)
}
