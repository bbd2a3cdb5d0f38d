// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// Only the annotation names the instance: no message of a condition does.
func TestHasAdopted_Annotation_NamesTheInstance(t *testing.T) {
	tests := []struct {
		name, annotation, filter string
		want                     bool
	}{
		{name: "own", annotation: "id/a", filter: "a", want: true},
		{name: "own, without adoption", annotation: "-/a", filter: "a", want: true},
		{name: "own, contested", annotation: "-/a 2026-03-14T12:00:00Z", filter: "a", want: true},
		{name: "of another instance", annotation: "id/b", filter: "a"},
		{name: "of the instance without filter", annotation: "id/-", filter: "a", want: true},
		{name: "own, without filter", annotation: "-/-", want: true},
		{name: "of an instance with filter", annotation: "id/a"},
		{name: "condition only", filter: "a"},
		{name: "condition only, without filter"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			check := &clusterv1.MachineHealthCheck{}
			check.Status.Conditions = []metav1.Condition{{
				Type: remedyv1.AdoptedCondition, Message: "Any text (by the manager with --watch-filter=" + test.filter + ")",
			}}
			if test.annotation != "" {
				check.Annotations = map[string]string{remedyv1.AdoptionIDAnnotation: test.annotation}
			}
			a := &Adoption{Environment: &healthcheck.Environment{WatchFilter: test.filter}}
			NewWithT(t).Expect(a.HasAdopted(check)).To(Equal(test.want))
		})
	}
}
