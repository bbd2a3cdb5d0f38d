// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// traces returns all objects of a cluster that name Remedy's API group anywhere but in their kind. CRDs do not count.
func traces(t *testing.T, server *testenv.Environment) []string {
	t.Helper()
	return tracesBy(t, server.Admin)
}

func tracesBy(t *testing.T, config *rest.Config) []string {
	t.Helper()
	g := NewWithT(t)
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	g.Expect(err).ToNot(HaveOccurred())
	api := dynamic.NewForConfigOrDie(config)
	var found []string
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).ToNot(HaveOccurred())
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || r.Kind == "CustomResourceDefinition" {
				continue
			}
			all, err := api.Resource(group.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				// The kind was deleted.
				continue
			}
			g.Expect(err).ToNot(HaveOccurred(), r.Name)
			for i := range all.Items {
				o := &all.Items[i]
				o.SetManagedFields(nil)
				unstructured.RemoveNestedField(o.Object, "apiVersion")
				text, err := json.Marshal(o.Object)
				g.Expect(err).ToNot(HaveOccurred())
				if strings.Contains(string(text), remedyv1.GroupVersion.Group) && r.Kind != "APIService" {
					found = append(found, r.Kind+" "+o.GetNamespace()+"/"+o.GetName())
				}
			}
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// definitionOf returns the CRD of the requests of a kind, with its name only.
func definitionOf(kind remediator.Kind) *unstructured.Unstructured {
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(kind.RequestCRD().Name)
	return definition
}

// Other tests of this package delete CRDs, which disappear some time later.
func TestTraces_DeletedCRD_AreIgnored(t *testing.T) {
	p := newFixture(t)
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
