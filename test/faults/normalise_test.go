// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
)

// Two runs end in the same state only if nothing differs but their names and times.
func TestNormalise_OtherText_IsADifference(t *testing.T) {
	g := NewWithT(t)
	state := func(namespace string, at time.Time, says string) string {
		object := configMap(namespace, "a")
		object.CreationTimestamp, object.ResourceVersion = metav1.NewTime(at), at.Format("150405")
		object.Annotations = map[string]string{"since": at.Format(time.RFC3339), "of": namespace + "/a", "text": says}
		text, err := faults.Normalise([]client.Object{object}, namespace)
		g.Expect(err).ToNot(HaveOccurred())
		return text
	}
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	g.Expect(state("story-xyz", start.Add(time.Hour), "x")).To(Equal(state("story-abc", start, "x")))
	g.Expect(state("story-xyz", start, "y")).ToNot(Equal(state("story-abc", start, "x")))
}
