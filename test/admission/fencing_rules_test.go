// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

const (
	fencing      = "../../config/fencing"
	fenceProfile = "fence-profile"
	nodeFence    = "node-fence"
)

// fences is the API server of the bench.
var fences = startedBench.Environment

// installFencing installs fencing-components.yaml, but for the Deployment.
func installFencing(ctx context.Context, e *testenv.Environment) error {
	err := e.InstallCRDs(filepath.Join(fencing, "crd", "bases"))
	for _, step := range []testenv.Step{
		testenv.Namespaces("remedy-system"), testenv.Manifests("fencing/rbac/*.yaml"), testenv.Kustomization(fencing + "/policy"),
	} {
		if err == nil {
			err = step(ctx, e)
		}
	}
	return err
}

// tryFence writes the object of a row as a dry run.
func tryFence(t *testing.T, r row) error {
	t.Helper()
	g := NewWithT(t)
	good := example(t, r.base)
	if !r.update {
		return tryCreate(t.Context(), fences.API, patched(g, good, r.patch))
	}
	fences.CreateUntilEnd(t, good)
	return fences.API.Update(t.Context(), patched(g, good, r.patch), client.DryRunAll)
}

func untilFencePoliciesWork(t *testing.T) {
	t.Helper()
	fences.Use(t)
	broken := patched(NewWithT(t), example(t, fenceProfile), fenceRow("secretNames: {ipmi: A_b}"))
	untilPoliciesWork(NewWithT(t), func() error { return tryCreate(t.Context(), fences.API, broken) }, policyPrefix)
}

func TestFencingRules_Row_IsAcceptedOrRejected(t *testing.T) {
	untilFencePoliciesWork(t)
	for _, r := range allFenceRows() {
		t.Run(r.base+"/"+r.name, func(t *testing.T) {
			g := NewWithT(t)
			err := tryFence(t, r)
			if r.message == "" {
				g.Expect(err).ToNot(HaveOccurred())
				return
			}
			g.Expect(err).To(HaveOccurred(), "accepted")
			words := index.ReplaceAllString(err.Error(), "[]")
			g.Expect(words).To(HaveSuffix(r.message))
			g.Expect(words).To(ContainSubstring(r.at+":"), "another field is rejected")
		})
	}
}

// A template has the same spec, and the same rules.
func TestFencingRules_InTemplate_AreTheSame(t *testing.T) {
	fences.Use(t)
	for _, r := range fenceRows {
		if r.base != nodeFence || r.update || r.name == "nothing" {
			continue
		}
		g := NewWithT(t)
		template := patched(g, example(t, nodeFence), r.patch)
		template.SetKind("NodeFenceTemplate")
		template.Object["spec"] = map[string]any{"template": map[string]any{"spec": template.Object["spec"]}}
		err := tryCreate(t.Context(), fences.API, template)
		if r.message == "" {
			g.Expect(err).ToNot(HaveOccurred(), r.name)
			continue
		}
		g.Expect(err).To(HaveOccurred(), r.name)
		words := index.ReplaceAllString(err.Error(), "[]")
		g.Expect(words).To(And(HaveSuffix(r.message), ContainSubstring(strings.Replace(r.at, "spec", "spec.template.spec", 1)+":")), r.name)
	}
}

// The examples have every field, so each rule rejects a row and accepts an object.
func TestFencingRules_Each_RejectsARow(t *testing.T) {
	g := NewWithT(t)
	rejected := map[string]bool{}
	for _, r := range allFenceRows() {
		rejected[r.base+": "+r.message] = true
	}
	total := 0
	for kind, base := range map[string]string{"FenceProfile": fenceProfile, "NodeFence": nodeFence} {
		crd := definitionsIn(t, filepath.Join(fencing, "crd", "bases"))[kind]
		good := []*unstructured.Unstructured{example(t, base)}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		visit(&spec, "spec", func(s *apiextensionsv1.JSONSchemaProps, path string) {
			for _, rule := range s.XValidations {
				// The rules of selectors are tested with checks.
				if strings.HasPrefix(path, "spec.nodeSelector.") || strings.HasPrefix(path, "spec.drain.waitFor.") {
					continue
				}
				total++
				g.Expect(rejected).To(HaveKey(base+": "+rule.Message), path)
				g.Expect(isPresent(good, path)).To(BeTrue(), path)
			}
		})
	}
	g.Expect(total).To(BeNumerically(">", 35))
}

