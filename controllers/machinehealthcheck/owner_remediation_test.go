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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Both generations of conditions have the statuses, reasons and messages of the in-tree controller.
func TestMachineConditions_UnhealthyMachine_EqualTheInTreeOnes(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy, healthy := s.CreateUnhealthyMachine("m-1"), s.CreateMachine("m-2")
	check := s.CreateCheck("workers")
	s.Start()
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.WaitMachineCondition(healthy, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)

	s.Eventually(stage.Get(s, check)).Should(And(HaveField("OwnerReferences", HaveLen(1)),
		HaveField("Status.CurrentHealthy", HaveValue(BeEquivalentTo(1))), HaveField("Status.Remediating", HaveValue(BeEquivalentTo(1)))))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	succeeded := conditions.Get(unhealthy, clusterv1.MachineHealthCheckSucceededCondition)
	ownerRemediated := conditions.Get(unhealthy, clusterv1.MachineOwnerRemediatedCondition)
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(unhealthy)).To(Equal(stage.IsUnhealthy))
	s.Expect(succeeded.Message).
		To(Equal("Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Test for more than 5m0s"))
	s.Expect(ownerRemediated.Message).To(Equal("Waiting for remediation"))

	v1beta1 := deprecated.Get(unhealthy, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)
	s.Expect(string(v1beta1.Status) + " " + v1beta1.Reason).To(Equal("False " + clusterv1.UnhealthyNodeConditionV1Beta1Reason))
	s.Expect(v1beta1.Severity).To(Equal(clusterv1.ConditionSeverityWarning))
	s.Expect(v1beta1.Message).To(Equal("Condition Ready on Node is reporting status Unknown with reason Test for more than 5m0s"))
	v1beta1 = deprecated.Get(unhealthy, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
	s.Expect(string(v1beta1.Status) + " " + v1beta1.Reason).To(Equal("False " + clusterv1.WaitingForRemediationV1Beta1Reason))
	s.Expect(v1beta1.Severity).To(Equal(clusterv1.ConditionSeverityWarning))
	s.Expect(deprecated.IsTrue(healthy, clusterv1.MachineHealthCheckSucceededV1Beta1Condition)).To(BeTrue())
	s.Expect(deprecated.Get(healthy, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeNil())
}

// startRequested starts a check that has requested owner remediation of its Machine.
func startRequested(s *stage.Stage) (unhealthy *clusterv1.Machine, check *remedyv1.MachineHealthCheck, c *stage.Instance) {
	s.T.Helper()
	unhealthy, check = s.CreateUnhealthyMachine("m-1"), s.CreateCheck("workers")
	c = s.Start()
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	return unhealthy, check, c
}

// Remedy keeps the reason that the owner has set when the message of the Node changes, when remediation is paused and when the check is
// deleted.
func TestOwnerRemediation_OwnerAnswered_ReasonIsKept(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy, check, c := startRequested(s)
	s.SetOwnerAnswer(unhealthy, clusterv1.MachineSetMachineRemediationMachineDeletingReason)
	begun := "False " + clusterv1.MachineSetMachineRemediationMachineDeletingReason
	c.WaitIdle()
	s.SetReady("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(stage.Get(s, unhealthy)).Should(WithTransform(func(m *clusterv1.Machine) string {
		return conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition).Message
	}, ContainSubstring("status False")))
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(unhealthy)).To(Equal(begun))

	// The check does not cancel what the owner has started. When the check is deleted, the condition is removed: owners remove it only if
	// the Machine is healthy.
	s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.WaitCheckCondition(check, remedyv1.RemediationAllowedCondition, "False PauseRequested")
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, unhealthy)())).To(Equal(begun))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, unhealthy)())).To(BeEmpty())
	s.Expect(deprecated.Get(unhealthy, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeNil())
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(unhealthy)).To(BeEmpty())
}

// A MachineSet defers the Machines that are over its own maxInFlight, and would delete them later. A pause cancels what it has not begun.
func TestOwnerRemediation_OwnerDefers_PauseCancels(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy, check, c := startRequested(s)
	s.SetOwnerAnswer(unhealthy, clusterv1.MachineSetMachineRemediationDeferredReason)
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, unhealthy)())).
		To(Equal("False " + clusterv1.MachineSetMachineRemediationDeferredReason))
	s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, "")
	s.Expect(deprecated.Get(unhealthy, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeNil())
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(unhealthy)).To(HavePrefix("False"))
}

// A Machine whose owner cannot remediate it does not count against maxInFlight.
func TestOwnerRemediation_OwnerRefuses_FreesItsPlace(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-2")
	unhealthy := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	s.Start()
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.SetOwnerAnswer(unhealthy, stage.CannotBeRemediated)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked OwnerRefuses")))
	s.Expect(check.Status.UnhealthyTargets[0].Message).To(HaveSuffix("cannot remediate the Machine: Message of the owner"))
	// The next Machine gets its place.
	s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
	other := s.CreateMachine("m-3")
	s.Eventually(func() string {
		s.Expect(s.Admin.Get(s.Ctx, stage.Key(s.Namespace, "m-2"), other)).To(Succeed())
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(other)
	}).Should(Equal(stage.OwnerRequested))
}

