// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/uninstall"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// tapped is the address of an API server at which every call is told before it is passed on.
func (p *place) tapped(server *controlplane.ControlPlane, called func(*http.Request)) string {
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

// tappedManagement is the management cluster, where every call is told before it is passed on.
func (p *place) tappedManagement(called func(*http.Request)) *uninstall.Cluster {
	p.t.Helper()
	c, err := uninstall.NewCluster("the management cluster", &rest.Config{Host: p.tapped(management, called)})
	p.Expect(err).ToNot(HaveOccurred())
	return c
}

// TestAKindThatHasJustGoneHasNoTraces: other tests of this package delete definitions, and those are gone at some time after.
func TestAKindThatHasJustGoneHasNoTraces(t *testing.T) {
	p := newPlace(t)
	before := traces(t, management)
	going := remediator.NewKind("going.example.com", "v1", "Going")
	p.Expect(management.InstallCRDObjects(going.RequestCRD())).To(Succeed())
	asked := false
	config := rest.CopyConfig(management.Admin)
	config.Wrap(func(behind http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/"+going.Plural) {
				asked = true
				p.Expect(p.api.Delete(p.ctx, definitionOf(going))).To(Succeed())
				list := &unstructured.UnstructuredList{}
				list.SetGroupVersionKind(going.GroupVersion().WithKind(going.Kind + "List"))
				p.Eventually(func() error { return p.api.List(p.ctx, list) }, "10m").Should(Satisfy(apierrors.IsNotFound))
			}
			return behind.RoundTrip(r)
		})
	})
	p.Expect(tracesBy(t, config)).To(ConsistOf(before))
	p.Expect(asked).To(BeTrue())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// definitionOf is the definition of the requests of a kind, by its name.
func definitionOf(kind remediator.Kind) *unstructured.Unstructured {
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(kind.RequestCRD().Name)
	return definition
}

// through is a kubeconfig of the workload cluster by which every call is told.
func (p *place) through(called func(*http.Request)) []byte {
	p.t.Helper()
	content, err := controlplane.Kubeconfig(&rest.Config{Host: p.tapped(workloads, called)})
	p.Expect(err).ToNot(HaveOccurred())
	return content
}
