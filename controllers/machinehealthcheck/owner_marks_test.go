// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

const (
	marked  = "False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason
	isWell  = "True " + clusterv1.MachineHealthCheckSucceededReason
	isSick  = "False " + clusterv1.MachineHealthCheckUnhealthyNodeReason
	refuses = clusterv1.MachineSetMachineCannotBeRemediatedReason
)

// sick makes a Machine whose Node has not been ready for ten minutes.
func (s *stage) sick(name string, changes ...func(*clusterv1.Machine)) *clusterv1.Machine {
	s.t.Helper()
	m := s.machine(name, changes...)
	s.ready(name, corev1.ConditionUnknown, 10*time.Minute)
	return m
}

// ownerSays lets the owner of a Machine answer, in both generations.
func (s *stage) ownerSays(m *clusterv1.Machine, reason string) {
	s.t.Helper()
	s.changeStatus(m, func() {
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "The owner's own words"})
		deprecated.MarkFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition, reason, clusterv1.ConditionSeverityWarning, "The owner's own words")
	})
}

func TestMarksAreWhatClusterAPIWrites(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick, well := s.sick("m-1"), s.machine("m-2")
	s.check("workers")
	s.start()
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, well)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))

	healthy, owner := conditions.Get(sick, clusterv1.MachineHealthCheckSucceededCondition), conditions.Get(sick, clusterv1.MachineOwnerRemediatedCondition)
	s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(sick)).To(Equal(isSick))
	s.Expect(healthy.Message).To(Equal("Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Test for more than 5m0s"))
	s.Expect(owner.Message).To(Equal("Waiting for remediation"))

	older := deprecated.Get(sick, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)
	s.Expect(string(older.Status) + " " + older.Reason).To(Equal("False " + clusterv1.UnhealthyNodeConditionV1Beta1Reason))
	s.Expect(older.Severity).To(Equal(clusterv1.ConditionSeverityWarning))
	s.Expect(older.Message).To(Equal("Condition Ready on Node is reporting status Unknown with reason Test for more than 5m0s"))
	older = deprecated.Get(sick, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
	s.Expect(string(older.Status) + " " + older.Reason).To(Equal("False " + clusterv1.WaitingForRemediationV1Beta1Reason))
	s.Expect(older.Severity).To(Equal(clusterv1.ConditionSeverityWarning))
	s.Expect(deprecated.IsTrue(well, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)).To(BeTrue())
	s.Expect(deprecated.Get(well, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeNil())
}

func TestTheReasonOfAnOwnerIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.sick("m-1")
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.ownerSays(sick, clusterv1.MachineSetMachineRemediationDeferredReason)
	deferred := "False " + clusterv1.MachineSetMachineRemediationDeferredReason
	c.settle()
	s.ready("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(get(s, sick)).Should(WithTransform(func(m *clusterv1.Machine) string {
		return conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition).Message
	}, ContainSubstring("status False")))
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(sick)).To(Equal(deferred))

	// Nobody takes back what the owner has begun, and the check leaves its words when it goes.
	s.change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.RemediationAllowedCondition), Equal("False PauseRequested")))
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, sick)())).To(Equal(deferred))
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.checks() }).Should(BeEmpty())
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, sick)())).To(Equal(deferred))
	s.Expect(deprecated.GetReason(sick, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(Equal(clusterv1.MachineSetMachineRemediationDeferredReason))
	s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(sick)).To(BeEmpty())
}

func TestAnOwnerThatRefusesIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-2")
	sick := s.sick("m-1")
	check := s.check("workers", atOnce(1))
	s.start()
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.ownerSays(sick, refuses)
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held OwnerRefuses")))
	// It frees its place.
	s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
	other := s.machine("m-3")
	s.Eventually(func() string {
		s.Expect(s.admin.Get(s.ctx, keyOf(s.namespace, "m-2"), other)).To(Succeed())
		return says(clusterv1.MachineOwnerRemediatedCondition)(other)
	}).Should(Equal(marked))
}

func TestAnOwnerThatDoesNothingForLongIsTold(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	sick := s.sick("m-1")
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.wait(29 * time.Minute)
	c.settle()
	s.Expect(holds("m-1")(get(s, check)())).To(Equal("Remediating "))
	s.wait(time.Minute)
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held OwnerNotActing")))
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False OwnerNotActing"))
	s.Expect(message(remedyv1.ReadyCondition)(check)).To(ContainSubstring("m-1"))
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, sick)())).To(Equal(marked), "it may still act")
}

func TestAMachineWithoutAnOwnerThatReplacesItIsHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	alone := s.sick("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	pooled := s.sick("m-2", func(m *clusterv1.Machine) { m.OwnerReferences[0].Kind = "MachinePool" })
	check := s.check("workers")
	s.start()
	for _, m := range []*clusterv1.Machine{alone, pooled} {
		s.Eventually(get(s, check)).Should(WithTransform(holds(m.Name), Equal("Held NoRemediatingOwner")))
		s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
		s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(m)).To(BeEmpty())
	}
	// It is given one.
	s.change(alone, func() {
		alone.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)}}
	})
	s.Eventually(get(s, alone)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}

// atOnce limits how many Machines are remediated at a time.
func atOnce(n int) func(*remedyv1.MachineHealthCheckSpec) {
	return func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxInFlight = ptr.To(intstr.FromInt(n)) }
}

func TestNoMoreThanMaxInFlightUntilTheReplacementHasANode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	set := s.machineSet("workers", 2)
	one, two := s.sick("m-1"), s.sick("m-2")
	check := s.check("workers", atOnce(1))
	c := s.start()
	s.Eventually(get(s, one)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-2"), Equal("Held MaxInFlight")))
	s.Expect(check.Annotations).To(HaveKeyWithValue(remedyv1.ReplacingAnnotation, "m-1 MachineSet/"+set.Name))

	// Its owner deletes it. The place is not free before the owner has as many Machines with a Node as it wants.
	s.Expect(s.admin.Delete(s.ctx, one)).To(Succeed())
	s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) string { return c.Annotations[remedyv1.ReplacingAnnotation] }, MatchRegexp(`^m-1 MachineSet/workers \S+$`)))
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, two)())).To(BeEmpty())
	s.machine("m-3")
	s.Eventually(get(s, two)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) string { return c.Annotations[remedyv1.ReplacingAnnotation] }, Equal("m-2 MachineSet/workers")))
}
