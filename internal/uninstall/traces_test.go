// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall_test

import (
	"encoding/json"
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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// traces returns all objects of a cluster that name Remedy's API group anywhere but in their kind. CRDs do not count.
func traces(t *testing.T, server *testenv.Environment) []string {
	t.Helper()
	g := NewWithT(t)
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(server.Admin).ServerPreferredResources()
	g.Expect(err).ToNot(HaveOccurred())
	api := dynamic.NewForConfigOrDie(server.Admin)
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
				// Other tests delete CRDs, which disappear some time later.
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

// definitionOf returns the CRD of the requests of a kind, with its name only.
func definitionOf(kind remediator.Kind) *unstructured.Unstructured {
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(kind.RequestCRD().Name)
	return definition
}
