// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

const (
	samplesFolder = "../../config/samples"
	// metal3Samples are in a folder of their own, because their kinds exist only where Metal3 is installed.
	metal3Samples = "metal3"
	// kustomization is not named kustomization.yaml because kubectl apply -f would read that as a sample.
	kustomization = "Kustomization"
)

// expectedSamples are the manifests of each document that work after obvious edits. Each file names its document.
var expectedSamples = map[string][]string{
	"the MachineHealthCheck proposal":                {"machinehealthcheck_conditions.yaml", "metal3/machinehealthcheck_metal3.yaml"},
	"the NodeHealthCheck enhancement":                {"nodehealthcheck_backoff.yaml", "nodehealthcheck_conditions.yaml"},
	"the README of node-healthcheck-operator v0.0.1": {"nodehealthcheck_mandatory.yaml", "nodehealthcheck_optional.yaml"},
	"the Cluster API book":                           {"machinehealthcheck_control_plane.yaml", "machinehealthcheck_workers.yaml"},
	"this project": {
		"nodehealthcheck_workload_observe.yaml", "resourcequota_checks.yaml", "metal3/cluster_role.yaml", "metal3/machinehealthcheck_escalation.yaml",
	},
}

// sampleFiles are the names of the files in a folder of samples.
func sampleFiles(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samplesFolder, folder, "*.yaml"))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names
}

// allSamples are all files, by their paths in the folder of samples.
func allSamples(t *testing.T) []string {
	t.Helper()
	names := sampleFiles(t, "")
	for _, name := range sampleFiles(t, metal3Samples) {
		names = append(names, path.Join(metal3Samples, name))
	}
	return names
}

func readSample(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(samplesFolder, name))
	NewWithT(t).Expect(err).ToNot(HaveOccurred())
	return content
}

// The templates of Metal3 are in the files of their checks.
func TestSamples_Created_AreAccepted(t *testing.T) {
	b := withMetal3(t)
	taken := map[string]string{}
	for _, name := range allSamples(t) {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			templates := map[string]bool{}
			for _, sample := range manifestsIn(g, string(readSample(t, name))) {
				g.Expect(tryCreate(t.Context(), b.API, sample)).To(Succeed())

				key := sample.GetKind() + " " + sample.GetName()
				g.Expect(taken).ToNot(HaveKey(key), "two samples have the same name")
				taken[key] = name
				templates[key] = true
				if spec, _, _ := unstructured.NestedMap(sample.Object, "spec"); strings.HasSuffix(sample.GetKind(), "HealthCheck") {
					g.Expect(spec).To(HaveKeyWithValue("mode", "Observe"), "a sample that is applied must not remediate")
				}
				if sample.GetKind() == "MachineHealthCheck" {
					g.Expect(sample.GetNamespace()).To(Equal("default"), "an empty cluster has no other namespace")
					for _, template := range templatesOf(g, sample) {
						g.Expect(templates).To(HaveKey(template), "the template must be in the same file, before the check")
					}
				}
			}
		})
	}
}

// templatesOf are the templates that a MachineHealthCheck names, as kind and name.
func templatesOf(g Gomega, check *unstructured.Unstructured) []string {
	spec := remedyv1.MachineHealthCheckSpec{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(check.Object["spec"].(map[string]any), &spec)).To(Succeed())
	var names []string
	add := func(template *remedyv1.MachineTemplateReference) {
		if template != nil {
			names = append(names, template.Kind+" "+template.Name)
		}
	}
	add(spec.RemediationTemplate)
	for _, step := range spec.EscalatingRemediations {
		add(step.RemediationTemplate)
	}
	return names
}

// A reader sees at the top what a sample is for.
func TestSamples_Comments_NameUse(t *testing.T) {
	for _, name := range allSamples(t) {
		g := NewWithT(t)
		content := string(readSample(t, name))
		g.Expect(content).To(MatchRegexp(`(?m)\A# Copyright .*\n# SPDX.*\n\n# Use: \S.*[.,]$`), name)
	}
}

func TestSamples_Comments_NameSourceAndEdits(t *testing.T) {
	found := map[string][]string{}
	for _, name := range allSamples(t) {
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
	for _, folder := range []string{"", metal3Samples} {
		g := NewWithT(t)
		list := struct{ Resources []string }{}
		g.Expect(yaml.Unmarshal(readSample(t, path.Join(folder, kustomization)), &list)).To(Succeed())
		g.Expect(list.Resources).To(Equal(sampleFiles(t, folder)))
	}
}

// With only the definitions of this project installed, kubectl apply accepts the folder with -f and with -k, with strict validation.
func TestSamples_AppliedAsFolder_AreAccepted(t *testing.T) {
	for _, by := range []string{"-f", "-k"} {
		t.Run(by, func(t *testing.T) {
			g := NewWithT(t)
			out := kubectl(t, "apply", by, samplesFolder, "--dry-run=server", "--validate=strict")
			lines := strings.Split(strings.TrimSpace(out), "\n")
			g.Expect(lines).To(HaveLen(len(sampleFiles(t, ""))), out)
			g.Expect(lines).To(HaveEach(HaveSuffix("created (server dry run)")))
		})
	}
}
