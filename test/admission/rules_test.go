// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// allRows is the table: the rows of either kind, and the shared ones for both.
func allRows() []row {
	all := append(append([]row{}, machineRows...), nodeRows...)
	for _, r := range sharedRows {
		r.base = machinesMinimal
		all = append(all, withTimeField(r, "timeout"))
		r.base = nodesMinimal
		all = append(all, withTimeField(r, "duration"))
	}
	return all
}

// withTimeField replaces TIME by the field of a kind for the duration of a condition.
func withTimeField(r row, time string) row {
	r.patch = strings.ReplaceAll(r.patch, "TIME", time)
	r.at = strings.ReplaceAll(r.at, "TIME", time)
	return r
}

func TestRules_Row_IsAcceptedOrRejected(t *testing.T) {
	for _, r := range allRows() {
		t.Run(r.base+"/"+r.name, func(t *testing.T) {
			g := NewWithT(t)
			err := try(t, r)
			if r.message == "" {
				g.Expect(err).ToNot(HaveOccurred())
				return
			}
			g.Expect(err).To(HaveOccurred(), "accepted")
			words := index.ReplaceAllString(err.Error(), "[]")
			g.Expect(words).To(ContainSubstring(r.message))
			g.Expect(words).To(MatchRegexp(`%s[.:"\[ ]`, regexpOf(r.at)), "another field is rejected")
			g.Expect(words).ToNot(ContainSubstring("no such overload"), "a rule must reject, not fail")
			g.Expect(words).ToNot(ContainSubstring("no such key"), "a rule must reject, not fail")
		})
	}
}

// A user sees all errors of a check at once.
func TestRules_SeveralBroken_AllAreReported(t *testing.T) {
	g := NewWithT(t)
	patch := "{spec: {maxUnhealthy: 140%, unhealthyRange: '[5-3]', stormCooldownDuration: soon}}"
	g.Expect(tryCreate(t.Context(), cp.API, patched(g, example(t, nodesMinimal), patch))).
		To(MatchError(And(ContainSubstring(notALimit), ContainSubstring(notARange), ContainSubstring(notADuration))))
}

func regexpOf(path string) string {
	return strings.NewReplacer(".", `\.`, "[", `\[`, "]", `\]`).Replace(path)
}

// try writes the object of a row as a dry run.
func try(t *testing.T, r row) error {
	t.Helper()
	g := NewWithT(t)
	good := example(t, r.base)
	if !r.update {
		return tryCreate(t.Context(), cp.API, patched(g, good, r.patch))
	}
	good.SetName("exists-" + good.GetName())
	g.Expect(cp.API.Create(t.Context(), good)).To(Succeed())
	defer func() { g.Expect(cp.API.Delete(context.Background(), good)).To(Succeed()) }()
	return cp.API.Update(t.Context(), patched(g, good, r.patch), client.DryRunAll)
}

func patched(g Gomega, good *unstructured.Unstructured, patch string) *unstructured.Unstructured {
	if patch == "" {
		patch = "{}"
	}
	before, err := good.MarshalJSON()
	g.Expect(err).ToNot(HaveOccurred())
	change, err := yaml.YAMLToJSON([]byte(patch))
	g.Expect(err).ToNot(HaveOccurred())
	after, err := jsonpatch.MergePatch(before, change)
	g.Expect(err).ToNot(HaveOccurred())
	changed := &unstructured.Unstructured{}
	g.Expect(changed.UnmarshalJSON(after)).To(Succeed())
	return changed
}

// The examples have every field and are accepted, see TestSchema_BrokenConstraint_IsRejected. So each rule rejects a row and accepts an
// object.
func TestRules_Each_RejectsARow(t *testing.T) {
	rejected := map[string]bool{}
	for _, r := range allRows() {
		if r.message != "" {
			rejected[kindOf(r.base)+" "+index.ReplaceAllString(try(t, r).Error(), "[]")] = true
		}
	}
	total := 0
	for kind, crd := range definitions(t) {
		examples := []*unstructured.Unstructured{}
		for _, name := range []string{machines, machinesEscalate, nodes, nodesEscalate} {
			if kindOf(name) == kind {
				examples = append(examples, example(t, name))
			}
		}
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		visit(root, "", func(s *apiextensionsv1.JSONSchemaProps, path string) {
			path = strings.TrimPrefix(path, ".")
			for _, rule := range s.XValidations {
				total++
				if rule.Message == "" {
					t.Errorf("%s %s: %s: no message", kind, path, rule.Rule)
				}
				where := strings.TrimSuffix(path, "{}") + rule.FieldPath
				if !isRejected(rejected, kind, where, rule.Message) {
					t.Errorf("%s %s: no row is rejected with %q", kind, where, rule.Message)
				}
				if !isPresent(examples, path) {
					t.Errorf("%s %s: no accepted example has this field", kind, path)
				}
			}
		})
	}
	NewWithT(t).Expect(total).To(BeNumerically(">", 60))
	t.Logf("%d rules, each rejects and accepts an object", total)
}

func kindOf(name string) string {
	if strings.Contains(name, "machines") {
		return "MachineHealthCheck"
	}
	return "NodeHealthCheck"
}

func isRejected(rejected map[string]bool, kind, where, message string) bool {
	for words := range rejected {
		if strings.HasPrefix(words, kind+" ") && strings.Contains(words, where) && strings.Contains(words, message) {
			return true
		}
	}
	return false
}

// isPresent reports whether one of the objects has a value at the path.
func isPresent(objects []*unstructured.Unstructured, path string) bool {
	steps := []any{}
	for _, step := range strings.Split(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path), ".") {
		switch step {
		case "[]":
			steps = append(steps, 0)
		case "{}":
			steps = append(steps, anyKey)
		default:
			steps = append(steps, step)
		}
	}
	for _, object := range objects {
		if change(object.DeepCopy().Object, steps, func(old any) (any, bool) { return old, false }) {
			return true
		}
	}
	return false
}
