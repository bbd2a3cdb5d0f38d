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
	// kustomization is not named kustomization.yaml because kubectl apply -f would read that as a sample.
	kustomization = "Kustomization"
)

// expectedSamples are the manifests of each document that work after obvious edits. Each file names its document.
var expectedSamples = map[string][]string{
	"the MachineHealthCheck proposal":                {"machinehealthcheck_conditions.yaml", "machinehealthcheck_metal3.yaml"},
	"the NodeHealthCheck enhancement":                {"nodehealthcheck_backoff.yaml", "nodehealthcheck_conditions.yaml"},
	"the README of node-healthcheck-operator v0.0.1": {"nodehealthcheck_mandatory.yaml", "nodehealthcheck_optional.yaml"},
	"the Cluster API book":                           {"machinehealthcheck_control_plane.yaml", "machinehealthcheck_workers.yaml"},
	"this project":                                   {"machinehealthcheck_escalation.yaml", "nodehealthcheck_workload_observe.yaml", "resourcequota_checks.yaml"},
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

// A duplicate field is rejected here because the API server does not report it.
func TestSamples_Created_AreAccepted(t *testing.T) {
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
				g.Expect(sample.GetNamespace()).To(Equal("default"), "an empty cluster has no other namespace")
			}
		})
	}
}

func TestSamples_Comments_NameSourceAndEdits(t *testing.T) {
	found := map[string][]string{}
	for _, name := range sampleFiles(t) {
		g := NewWithT(t)
		comment, _, _ := strings.Cut(string(readSample(t, name)), "\napiVersion:")
		g.Expect(comment).To(MatchRegexp(`(?m)^# Edited: \S.*\.$|^# Edited: \S.*\n# `), name)
		_, from, hasSource := strings.Cut(comment, "\n# From: ")
		g.Expect(hasSource).To(BeTrue(), name)
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

func TestSamples_Kustomization_ListsAll(t *testing.T) {
	g := NewWithT(t)
	list := struct{ Resources []string }{}
	g.Expect(yaml.Unmarshal(readSample(t, kustomization), &list)).To(Succeed())
	g.Expect(list.Resources).To(Equal(sampleFiles(t)))
}

// With only the definitions of this project installed, kubectl apply accepts the folder with -f and with -k, with strict validation.
func TestSamples_AppliedAsFolder_AreAccepted(t *testing.T) {
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
