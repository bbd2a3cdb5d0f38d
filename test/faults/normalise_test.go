// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// stored is the same object, as the API server returns it in two runs.
func stored(namespace, version, uid string, at time.Time, says string) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: version, UID: types.UID(uid), Generation: int64(len(version)), CreationTimestamp: metav1.Time{Time: at},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test", Time: &metav1.Time{Time: at}}},
			Annotations:   map[string]string{"history": `{"notBefore":"` + at.Format(time.RFC3339) + `","node":"` + uid + `"}`, "where": namespace + "-more/x", "text": says},
		}
	}
	generated := meta("gift-" + version)
	generated.GenerateName = "gift-"
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: generated},
		&corev1.Node{ObjectMeta: meta("n"), Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, LastTransitionTime: metav1.Time{Time: at}}}}},
	}
}

func TestNormalise_GeneratedValues_AreReplaced(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	one := stored("story-abc", "12", "6f1ed002-ab5c-4f18-8d53-5ad3a93bb2d8", start, "x")
	other := stored("story-xyz", "4711", "00000000-ab5c-4f18-8d53-5ad3a93bb2d8", start.Add(time.Hour), "x")
	first, err := faults.Normalise(one, "story-abc", "story-abc-more")
	g.Expect(err).ToNot(HaveOccurred())
	second, err := faults.Normalise([]client.Object{other[1], other[0]}, "story-xyz", "story-xyz-more")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(second).To(Equal(first))
	g.Expect(first).To(And(ContainSubstring("name: gift-*"), ContainSubstring("where: <2>/x"), ContainSubstring("kind: Node\n"), ContainSubstring("lastTransitionTime: <time>")))

	third, err := faults.Normalise(stored("story-xyz", "4711", "u", start, "y"), "story-xyz", "story-xyz-more")
	g.Expect(err).ToNot(HaveOccurred())
	g.Expect(third).ToNot(Equal(first))
	g.Expect(one[0].GetResourceVersion()).To(Equal("12"), "the object itself stays as it is")
}
