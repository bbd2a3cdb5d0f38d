// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/instance"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// replica is a manager whose calls go through a gateway, which records its writes.
type replica struct {
	*instance.Instance
	*faults.Process
	next http.RoundTripper
	// unrecorded is for dry runs, which change nothing: the manager tests with them whether policies limit it.
	unrecorded http.RoundTripper

	mu sync.Mutex
	// freezes selects the write at which the replica is frozen; nil if it is not. frozen is closed then.
	freezes func(method, path string) bool
	frozen  chan struct{}
}

// startReplica starts a manager behind a gateway.
func (c *cluster) startReplica(args ...string) *replica {
	c.t.Helper()
	target, err := url.Parse(c.Admin.Host)
	c.Expect(err).ToNot(HaveOccurred())
	r := &replica{Process: faults.Start(c.t.Context(), faults.Ignoring(faults.Events, faults.Leases))}
	config := c.ConfigOf(c.t, testenv.Manager)
	r.unrecorded, err = rest.TransportFor(config)
	c.Expect(err).ToNot(HaveOccurred())
	r.next, err = rest.TransportFor(r.Config(config))
	c.Expect(err).ToNot(HaveOccurred())
	server := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport:     r,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	})
	// An open watch would keep the server from closing.
	c.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	content, err := controlplane.Kubeconfig(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}})
	c.Expect(err).ToNot(HaveOccurred())
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	c.Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
	r.Instance, _ = c.StartManager(c.t, append(args, "--kubeconfig="+kubeconfig)...)
	return r
}

// RoundTrip implements http.RoundTripper. The replica is frozen when its write has succeeded, and gets the response when it continues.
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("dryRun") {
		return r.unrecorded.RoundTrip(request)
	}
	response, err := r.next.RoundTrip(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && response.StatusCode/100 == 2 && r.freezes != nil && r.freezes(request.Method, request.URL.Path) {
		r.freezes, err = nil, r.Freeze()
		close(r.frozen)
	}
	return response, err
}

// freezeAt freezes the replica at its next write that fits. The channel is closed then.
func (r *replica) freezeAt(fits func(method, path string) bool) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.freezes, r.frozen = fits, make(chan struct{})
	return r.frozen
}
