// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestTwoChecksOfOneMachineDoNotContradictEachOther: of two in-tree checks the one that looked last is right.
func TestTwoChecksOfOneMachineDoNotContradictEachOther(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	m, n := theirs.machine("m-1"), ours.machine("m-1")
	theirs.falls(m)
	one, two := theirs.theirs("a"), theirs.theirs("b", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Checks.UnhealthyNodeConditions[0].Type = corev1.NodeDiskPressure
	})
	for range 2 {
		one.looks()
		theirs.Expect(theirs.health(m)()).To(Equal(isSick))
		two.looks()
		theirs.Expect(theirs.health(m)()).To(Equal(isWell))
	}
	theirs.Expect(one.allows()+two.allows()).
		ToNot(ContainSubstring("False"), "and neither of them says a word of the other")

	ours.falls(n)
	ours.ours("a")
	other := ours.ours("b", func(spec *remedyv1.MachineHealthCheckSpec) { spec.UnhealthyConditions[0].Type = "DiskPressure" })
	ours.goes()
	ours.Eventually(ours.health(n)).Should(Equal(isSick))
	ours.Eventually(ours.tells(other, remedyv1.SelectorsDisjointCondition)).Should(Equal("False " + remedyv1.SelectorsOverlapReason))
	// It looks once more, and holds its tongue.
	before := client.MergeFrom(other.DeepCopy())
	other.Spec.UnhealthyConditions[0].Timeout = lasting(time.Minute)
	ours.Expect(ours.api.Patch(ours.ctx, other, before)).To(Succeed())
	ours.Eventually(ours.status(other)).Should(HaveField("ObservedGeneration", BeEquivalentTo(2)))
	ours.Expect(ours.health(n)()).To(Equal(isSick))
}

// TestMaxUnhealthy_RoundsDownToZero_IsReported: such a check never does anything. The in-tree reconciler says that it may, until something
// is to be done.
func TestMaxUnhealthy_RoundsDownToZero_IsReported(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	none := intstr.FromString("49%")
	for _, a := range []*environment{theirs, ours} {
		a.machine("m-1")
		a.machine("m-2")
	}
	check := theirs.theirs("workers", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &none
	})
	check.looks()
	theirs.Expect(check.allows()).To(HavePrefix("True"))
	theirs.falls(&clusterv1.Machine{ObjectMeta: theirs.meta("m-1")})
	check.looks()
	theirs.Expect(check.allows()).To(Equal("False " + clusterv1.MachineHealthCheckTooManyUnhealthyReason))

	workers := ours.ours("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = &none })
	ours.goes()
	ours.Eventually(ours.tells(workers, remedyv1.RemediationAllowedCondition)).Should(Equal("False " + remedyv1.LimitIsZeroReason))
}

// TestRequeue_BlockedCheck_WakesAtTheNextDeadline: with its gate closed the in-tree reconciler plans no further look, so that the next
// Machine is unhealthy without being called so until something happens by chance.
func TestRequeue_BlockedCheck_WakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	next := map[*environment]*clusterv1.Machine{}
	one := intstr.FromInt32(1)
	for _, a := range []*environment{theirs, ours} {
		a.falls(a.machine("m-1"))
		next[a] = a.machine("m-2")
	}
	theirs.turn(next[theirs], corev1.ConditionUnknown, 0)
	open := theirs.theirs("open").looks()
	theirs.Expect(open.RequeueAfter).To(BeNumerically(">", 0), "with its gate open it does")
	closed := theirs.theirs("closed", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &one
	})
	theirs.Expect(closed.looks().RequeueAfter).To(BeZero())
	theirs.Expect(closed.allows()).To(HavePrefix("False"))

	workers := ours.ours("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = &one })
	// Its clock stands still, and is ahead of what tells of the connection: one that breaks meanwhile, and comes back, is looked through again
	// by its own.
	now := testingclock.NewFakeClock(time.Now().Add(2 * time.Minute))
	ours.turn(next[ours], corev1.ConditionUnknown, 3*time.Minute-3*time.Second)
	ours.start(server.Admin, now)
	ours.Eventually(ours.status(workers)).Should(HaveField("Suspect", HaveValue(BeEquivalentTo(1))))
	ours.Expect(ours.tells(workers, remedyv1.RemediationAllowedCondition)()).To(HavePrefix("False"))
	now.Step(time.Minute)
	ours.Eventually(ours.health(next[ours])).Should(Equal(isSick))
}

// TestNodeStartup_NodeJoinedWithoutNodeRef_DoesNotTimeOut: Cluster API has not written yet which Node it is.
func TestNodeStartup_NodeJoinedWithoutNodeRef_DoesNotTimeOut(t *testing.T) {
	t.Parallel()
	theirs, ours := newEnvironments(t)
	machines := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{theirs, ours} {
		machines[a] = a.nodeless("m-1")
		a.join(machines[a])
		a.turn(machines[a], corev1.ConditionTrue, time.Hour)
	}
	check := theirs.theirs("workers", func(spec *clusterv1.MachineHealthCheckSpec) { spec.Checks.NodeStartupTimeoutSeconds = ptr.To[int32](1) })
	theirs.Eventually(func() string {
		check.looks()
		return theirs.health(machines[theirs])()
	}).Should(Equal("False "+clusterv1.MachineHealthCheckNodeStartupTimeoutReason), "a Node that is there and ready has failed to start")

	workers := ours.ours("workers")
	now := testingclock.NewFakeClock(time.Now().Add(time.Hour))
	ours.start(server.Admin, now)
	ours.Eventually(ours.status(workers)).Should(And(HaveField("ObservedGeneration", BeEquivalentTo(1)), HaveField("Undetermined", HaveValue(BeEquivalentTo(1)))))
	ours.Eventually(ours.tells(workers, remedyv1.ClusterReachableCondition)).Should(HavePrefix("True"))
	ours.Expect(ours.health(machines[ours])()).To(BeEmpty())
	ours.Expect(ours.api.Delete(ours.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ours.node(machines[ours])}})).To(Succeed())
	ours.Eventually(ours.health(machines[ours])).Should(Equal("False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason))
}
