// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

const pages = "../../docs/*.md"

// notManifests are the YAML blocks that are no objects of an API server, by a field that only they have.
var notManifests = []string{"providers", "components", "provider_repos", "debug"}

var (
	yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")
	separator = regexp.MustCompile(`(?m)^---$`)
)

// manifestsIn returns the manifests of a text that may have several. A duplicate field is rejected because the API server does not report
// it.
func manifestsIn(g Gomega, text string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, part := range separator.Split(text, -1) {
		object := &unstructured.Unstructured{}
		g.Expect(yaml.UnmarshalStrict([]byte(part), &object.Object)).To(Succeed(), part)
		if len(object.Object) > 0 && !slices.ContainsFunc(notManifests, func(field string) bool { return object.Object[field] != nil }) {
			all = append(all, object)
		}
	}
	return all
}

// withMetal3 is the bench with the kinds of Metal3.
func withMetal3(t *testing.T) *bench {
	t.Helper()
	b := policyBench(t)
	NewWithT(t).Expect(b.InstallCRDObjects(remediator.Metal3.CRDs()...)).To(Succeed())
	return b
}

// Readers copy the manifests of the pages, so an API server with the policies accepts each of them.
func TestPages_Manifests_AreAccepted(t *testing.T) {
	g := NewWithT(t)
	b := withMetal3(t)
	g.Expect(b.InstallCRDObjects(remediator.FenceAgents.CRDs()...)).To(Succeed())
	elsewhere := patched(g, example(t, machinesMinimal), "{spec: {remediationTemplate: {namespace: other}}}")
	untilPoliciesWork(g, func() error { return tryCreate(t.Context(), b.API, elsewhere) }, "must be in the namespace of the check")
	// The others are in the namespace default.
	remediating := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "remediation"}}
	g.Expect(client.IgnoreAlreadyExists(b.API.Create(t.Context(), remediating))).To(Succeed())
	files, err := filepath.Glob(pages)
	g.Expect(err).ToNot(HaveOccurred())
	kinds := map[string]int{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).ToNot(HaveOccurred())
			for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
				for _, object := range manifestsIn(g, string(block[1])) {
					kinds[object.GetKind()]++
					g.Expect(client.IgnoreAlreadyExists(tryCreate(t.Context(), b.API, object))).To(Succeed(), string(block[1]))
				}
			}
		})
	}
	g.Expect(kinds).To(And(HaveKey("MachineHealthCheck"), HaveKey("NodeHealthCheck"), HaveKey("Metal3RemediationTemplate")), "the blocks were not found")
}