// After 30 minutes without an answer of the owner, the check reports OwnerNotActing and keeps its request.
func TestOwnerRemediation_OwnerNotActing_IsReported(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	unhealthy, check, c := startRequested(s)
	s.Advance(29 * time.Minute)
	c.WaitIdle()
	s.Expect(stage.Decision("m-1")(stage.Get(s, check)())).To(Equal("Remediating "))
	s.Advance(time.Minute)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked OwnerNotActing")))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False OwnerNotActing"))
	s.Expect(stage.CheckMessage(remedyv1.ReadyCondition)(check)).To(ContainSubstring("m-1"))
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, unhealthy)())).
		To(Equal(stage.OwnerRequested), "the owner can still act")
}

// A Machine without owner, or of a MachinePool, gets the same conditions as in-tree, because another controller may act on them. It is
// reported as blocked, takes no place of maxInFlight, and is not in flight.
func TestOwnerRemediation_NoRemediatingOwner_IsBlocked(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unowned := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	pooled := s.CreateUnhealthyMachine("m-2", func(m *clusterv1.Machine) { m.OwnerReferences[0].Kind = "MachinePool" })
	owned := s.CreateUnhealthyMachine("m-3")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	c := s.Start()
	for _, m := range []*clusterv1.Machine{unowned, pooled, owned} {
		s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
		s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m)).To(Equal(stage.IsUnhealthy))
		s.Expect(conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition).Message).To(Equal("Waiting for remediation"))
		s.Expect(deprecated.GetReason(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).
			To(Equal(clusterv1.WaitingForRemediationV1Beta1Reason))
	}
	c.WaitIdle()
	for _, m := range []string{"m-1", "m-2"} {
		s.Expect(stage.Decision(m)(stage.Get(s, check)())).To(Equal("Blocked NoRemediatingOwner"))
	}
	s.Expect(check.Status.Remediating).To(HaveValue(BeEquivalentTo(1)))
	s.Expect(replacedMachines(check)).To(Equal("m-3 MachineSet/workers"))

	// One is healthy again and keeps OwnerRemediated, as in-tree, because no owner removes it.
	s.SetReady("m-2", corev1.ConditionTrue, 0)
	s.WaitMachineCondition(pooled, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, pooled)())).To(Equal(stage.OwnerRequested))

	// The check is deleted, and removes all of them.
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
	for _, m := range []*clusterv1.Machine{unowned, pooled, owned} {
		s.Expect(stage.Get(s, m)().Status.Conditions).To(BeEmpty())
		s.Expect(m.Annotations).To(BeEmpty())
	}
}

// Without an owner, too, pauseRequests and a limit that is exceeded block the request, and pauseRequests cancel it.
func TestOwnerRemediation_NoRemediatingOwner_IsCanceled(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unowned := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"maintenance"} })
	c := s.Start()
	ownerRemediated := stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked NoRemediatingOwner")))
	c.WaitIdle()
	s.Expect(ownerRemediated(stage.Get(s, unowned)())).To(BeEmpty())
	s.Change(check, func() { check.Spec.PauseRequests = nil })
	s.Eventually(stage.Get(s, unowned)).Should(WithTransform(ownerRemediated, Equal(stage.OwnerRequested)))
	s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.Eventually(stage.Get(s, unowned)).Should(WithTransform(ownerRemediated, BeEmpty()))
	s.Change(check, func() { check.Spec.PauseRequests, check.Spec.MaxUnhealthy = nil, ptr.To(intstr.FromInt32(0)) })
	s.WaitCheckCondition(check, remedyv1.RemediationAllowedCondition, "False LimitIsZero")
	c.WaitIdle()
	s.Expect(ownerRemediated(stage.Get(s, unowned)())).To(BeEmpty())
}

// The Machine gets an owner, which continues with the request.
func TestOwnerRemediation_MachineGetsOwner_IsRemediated(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unowned := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	check := s.CreateCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Blocked NoRemediatingOwner")))
	s.Change(unowned, func() {
		unowned.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)},
		}
	})
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	s.WaitMachineCondition(unowned, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// replacedMachines returns the annotation of a check with the Machines that are being replaced.
func replacedMachines(c *remedyv1.MachineHealthCheck) string {
	return c.Annotations[remedyv1.ReplacingAnnotation]
}

// A deleted Machine counts against maxInFlight until its replacement has a Node.
func TestMaxInFlight_ReplacementWithoutNode_KeepsThePlace(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := s.CreateMachineSet("workers", 2)
	first, second := s.CreateUnhealthyMachine("m-1"), s.CreateUnhealthyMachine("m-2")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	c := s.Start()
	s.WaitMachineCondition(first, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-2"), Equal("Blocked MaxInFlight")))
	s.Expect(check.Annotations).To(HaveKeyWithValue(remedyv1.ReplacingAnnotation, "m-1 MachineSet/"+set.Name))

	// The owner deletes the Machine. The place is free when the owner has as many Machines with a Node as it wants.
	s.Expect(s.Admin.Delete(s.Ctx, first)).To(Succeed())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(replacedMachines, MatchRegexp(`^m-1 MachineSet/workers \S+$`)))
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, second)())).To(BeEmpty())
	s.CreateMachine("m-3")
	s.WaitMachineCondition(second, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(replacedMachines, Equal("m-2 MachineSet/workers")))
}
