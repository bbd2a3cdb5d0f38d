// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

func TestMarksAreWhatClusterAPIWrites(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	sick, well := s.CreateUnhealthyMachine("m-1"), s.CreateMachine("m-2")
	s.CreateCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(stage.Get(s, well)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsHealthy)))

	healthy, owner := conditions.Get(
		sick,
		clusterv1.MachineHealthCheckSucceededCondition,
	), conditions.Get(
		sick,
		clusterv1.MachineOwnerRemediatedCondition,
	)
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(sick)).To(Equal(stage.IsUnhealthy))
	s.Expect(healthy.Message).
		To(Equal("Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Test for more than 5m0s"))
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
	s := stage.New(t)
	sick := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.SetOwnerAnswer(sick, clusterv1.MachineSetMachineRemediationDeferredReason)
	deferred := "False " + clusterv1.MachineSetMachineRemediationDeferredReason
	c.WaitIdle()
	s.SetReady("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(stage.Get(s, sick)).Should(WithTransform(func(m *clusterv1.Machine) string {
		return conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition).Message
	}, ContainSubstring("status False")))
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(sick)).To(Equal(deferred))

	// Nobody takes back what the owner has begun, and the check leaves its words when it goes.
	s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.RemediationAllowedCondition), Equal("False PauseRequested")))
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, sick)())).To(Equal(deferred))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, sick)())).To(Equal(deferred))
	s.Expect(deprecated.GetReason(sick, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).
		To(Equal(clusterv1.MachineSetMachineRemediationDeferredReason))
	s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(sick)).To(BeEmpty())
}

func TestAnOwnerThatRefusesIsTold(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-2")
	sick := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	s.Start()
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.SetOwnerAnswer(sick, stage.CannotBeRemediated)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Held OwnerRefuses")))
	// It frees its place.
	s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
	other := s.CreateMachine("m-3")
	s.Eventually(func() string {
		s.Expect(s.Admin.Get(s.Ctx, stage.Key(s.Namespace, "m-2"), other)).To(Succeed())
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(other)
	}).Should(Equal(stage.OwnerRequested))
}

func TestAnOwnerThatDoesNothingForLongIsTold(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	sick := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, sick)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Advance(29 * time.Minute)
	c.WaitIdle()
	s.Expect(stage.Decision("m-1")(stage.Get(s, check)())).To(Equal("Remediating "))
	s.Advance(time.Minute)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Held OwnerNotActing")))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False OwnerNotActing"))
	s.Expect(stage.CheckMessage(remedyv1.ReadyCondition)(check)).To(ContainSubstring("m-1"))
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, sick)())).
		To(Equal(stage.OwnerRequested), "it may still act")
}

func TestAMachineWithoutAnOwnerThatReplacesItIsHeld(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	alone := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
	pooled := s.CreateUnhealthyMachine("m-2", func(m *clusterv1.Machine) { m.OwnerReferences[0].Kind = "MachinePool" })
	check := s.CreateCheck("workers")
	s.Start()
	for _, m := range []*clusterv1.Machine{alone, pooled} {
		s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision(m.Name), Equal("Held NoRemediatingOwner")))
		s.Eventually(stage.Get(s, m)).
			Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsUnhealthy)))
		s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(m)).To(BeEmpty())
	}
	// It is given one.
	s.Change(alone, func() {
		alone.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "workers", UID: "1", Controller: ptr.To(true)},
		}
	})
	s.Eventually(stage.Get(s, alone)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
}

// replacing returns the annotation of a check with the Machines that are being replaced.
func replacing(c *remedyv1.MachineHealthCheck) string {
	return c.Annotations[remedyv1.ReplacingAnnotation]
}

func TestNoMoreThanMaxInFlightUntilTheReplacementHasANode(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := s.CreateMachineSet("workers", 2)
	one, two := s.CreateUnhealthyMachine("m-1"), s.CreateUnhealthyMachine("m-2")
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	c := s.Start()
	s.Eventually(stage.Get(s, one)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-2"), Equal("Held MaxInFlight")))
	s.Expect(check.Annotations).To(HaveKeyWithValue(remedyv1.ReplacingAnnotation, "m-1 MachineSet/"+set.Name))

	// Its owner deletes it. The place is not free before the owner has as many Machines with a Node as it wants.
	s.Expect(s.Admin.Delete(s.Ctx, one)).To(Succeed())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(replacing, MatchRegexp(`^m-1 MachineSet/workers \S+$`)))
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, two)())).To(BeEmpty())
	s.CreateMachine("m-3")
	s.Eventually(stage.Get(s, two)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(replacing, Equal("m-2 MachineSet/workers")))
}

func TestASickMachineIsHandedToItsOwner(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	sick, well := s.CreateMachine("m-1"), s.CreateMachine("m-2")
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	check := s.CreateCheck("workers")
	s.Start()
	s.Eventually(stage.Get(s, sick)).Should(WithTransform(stage.MachineCondition("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Expect(stage.MachineCondition("HealthCheckSucceeded")(sick)).To(Equal("False UnhealthyNode"))
	s.Expect(sick.Annotations).To(HaveKeyWithValue(remedyv1.MarkedByAnnotation, "MachineHealthCheck/workers"))
	s.Eventually(stage.Get(s, well)).Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(func(c *remedyv1.MachineHealthCheck) []*int32 {
		return []*int32{c.Status.ExpectedMachines, c.Status.CurrentHealthy, c.Status.Remediating}
	}, HaveExactElements(HaveValue(BeEquivalentTo(2)), HaveValue(BeEquivalentTo(1)), HaveValue(BeEquivalentTo(1)))))
	s.Expect(check.Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer))
	s.Expect(check.OwnerReferences).To(HaveLen(1))

	// It is healthy again: the mark is the owner's to remove, and ours is true.
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(stage.Get(s, sick)).Should(WithTransform(stage.MachineCondition("HealthCheckSucceeded"), Equal("True HealthCheckSucceeded")))

	// The check goes, and leaves no mark behind.
	s.SetReady("m-2", corev1.ConditionFalse, 10*time.Minute)
	s.Eventually(stage.Get(s, well)).Should(WithTransform(stage.MachineCondition("OwnerRemediated"), Equal("False WaitingForRemediation")))
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(stage.Get(s, well)).Should(WithTransform(stage.MachineCondition("OwnerRemediated"), BeEmpty()))
	s.Eventually(stage.Get(s, well)).
		Should(WithTransform(func(m *clusterv1.Machine) map[string]string { return m.Annotations }, Not(HaveKey(remedyv1.MarkedByAnnotation))))
	s.Expect(stage.MachineCondition("HealthCheckSucceeded")(well)).To(BeEmpty())
}
