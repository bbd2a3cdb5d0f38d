// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	samplesFolder = "../../config/samples"
	// kustomization is not called kustomization.yaml: kubectl apply -f would take it for a sample.
	kustomization = "Kustomization"
)

// expectedSamples are the manifests of each document that work after evident edits. Each file says which document it comes from.
var expectedSamples = map[string][]string{
	"the MachineHealthCheck proposal":                {"machinehealthcheck_conditions.yaml", "machinehealthcheck_metal3.yaml"},
	"the NodeHealthCheck enhancement":                {"nodehealthcheck_backoff.yaml", "nodehealthcheck_conditions.yaml"},
	"the README of node-healthcheck-operator v0.0.1": {"nodehealthcheck_mandatory.yaml", "nodehealthcheck_optional.yaml"},
	"the Cluster API book":                           {"machinehealthcheck_control_plane.yaml", "machinehealthcheck_workers.yaml"},
	"this project":                                   {"machinehealthcheck_escalation.yaml", "nodehealthcheck_workload_observe.yaml"},
}

func sampleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samplesFolder, "*.yaml"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

func readSample(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(samplesFolder, name))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return content
}

// A field that is there twice is refused here: the API server would not see it.
func TestSamplesAreAccepted(t *testing.T) {
	taken := map[string]string{}
	for _, name := range sampleFiles(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sample := &unstructured.Unstructured{}
			g.Expect(yaml.UnmarshalStrict(readSample(t, name), &sample.Object)).To(Succeed())
			g.Expect(tryCreate(t.Context(), admin, sample)).To(Succeed())

			key := sample.GetKind() + " " + sample.GetName()
			g.Expect(taken).ToNot(HaveKey(key), "two samples have the same name")
			taken[key] = name
			if sample.GetKind() == "MachineHealthCheck" {
				g.Expect(sample.GetNamespace()).To(Equal("default"), "it could not be applied to an empty cluster")
			}
		})
	}
}

func TestSamplesSayWhereTheyComeFromAndWhatWasEdited(t *testing.T) {
	found := map[string][]string{}
	for _, name := range sampleFiles(t) {
		g := NewWithT(t)
		comment, _, _ := strings.Cut(string(readSample(t, name)), "\napiVersion:")
		g.Expect(comment).To(MatchRegexp(`(?m)^# Edited: \S.*\.$|^# Edited: \S.*\n# `), name)
		_, from, said := strings.Cut(comment, "\n# From: ")
		g.Expect(said).To(BeTrue(), name)
		document := ""
		for known := range expectedSamples {
			if strings.HasPrefix(from, known) {
				document = known
			}
		}
		found[document] = append(found[document], name)
	}
	NewWithT(t).Expect(found).To(Equal(expectedSamples))
}

func TestSamplesAreListedForKustomize(t *testing.T) {
	g := NewWithT(t)
	list := struct{ Resources []string }{}
	g.Expect(yaml.Unmarshal(readSample(t, kustomization), &list)).To(Succeed())
	g.Expect(list.Resources).To(Equal(sampleFiles(t)))
}

// Somebody who has only our definitions can apply the folder in either way, and kubectl's own validation has nothing to say.
func TestSamplesCanBeAppliedAsAFolder(t *testing.T) {
	for _, by := range []string{"-f", "-k"} {
		t.Run(by, func(t *testing.T) {
			g := NewWithT(t)
			out := kubectl(t, "apply", by, samplesFolder, "--dry-run=server", "--validate=strict")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			g.Expect(lines).To(HaveLen(len(sampleFiles(t))), out)
			g.Expect(lines).To(HaveEach(HaveSuffix("created (server dry run)")))
		})
	}
}
