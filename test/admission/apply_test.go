// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A default has no field manager. If the API server merged it with a list that a user applies later, a Node would be remediated for a
// condition that is in no manifest.
func TestServerSideApply_OwnConditions_ReplaceDefaults(t *testing.T) {
	g := NewWithT(t)
	t.Cleanup(func() {
		g.Expect(cp.API.Delete(context.Background(), withName(example(t, nodesMinimal), "applied"))).To(Succeed())
	})
	apply := func(patch string) *unstructured.Unstructured {
		object := patched(g, example(t, nodesMinimal), patch)
		object.SetName("applied")
		g.Expect(cp.API.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"), client.ForceOwnership)).To(Succeed())
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(object.GroupVersionKind())
		g.Expect(cp.API.Get(t.Context(), client.ObjectKeyFromObject(object), stored)).To(Succeed())
		return stored
	}
	conditions := func(stored *unstructured.Unstructured) []any {
		list, _, err := unstructured.NestedSlice(stored.Object, "spec", "unhealthyConditions")
		g.Expect(err).ToNot(HaveOccurred())
		return list
	}
	g.Expect(conditions(apply("{}"))).To(HaveLen(2))
	g.Expect(conditions(apply("{spec: {unhealthyConditions: [{type: Ready, status: Unknown, duration: 30m}]}}"))).
		To(Equal([]any{map[string]any{"type": "Ready", "status": "Unknown", "duration": "30m"}}))
	g.Expect(conditions(apply("{}"))).To(HaveLen(2), "the defaults apply again")
}
