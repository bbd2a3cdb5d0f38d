// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// operatorProvider has the fields of cluster-api-operator's v1alpha2 that the samples need. The module of the operator is not a dependency,
// because its requirements would change the versions of Cluster API and Kubernetes that the tests of this module run with.
type operatorProvider struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Version     string `json:"version"`
		FetchConfig struct {
			URL string `json:"url"`
		} `json:"fetchConfig"`
	} `json:"spec"`
}

func TestOperatorSamples_ReleasedFile_IsFetched(t *testing.T) {
	for file, flavor := range map[string]struct {
		kind string
		flavor
	}{
		"infrastructure_provider.yaml": {"InfrastructureProvider", infrastructure}, "addon_provider.yaml": {"AddonProvider", addon},
	} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(flavor.kind).To(Equal(string(flavor.providerType)))
			content, err := os.ReadFile(filepath.Join(root, "config/samples/operator", file))
			g.Expect(err).ToNot(HaveOccurred())
			documents := strings.Split(string(content), "\n---\n")
			g.Expect(documents).To(HaveLen(2))
			var namespace, provider operatorProvider
			g.Expect(yaml.UnmarshalStrict([]byte(documents[0]), &namespace)).To(Succeed())
			g.Expect(yaml.UnmarshalStrict([]byte(documents[1]), &provider)).To(Succeed())
			g.Expect([]string{namespace.APIVersion, namespace.Kind}).To(Equal([]string{"v1", "Namespace"}))
			g.Expect([]string{provider.APIVersion, provider.Kind}).To(Equal([]string{"operator.cluster.x-k8s.io/v1alpha2", flavor.kind}))
			g.Expect(provider.Metadata.Namespace).To(Equal(namespace.Metadata.Name))
			g.Expect(flavor.label).To(HaveSuffix("-"+provider.Metadata.Name), "the operator finds a provider by its name")
			g.Expect(provider.Spec.Version).To(Equal(version))
			g.Expect(provider.Spec.FetchConfig.URL).To(Equal("<releases>/" + version + "/" + flavor.file))
			g.Expect(filepath.Join(releaseFolder(t), flavor.file)).To(BeARegularFile(), "a release has the file")
			docs, err := os.ReadFile(filepath.Join(root, "docs/install.md"))
			g.Expect(err).ToNot(HaveOccurred())
			g.Expect(string(docs)).To(ContainSubstring("config/samples/operator/" + file))
		})
	}
}
