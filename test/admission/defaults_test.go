// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func duration(d time.Duration) *remedyv1.Duration {
	return &remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}

func defaultPace() remedyv1.Pace {
	return remedyv1.Pace{
		Backoff: remedyv1.Backoff{
			Type:    remedyv1.DefaultBackoffType,
			Initial: duration(remedyv1.DefaultBackoffInitial),
			Limit:   duration(remedyv1.DefaultBackoffLimit),
		},
		HealthyDelay: duration(remedyv1.DefaultHealthyDelay),
		Recovery:     remedyv1.DefaultRecovery,
		Mode:         remedyv1.DefaultMode,
	}
}

// The schema has no default for a limit, because that would exclude the fields that are alternatives.
func TestDefaults_OfSchema_EqualGoConstants(t *testing.T) {
	t.Run("MachineHealthCheck", func(t *testing.T) {
		g := NewWithT(t)
		check := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "defaults"}, Spec: remedyv1.MachineHealthCheckSpec{
			ClusterName: "prod-1", Selector: remedyv1.Selector{MatchLabels: map[string]remedyv1.LabelValue{"nodepool": "a"}},
		}}
		wanted := check.Spec.DeepCopy()
		wanted.NodeStartupTimeout = duration(remedyv1.DefaultNodeStartupTimeout)
		wanted.NodeGoneTimeout = duration(remedyv1.DefaultNodeGoneTimeout)
		wanted.Pace = defaultPace()
		g.Expect(cp.API.Create(t.Context(), check, client.DryRunAll)).To(Succeed())
		g.Expect(check.Spec).To(BeComparableTo(*wanted))
	})
	t.Run("NodeHealthCheck", func(t *testing.T) {
		g := NewWithT(t)
		check := &remedyv1.NodeHealthCheck{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: remedyv1.NodeHealthCheckSpec{
			RemediationTemplate: &remedyv1.NodeTemplateReference{
				TemplateKind: remedyv1.TemplateKind{APIVersion: "a.b/v1", Kind: "FooTemplate", Name: "x"}, Namespace: "default",
			},
		}}
		wanted := check.Spec.DeepCopy()
		lasting := *duration(5 * time.Minute)
		wanted.UnhealthyConditions = []remedyv1.LastingNodeCondition{
			{Type: "Ready", Status: "False", Duration: lasting}, {Type: "Ready", Status: "Unknown", Duration: lasting},
		}
		wanted.TemplateLocation = remedyv1.DefaultTemplateLocation
		wanted.Pace = defaultPace()
		g.Expect(cp.API.Create(t.Context(), check, client.DryRunAll)).To(Succeed())
		g.Expect(check.Spec).To(BeComparableTo(*wanted))
	})
}
