// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // many fleets have such checks
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// policiesOf returns the policies of an in-tree check.
func policiesOf(inTree *clusterv1.MachineHealthCheck) (health.Policy, remediation.Policy) {
	check := checkOf(inTree)
	return check.Health, check.Policy
}

// fromV1beta1 converts a check of an older Cluster API version, as the API server does.
func fromV1beta1(t *testing.T, spec clusterv1beta1.MachineHealthCheckSpec) *clusterv1.MachineHealthCheck {
	t.Helper()
	from := &clusterv1beta1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "workers"}, Spec: spec}
	to := &clusterv1.MachineHealthCheck{}
	NewWithT(t).Expect(clusterv1beta1.Convert_v1beta1_MachineHealthCheck_To_v1beta2_MachineHealthCheck(from, to, nil)).To(Succeed())
	return to
}

// Many fleets have checks of an older version. They keep their selector, conditions, timeouts, limits and template.
func TestConvert_V1beta1Check_KeepsItsPolicy(t *testing.T) {
	g := NewWithT(t)
	inTree := fromV1beta1(t, clusterv1beta1.MachineHealthCheckSpec{
		ClusterName: "prod",
		Selector: metav1.LabelSelector{
			MatchLabels:      map[string]string{"pool": "a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}},
		},
		UnhealthyConditions: []clusterv1beta1.UnhealthyCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
			{Type: "DiskBroken", Status: corev1.ConditionTrue, Timeout: metav1.Duration{}},
		},
		MaxUnhealthy:       ptr.To(intstr.FromString("40%")), //nolint:staticcheck // as above
		NodeStartupTimeout: &metav1.Duration{Duration: 20 * time.Minute},
		RemediationTemplate: &corev1.ObjectReference{
			APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3RemediationTemplate", Name: "soft", Namespace: "team",
		},
	})
	check := checkOf(inTree)
	g.Expect(check.Cluster.Name).To(Equal("prod"))
	g.Expect(check.Selector.String()).To(Equal("pool=a,zone in (x,y)"))
	h, r := policiesOf(inTree)
	g.Expect(h).To(Equal(health.Policy{
		NodeConditions: []health.ConditionCheck{
			{Type: "Ready", Status: "Unknown", Lasting: 5 * time.Minute}, {Type: "DiskBroken", Status: "True"},
		},
		NodeStartupTimeout: 20 * time.Minute,
	}))
	g.Expect(r.Limits.MaxUnhealthy).To(HaveValue(Equal(intstr.FromString("40%"))))
	g.Expect(r.Steps).To(HaveLen(1))
	g.Expect(r.Steps[0].ID.Template).To(ContainSubstring("Metal3RemediationTemplate"))
	g.Expect([]any{r.Observe, r.MaxInFlight, r.StormCooldown, r.HealthyDelay, r.RecoveryConfirmed}).To(
		Equal([]any{false, (*intstr.IntOrString)(nil), time.Duration(0), time.Duration(0), false}),
		"an in-tree check has no field for these")
}

// Unset fields have the defaults of the in-tree controller.
func TestConvert_UnsetFields_GetTheInTreeDefaults(t *testing.T) {
	g := NewWithT(t)
	inTree := &clusterv1.MachineHealthCheck{}
	inTree.Spec.Checks.UnhealthyMachineConditions = []clusterv1.UnhealthyMachineCondition{{Type: "X", Status: metav1.ConditionFalse}}
	h, r := policiesOf(inTree)
	g.Expect(h.NodeStartupTimeout).To(Equal(10 * time.Minute))
	g.Expect(h.MachineConditions).To(Equal([]health.ConditionCheck{{Type: "X", Status: "False"}}))
	g.Expect(r.Limits).To(Equal(remediation.Limits{Default: intstr.FromString("100%")}))
	g.Expect(specOf(inTree).RemediationTemplate).To(BeNil(), "owner remediation")
	inTree.Spec.Checks.NodeStartupTimeoutSeconds = ptr.To[int32](0)
	h, _ = policiesOf(inTree)
	g.Expect(h.NodeStartupTimeout).To(BeZero(), "zero disables the timeout")
}

