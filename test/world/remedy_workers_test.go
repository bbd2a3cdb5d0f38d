// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func TestWorkers_Unhealthy_AreReplacedWithoutTraces(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	c, pool := clusterWithPool(t, "replaced")
	check := aCheck(t, c, pool, nil)
	looksAfter(t, check, 2)
	g.Eventually(func() []metav1.OwnerReference { return now(t, check).OwnerReferences }, soon).Should(ConsistOf(HaveField("Name", c.Name)), "it moves with its Cluster")
	machines, seen := poolOf(t, c, pool), follow(t, c, pool)
	sick := machines[0]
	falls(t, c, sick)
	isWhole(t, c, pool, 2, sick)
	isClean(t, check, 2)
	g.Expect(outcomes(now(t, check))).To(ContainElement(sick.Name + " Replaced"))

	g.Expect(seen.marked(t)).To(Equal([]string{sick.Name}))
	var told *clusterv1.Machine
	for _, state := range seen.all(t) {
		if m := state[sick.Name]; m != nil && told == nil && isMarked(m) {
			told = m
		}
	}
	bothGenerationsSay(g, told)
	g.Expect(told.Annotations).To(HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/"+check.Name), "who marks has signed before")
}

// bothGenerationsSay: clusterctl, dashboards and owners read one of them.
func bothGenerationsSay(g Gomega, m *clusterv1.Machine) {
	g.Expect(conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition)).To(HaveValue(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", clusterv1.MachineHealthCheckUnhealthyNodeReason), HaveField("Message", ContainSubstring("Ready")))))
	g.Expect(conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition)).To(HaveValue(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", clusterv1.MachineOwnerRemediatedWaitingForRemediationReason))))
	g.Expect(deprecated.Get(m, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)).To(HaveValue(And(
		HaveField("Status", corev1.ConditionFalse), HaveField("Reason", clusterv1.UnhealthyNodeConditionV1Beta1Reason))))
	g.Expect(deprecated.Get(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(HaveValue(And(
		HaveField("Status", corev1.ConditionFalse), HaveField("Reason", clusterv1.WaitingForRemediationV1Beta1Reason))))
}

func TestWorkers_MaxInFlight_IsKept(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	c, pool := clusterWithPool(t, "queue")
	check := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) { s.MaxInFlight = ptr.To(intstr.FromInt32(1)) })
	looksAfter(t, check, 3)
	sick, seen := poolOf(t, c, pool), follow(t, c, pool)
	falls(t, c, sick...)
	isWhole(t, c, pool, 3, sick...)
	isClean(t, check, 3)
	for _, state := range seen.all(t) {
		g.Expect(inFlight(state, 3)).To(BeNumerically("<=", 1))
	}
	g.Expect(seen.marked(t)).To(ConsistOf(sick[0].Name, sick[1].Name, sick[2].Name), "and no replacement")
	g.Expect(outcomes(now(t, check))).To(ContainElements(sick[0].Name+" Replaced", sick[1].Name+" Replaced", sick[2].Name+" Replaced"))
}

// The owner remediates one after the other, and the check requests two: what the owner reports of the waiting one stays, whatever Remedy
// writes meanwhile.
func TestWorkers_LimitOfOwner_IsKept(t *testing.T) {
	t.Parallel()
	keepsItsMemory(t)
	g := NewWithT(t)
	c, pool := clusterWithPool(t, "paced")
	deployment := &clusterv1.MachineDeployment{}
	g.Expect(theWorld(t).Client.Get(t.Context(), client.ObjectKey{Namespace: c.Namespace, Name: c.Name + "-" + pool}, deployment)).To(Succeed())
	before := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Remediation.MaxInFlight = ptr.To(intstr.FromInt32(1))
	g.Expect(theWorld(t).Client.Patch(t.Context(), deployment, before)).To(Succeed())
	check := aCheck(t, c, pool, func(s *remedyv1.MachineHealthCheckSpec) { s.MaxInFlight = ptr.To(intstr.FromInt32(2)) })
	looksAfter(t, check, 3)
	sick, seen := poolOf(t, c, pool), follow(t, c, pool)
	// Until it is handed two, the owner does nothing: by itself it might be done with one before the next has been silent for long enough.
	pauseSets(t, c, true, pool)
	falls(t, c, sick...)
	g.Eventually(func() []string { return seen.marked(t) }, soon).Should(HaveLen(2))
	pauseSets(t, c, false, pool)
	isWhole(t, c, pool, 3, sick...)
	isClean(t, check, 3)

	deferred := map[string]bool{}
	for _, state := range seen.all(t) {
		g.Expect(inFlight(state, 3)).To(BeNumerically("<=", 2))
		for name, m := range state {
			switch said := conditions.GetReason(m, clusterv1.MachineOwnerRemediatedCondition); {
			case said == clusterv1.MachineSetMachineRemediationDeferredReason:
				deferred[name] = true
			case deferred[name]:
				g.Expect(said).To(Equal(clusterv1.MachineSetMachineRemediationMachineDeletingReason), "the report of the owner of %s was overwritten", name)
			}
		}
		g.Expect(going(state, sick)).To(BeNumerically("<=", 1), "the owner takes one at a time")
	}
	g.Expect(deferred).ToNot(BeEmpty(), "or no Machine had to wait")
	g.Expect(seen.marked(t)).To(ConsistOf(sick[0].Name, sick[1].Name, sick[2].Name), "and no replacement")
}
