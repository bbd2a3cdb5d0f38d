// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/convert"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/manifests"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

// cluster has the definitions that what is converted is created with, as a dry run.
var cluster = testenv.New(testenv.RemedyKinds, func(_ context.Context, e *testenv.Environment) error {
	return e.InstallCRDs(filepath.Join("..", "..", "..", "config", "fencing", "crd", "bases"))
}, testenv.Namespaces("remedy-system"))

func TestMain(m *testing.M) { testenv.Main(m, cluster) }

func dryRun(t *testing.T, content []byte) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	return cluster.API.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
}

// read converts text.
func read(text string) ([]*convert.Converted, []error) {
	all, err := manifests.Read(strings.NewReader(text), "a.yaml")
	if err != nil {
		return nil, []error{err}
	}
	own, _ := convert.Documents(all)
	return convert.Convert(own)
}

// printed is all that a person sees.
func printed(g Gomega, converted []*convert.Converted, failures []error) string {
	var text strings.Builder
	for _, one := range converted {
		content, err := one.YAML()
		g.Expect(err).ToNot(HaveOccurred())
		text.WriteString("---\n" + string(content))
	}
	for _, err := range failures {
		text.WriteString("error: " + err.Error() + "\n")
	}
	return text.String()
}
