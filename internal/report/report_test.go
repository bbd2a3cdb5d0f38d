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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

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
	g.Expect(both(m, explain.OwnerRemediated)).To(Equal([]string{"False MachineDeleting"}))
	g.Expect(both(m, explain.HealthCheckSucceeded)).To(BeEmpty())
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

func TestConditions_StatusUnchanged_KeepTime(t *testing.T) {
	g := NewWithT(t)
	before := Conditions(nil, []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "X"},
		{Type: "B", Status: metav1.ConditionTrue},
	}, 1, noon)
	after := Conditions(before, []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Y"},
		{Type: "B", Status: metav1.ConditionFalse},
	}, 2, noon.Add(time.Hour))
	g.Expect([]any{after[0].LastTransitionTime.Time, after[0].Reason, after[0].ObservedGeneration}).To(Equal([]any{noon, "Y", int64(2)}))
	g.Expect(after[1].LastTransitionTime.Time).To(Equal(noon.Add(time.Hour)))
}

func TestStatus_RecentRemediations_KeepsTen(t *testing.T) {
	g := NewWithT(t)
	named := func(names ...string) []remedyv1.RecentRemediation {
		all := make([]remedyv1.RecentRemediation, 0, len(names))
		for _, name := range names {
			all = append(all, remedyv1.RecentRemediation{Target: name})
		}
		return all
	}
	g.Expect(recent(nil, nil)).To(BeNil(), "an unchanged status has the same bytes")
	g.Expect(recent(named("b", "c"), named("a"))).To(Equal(named("c", "b", "a")), "the latest comes first")
	g.Expect(recent(named("l"), named("k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a"))).To(Equal(named("l", "k", "j", "i", "h", "g",
		"f", "e", "d", "c")))
	g.Expect(recent(named("c", "a"), named("b", "a"))).To(Equal(named("c", "b", "a")), "a remediation in the status is not added again")
	g.Expect(recent(named("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"), nil)).To(HaveLen(10))
}

// A failed preflight check, or a cache without the last write of the manager, does not end a remediation.
func TestLearn_RemediationEnds_IsReportedOnce(t *testing.T) {
	g := NewWithT(t)
	memory := &Memory{}
	learn := func(verdict health.Verdict, target remediation.Target, d remediation.Decision) []EndedRemediation {
		target.Name = "m"
		_, ended := memory.Compare(&explain.Evaluation{
			Check: "c", Snapshot: &health.Snapshot{Targets: []health.Target{{Name: "m"}}},
			Assessment: &health.Assessment{Verdicts: []health.Verdict{verdict}},
			Situation:  &remediation.Situation{Targets: []remediation.Target{target}}, Policy: &remediation.Policy{},
			Planned: &remediation.Planned{Decisions: []remediation.Decision{d}},
		}, noon)
		return ended
	}
	unhealthy := health.Verdict{Kind: health.Unhealthy, Reason: health.NodeDeleted}
	given := remediation.Target{OwnerRemediation: remediation.OwnerRemediation{Requested: true, Since: noon.Add(-time.Minute)}}
	g.Expect(learn(unhealthy, remediation.Target{}, remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true})).
		To(BeEmpty())
	failed := remediation.Decision{Hold: remediation.Hold{Reason: remediation.NotConfirmed}}
	g.Expect(learn(unhealthy, remediation.Target{}, failed)).To(BeEmpty())
	g.Expect(learn(unhealthy, given, remediation.Decision{Action: remediation.Wait, InFlight: true})).To(BeEmpty())
	ended := learn(health.Verdict{Kind: health.Healthy}, remediation.Target{}, remediation.Decision{})
	g.Expect(ended).To(HaveLen(1))
	g.Expect([]any{ended[0].Outcome, ended[0].ByOwner, ended[0].Started.Time}).To(Equal([]any{
		remedyv1.RecoveredOutcome, true,
		noon.Add(-time.Minute),
	}))
	g.Expect(learn(health.Verdict{Kind: health.Healthy}, remediation.Target{}, remediation.Decision{})).To(BeEmpty())
	for range 2 {
		g.Expect(memory.Unwritten()).To(Equal([]remedyv1.RecentRemediation{ended[0].RecentRemediation}), "it is kept until it is written")
	}
	memory.Written()
	g.Expect(memory.Unwritten()).To(BeEmpty())
}