// The maxima of the lists leave room: a profile of 256 rows is accepted within the budget of the API server for rules.
func TestFencingRules_LargeProfile_IsAccepted(t *testing.T) {
	untilFencePoliciesWork(t)
	large := example(t, fenceProfile)
	rows := make([]any, 256)
	for i := range rows {
		parameters := map[string]any{}
		for j := range 8 {
			parameters["parameter_"+string(rune('a'+j))] = strings.Repeat("a", 32)
		}
		rows[i] = map[string]any{"name": "worker-" + string(rune('a'+i%16)) + "-" + string(rune('a'+i/16)), "parameters": map[string]any{"ipmi": parameters, "fc": maps.Clone(parameters)}}
	}
	g := NewWithT(t)
	g.Expect(unstructured.SetNestedSlice(large.Object, rows, "spec", "nodes")).To(Succeed())
	g.Expect(tryCreate(t.Context(), fences.API, large)).To(Succeed())
}

func TestFencingDefaults_EmptySpec_AreApplied(t *testing.T) {
	fences.Use(t)
	wanted := fencingv1.NodeFenceSpec{
		Mode: fencingv1.FenceNode, PowerDelay: duration(0), PowerOn: fencingv1.PowerOnIfPoweredOff,
		Release: fencingv1.Release{Policy: fencingv1.ReleaseWorkload, Timeout: duration(10 * time.Minute)},
		Retries: ptr.To(int32(2)), Restarts: ptr.To(int32(1)), RejoinTimeout: duration(10 * time.Minute),
		Limits: fencingv1.FenceLimits{MaxParallel: ptr.To(int32(1)), MaxNotReady: ptr.To(intstr.FromString("40%")), RepeatPeriod: duration(24 * time.Hour)},
	}
	for name, patch := range map[string]string{"empty": "{spec: null}", "empty limits": "{spec: {limits: {}, release: {}}}"} {
		g := NewWithT(t)
		fence := example(t, nodeFence)
		fence.Object["spec"] = nil
		fence = patched(g, fence, patch)
		g.Expect(fences.API.Create(t.Context(), fence, client.DryRunAll)).To(Succeed(), name)
		typed := fencingv1.NodeFence{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(fence.Object, &typed)).To(Succeed())
		g.Expect(typed.Spec).To(BeComparableTo(wanted), name)
	}
	g := NewWithT(t)
	profile := patched(g, example(t, fenceProfile), "{spec: {methods: [{name: ipmi, agent: fence_ipmilan}, {name: fc, agent: fence_brocade}, {name: own, agent: fence_apc}]}}")
	g.Expect(fences.API.Create(t.Context(), profile, client.DryRunAll)).To(Succeed())
	typed := fencingv1.FenceProfile{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(profile.Object, &typed)).To(Succeed())
	g.Expect(typed.Spec.Methods[0].SecretKeys).To(Equal([]fencingv1.ParameterName{"username", "password"}))
	g.Expect(typed.Spec.Methods[0].Timeout).To(Equal(duration(2 * time.Minute)))
}

// The definition does not describe templates of Pods, and keeps all of their fields.
func TestFencingSchema_PodTemplate_IsKept(t *testing.T) {
	g := NewWithT(t)
	fences.Use(t)
	written := example(t, fenceProfile)
	wanted := written.DeepCopy()
	g.Expect(fences.API.Create(t.Context(), written, client.DryRunAll)).To(Succeed())
	template := func(o *unstructured.Unstructured) any {
		return o.Object["spec"].(map[string]any)["methods"].([]any)[2].(map[string]any)["podTemplate"]
	}
	g.Expect(template(written)).To(Equal(template(wanted)))
}
