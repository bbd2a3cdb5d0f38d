// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// proxyFor returns the URL of a proxy for an API server that reports each call before it forwards it.
func (p *fixture) proxyFor(server *testenv.Environment, called func(*http.Request)) string {
	p.t.Helper()
	behind, err := url.Parse(server.Admin.Host)
	p.Expect(err).ToNot(HaveOccurred())
	transport, err := rest.TransportFor(server.Admin)
	p.Expect(err).ToNot(HaveOccurred())
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }}
	tap := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called(r)
		proxy.ServeHTTP(w, r)
	}))
	p.t.Cleanup(tap.Close)
	return tap.URL
}

// proxiedManagement returns the management cluster behind a proxy.
func (p *fixture) proxiedManagement(called func(*http.Request)) *uninstall.Cluster {
	p.t.Helper()
	c, err := uninstall.NewCluster("the management cluster", &rest.Config{Host: p.proxyFor(management, called)})
	p.Expect(err).ToNot(HaveOccurred())
	return c
}

// proxiedKubeconfig returns a kubeconfig of the workload cluster behind a proxy.
func (p *fixture) proxiedKubeconfig(called func(*http.Request)) []byte {
	p.t.Helper()
	content, err := controlplane.Kubeconfig(&rest.Config{Host: p.proxyFor(workloads, called)})
	p.Expect(err).ToNot(HaveOccurred())
	return content
}
