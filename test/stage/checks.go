// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// CreateCheck creates a MachineHealthCheck of all workers.
func (s *Stage) CreateCheck(name string, changes ...func(*remedyv1.MachineHealthCheckSpec)) *remedyv1.MachineHealthCheck {
	s.T.Helper()
	c := &remedyv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	if s.AllNamespaces {
		c.Labels = map[string]string{clusterv1.WatchLabel: s.WatchFilter}
	}
	c.Spec.ClusterName = "prod"
	c.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "workers"}
	c.Spec.UnhealthyConditions = []remedyv1.UnhealthyNodeCondition{
		{
			Type:    "Ready",
			Status:  "Unknown",
			Timeout: Duration(5 * time.Minute),
		}, {Type: "Ready", Status: "False", Timeout: Duration(5 * time.Minute)},
	}
	for _, change := range changes {
		change(&c.Spec)
	}
	s.Create(c)
	return c
}

// Checks are all MachineHealthChecks of the namespace.
func (s *Stage) Checks() []remedyv1.MachineHealthCheck {
	s.T.Helper()
	all := &remedyv1.MachineHealthCheckList{}
	s.Expect(s.Admin.List(s.Ctx, all, client.InNamespace(s.Namespace))).To(Succeed())
	return all.Items
}

// OfPool selects the Machines of a pool.
func OfPool(pool string) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": remedyv1.LabelValue(pool)}
	}
}

// MaxInFlight limits how many Machines are remediated at the same time.
func MaxInFlight(n int) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxInFlight = ptr.To(intstr.FromInt(n)) }
}

// ByTemplate remediates with a template.
func ByTemplate(template *remedyv1.MachineTemplateReference) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) { spec.RemediationTemplate = template }
}

// ByNewTemplate remediates with a template of Metal3, which it creates.
func ByNewTemplate(s *Stage) func(*remedyv1.MachineHealthCheckSpec) {
	return ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))
}

// BySteps escalates from one template to the next, ten minutes each; nil is owner remediation.
func BySteps(templates ...*remedyv1.MachineTemplateReference) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) {
		for i, template := range templates {
			step := remedyv1.MachineEscalationStep{Order: int32(i + 1), RemediationTemplate: template}
			if template == nil {
				step.Owner = &remedyv1.OwnerRemediation{}
			} else {
				d := Duration(10 * time.Minute)
				step.Timeout = &d
			}
			spec.EscalatingRemediations = append(spec.EscalatingRemediations, step)
		}
	}
}

// Duration is a duration of the API.
func Duration(d time.Duration) remedyv1.Duration {
	return remedyv1.Duration{Duration: metav1.Duration{Duration: d}}
}