// Cluster API accepts limits and ranges that the API of Remedy does not.
func TestConvert_Limits_KeepTheirMeaning(t *testing.T) {
	for text, expected := range map[string]string{
		"40%": "40%", "0%": "0%", "100%": "100%", "250%": "100%", "3": "3", "007": "7", "nonsense": "nonsense", "-1": "-1",
	} {
		g := NewWithT(t)
		limit := limitAs(intstr.FromString(text))
		g.Expect(limit.String()).To(Equal(expected), text)
	}
	g := NewWithT(t)
	g.Expect(limitAs(intstr.FromInt32(2))).To(Equal(intstr.FromInt32(2)))
	for text, expected := range map[string]string{
		"": "", "[1-3]": "[1-3]", "[0-4294967295]": "[0-2147483647]", "[3-1]": "[3-1]", "[1]": "[1]",
	} {
		g.Expect(rangeAs(text)).To(Equal(expected), text)
	}
	both := &clusterv1.MachineHealthCheck{}
	both.Spec.Remediation.TriggerIf = clusterv1.MachineHealthCheckRemediationTriggerIf{
		UnhealthyLessThanOrEqualTo: ptr.To(intstr.FromString("10%")), UnhealthyInRange: "[1-2]",
	}
	_, r := policiesOf(both)
	g.Expect(r.Limits.Range).To(HaveValue(Equal(remediation.Range{Min: 1, Max: 2})))
}

// Conditions of other controllers are not lost, and both generations of conditions agree.
func TestConvert_Status_KeepsForeignConditions(t *testing.T) {
	g := NewWithT(t)
	inTree := &clusterv1.MachineHealthCheck{}
	paused := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason}
	foreign := metav1.Condition{Type: "Foreign", Status: metav1.ConditionTrue, Reason: "Foreign"}
	inTree.Status.Conditions = []metav1.Condition{paused, foreign}
	before := statusOf(inTree)
	reported := remedyv1.MachineHealthCheckStatus{Targets: []string{"m-1"}}
	reported.Unhealthy = ptr.To[int32](1)
	reported.ExpectedMachines, reported.CurrentHealthy, reported.RemediationsAllowed = ptr.To[int32](3), ptr.To[int32](2), ptr.To[int32](1)
	reported.ObservedGeneration = 7
	reported.Conditions = []metav1.Condition{
		{Type: remedyv1.PausedCondition, Status: metav1.ConditionFalse, Reason: remedyv1.NotPausedReason},
		{Type: remedyv1.RemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: "TooManyUnhealthy", Message: "Too many"},
	}
	for _, exclusive := range []bool{false, true} {
		adoption := &Adoption{AdoptionPolicy: AdoptionPolicy{Replace: exclusive}}
		carried := adoption.carried(&before, &reported.CheckStatus)
		carried.Targets, carried.ExpectedMachines, carried.CurrentHealthy = reported.Targets, reported.ExpectedMachines, reported.CurrentHealthy
		after := inTree.DeepCopy()
		setStatus(after, &carried)
		g.Expect(after.Status.Targets).To(Equal([]string{"m-1"}))
		numbers := []int32{*after.Status.ExpectedMachines, *after.Status.CurrentHealthy, *after.Status.RemediationsAllowed}
		g.Expect(numbers).To(Equal([]int32{3, 2, 1}))
		g.Expect(after.Status.ObservedGeneration).To(BeEquivalentTo(7))
		g.Expect(meta.FindStatusCondition(after.Status.Conditions, "Foreign")).To(Equal(&foreign))
		paused := meta.IsStatusConditionTrue(after.Status.Conditions, clusterv1.PausedCondition)
		g.Expect(paused).To(Equal(!exclusive), "the in-tree controller owns Paused if it runs")
		g.Expect(meta.IsStatusConditionFalse(after.Status.Conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)).To(BeTrue())
		g.Expect(deprecated.Get(after, clusterv1.RemediationAllowedV1Beta1Condition)).To(HaveField("Message", "Too many"))
		again := adoption.carried(&carried, &reported.CheckStatus)
		g.Expect(again).To(Equal(carried), "a second conversion changes nothing")
	}
	g.Expect(inTree.Status.Conditions).To(HaveLen(2), "the cached object is not changed")
}

// A release removes every condition that only Remedy sets, also those that are added to Remedy later.
func TestRemoveConditions_AllConditionsSet_LeavesInTreeOnes(t *testing.T) {
	g := NewWithT(t)
	adopted := metav1.Condition{Type: remedyv1.AdoptedCondition, Status: metav1.ConditionTrue, Reason: remedyv1.AdoptedReason}
	inTree := &clusterv1.MachineHealthCheck{}
	pass := &explain.Evaluation{
		Snapshot: &health.Snapshot{}, Assessment: &health.Assessment{}, Situation: &remediation.Situation{},
		Policy: &remediation.Policy{}, Planned: &remediation.Planned{},
	}
	inTree.Status.Conditions = append(explain.Conditions(pass), adopted)
	g.Expect(len(inTree.Status.Conditions)).To(BeNumerically(">=", 6))
	remaining := ConsistOf(HaveField("Type", clusterv1.MachineHealthCheckRemediationAllowedCondition),
		HaveField("Type", clusterv1.PausedCondition), HaveField("Type", remedyv1.AdoptedCondition))
	clusterapi.RemoveConditions(inTree, remedyv1.AdoptedCondition)
	g.Expect(inTree.Status.Conditions).To(remaining)
}
