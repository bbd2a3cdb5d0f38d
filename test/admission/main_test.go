// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission tests on a real API server which objects are accepted, which are rejected, and with which message.
package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/controlplane"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const crdFolder = "../../config/crd/bases"

var cp = testenv.Shared(controlplane.Management, testenv.RemedyKinds)

func TestMain(m *testing.M) { testenv.Main(m, cp) }

// example reads an object from testdata.
func example(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	return object
}

// tryCreate creates an object as a dry run. The API server rejects unknown fields, as with kubectl.
func tryCreate(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	return c.Create(ctx, object.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
}

func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return definitionsIn(t, crdFolder)
}

func definitionsIn(t *testing.T, folder string) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(files).ToNot(BeEmpty())
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).ToNot(HaveOccurred())
		crd := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(yaml.UnmarshalStrict(content, crd)).To(Succeed())
		crds[crd.Spec.Names.Kind] = crd
	}
	return crds
}
