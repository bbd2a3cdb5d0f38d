// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// conditionsFor returns the conditions of a Machine after a decision.
func conditionsFor(kind health.Kind, d remediation.Decision) *explain.MachineConditions {
	v := &health.Verdict{Kind: kind}
	if kind == health.Unhealthy {
		v.Reason, v.Findings = health.HasRemediateAnnotation, []health.Finding{{Rule: health.HasRemediateAnnotation, Met: true}}
	}
	c := explain.ForMachine(&explain.Facts{Name: "m", Verdict: v, Decision: &d, Target: &remediation.Target{}}, &remediation.Check{})
	return &c
}

var (
	healthy = conditionsFor(health.Healthy, remediation.Decision{})
	handed  = conditionsFor(health.Unhealthy, remediation.Decision{Action: remediation.RequestOwnerRemediation, MarkedBy: true})
	asked   = conditionsFor(health.Unhealthy, remediation.Decision{Action: remediation.StartRequest, MarkedBy: true})
)

// both returns status and reason of a condition in both API versions; v1beta1 has no reason if it is True.
func both(m *clusterv1.Machine, kind string) []string {
	var said []string
	if c := conditions.Get(m, kind); c != nil {
		said = append(said, string(c.Status)+" "+c.Reason)
	}
	if c := deprecated.Get(m, clusterv1.ConditionType(kind)); c != nil {
		said = append(said, string(c.Status)+" "+c.Reason)
	}
	return said
}

func TestTellMachine_Conditions_AreSetOnce(t *testing.T) {
	g := NewWithT(t)
	m := &clusterv1.Machine{}
	for _, c := range []*explain.MachineConditions{healthy, handed, healthy, asked, handed, healthy} {
		g.Expect(HasConditions(m, c)).To(BeFalse())
		SetConditions(m, c, noon)
		g.Expect(HasConditions(m, c)).To(BeTrue(), "it is not written twice")
	}
	g.Expect(both(m, explain.HealthCheckSucceeded)).To(Equal([]string{"True HealthCheckSucceeded", "True "}))
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False WaitingForRemediation", "False WaitingForRemediation"}),
		"its owner removes it")
	g.Expect(both(m, explain.ExternallyRemediated)).To(BeEmpty(), "no other component removes it")
}

func TestTellMachine_OwnerCondition_Stays(t *testing.T) {
	g := NewWithT(t)
	m := &clusterv1.Machine{}
	SetConditions(m, handed, noon)
	conditions.Set(m, metav1.Condition{
		Type: explain.OwnerRemediated, Status: metav1.ConditionFalse, Reason: "MachineDeleting",
		LastTransitionTime: metav1.NewTime(noon),
	})
	g.Expect(HasConditions(m, handed)).To(BeTrue())
	SetConditions(m, handed, noon.Add(time.Hour))
	g.Expect(conditions.Get(m, explain.OwnerRemediated).Reason).To(Equal("MachineDeleting"))
	CancelOwnerRemediation(m)
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False MachineDeleting"}),
		"the v1beta1 condition that the owner has not set is removed")
	RemoveConditions(m)
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False MachineDeleting"}), "the check has not requested it")
	m.Annotations, _ = notes.OfOwnerRequest(noon).Apply(nil)
	m.DeletionTimestamp = &metav1.Time{Time: noon}
	RemoveConditions(m)
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False MachineDeleting"}), "its owner deletes the Machine")
	m.DeletionTimestamp = nil
	RemoveConditions(m)
	g.Expect(both(m, explain.OwnerRemediated)).To(BeEmpty(), "no other component removes it")
	g.Expect(both(m, explain.HealthCheckSucceeded)).To(BeEmpty())
}

// A remediator requests owner remediation in v1beta1 only. No owner removes that when the Machine is healthy.
func TestTellMachine_HandedOver_IsReadAndRemoved(t *testing.T) {
	g, m := NewWithT(t), &clusterv1.Machine{}
	deprecated.SetWithCustomLastTransitionTime(m, &clusterv1.Condition{
		Type: explain.OwnerRemediated, Status: "False", Severity: "Warning", Reason: explain.WaitingForRemediation,
		LastTransitionTime: metav1.NewTime(noon),
	})
	g.Expect(OwnerRemediation(m, "c").HandedOverAt).To(BeTemporally("==", noon))
	SetConditions(m, asked, noon)
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False WaitingForRemediation"}), "the Machine is unhealthy")
	g.Expect(HasConditions(m, healthy)).To(BeFalse())
	SetConditions(m, healthy, noon)
	g.Expect(both(m, explain.OwnerRemediated)).To(BeEmpty())
	SetConditions(m, handed, noon)
	g.Expect(OwnerRemediation(m, "c").HandedOverAt).To(BeZero(), "owners read this one")
}

// A condition that is True belongs to an earlier remediation.
func TestTellMachine_EarlierRemediation_IsReplaced(t *testing.T) {
	g := NewWithT(t)
	m := &clusterv1.Machine{}
	conditions.Set(m, metav1.Condition{
		Type: explain.OwnerRemediated, Status: metav1.ConditionTrue, Reason: "Done",
		LastTransitionTime: metav1.NewTime(noon),
	})
	g.Expect(HasConditions(m, handed)).To(BeFalse())
	SetConditions(m, handed, noon)
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False WaitingForRemediation", "False WaitingForRemediation"}))
}
