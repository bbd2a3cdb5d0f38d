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

// TestOverlap_TwoChecks_DoNotContradictEachOther: of two in-tree checks the one that looked last is right.
func TestOverlap_TwoChecks_DoNotContradictEachOther(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	m, n := inTreeEnv.machine("m-1"), remedyEnv.machine("m-1")
	inTreeEnv.falls(m)
	one, two := inTreeEnv.inTreeCheck("a"), inTreeEnv.inTreeCheck("b", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Checks.UnhealthyNodeConditions[0].Type = corev1.NodeDiskPressure
	})
	for range 2 {
		one.looks()
		inTreeEnv.Expect(inTreeEnv.health(m)()).To(Equal(isSick))
		two.looks()
		inTreeEnv.Expect(inTreeEnv.health(m)()).To(Equal(isWell))
	}
	inTreeEnv.Expect(one.allows()+two.allows()).
		ToNot(ContainSubstring("False"), "and neither of them reports the other")

	remedyEnv.falls(n)
	remedyEnv.remedyCheck("a")
	other := remedyEnv.remedyCheck("b", func(spec *remedyv1.MachineHealthCheckSpec) { spec.UnhealthyConditions[0].Type = "DiskPressure" })
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.health(n)).Should(Equal(isSick))
	remedyEnv.Eventually(remedyEnv.checkCondition(other, remedyv1.SelectorsDisjointCondition)).Should(Equal("False " + remedyv1.SelectorsOverlapReason))
	// It reconciles again, and reports nothing.
	before := client.MergeFrom(other.DeepCopy())
	other.Spec.UnhealthyConditions[0].Timeout = lasting(time.Minute)
	remedyEnv.Expect(remedyEnv.api.Patch(remedyEnv.ctx, other, before)).To(Succeed())
	remedyEnv.Eventually(remedyEnv.status(other)).Should(HaveField("ObservedGeneration", BeEquivalentTo(2)))
	remedyEnv.Expect(remedyEnv.health(n)()).To(Equal(isSick))
}

// TestMaxUnhealthy_RoundsDownToZero_IsReported: such a check never remediates. The in-tree reconciler reports that it may, until a target
// is unhealthy.
func TestMaxUnhealthy_RoundsDownToZero_IsReported(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	none := intstr.FromString("49%")
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.machine("m-1")
		a.machine("m-2")
	}
	check := inTreeEnv.inTreeCheck("workers", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &none
	})
	check.looks()
	inTreeEnv.Expect(check.allows()).To(HavePrefix("True"))
	inTreeEnv.falls(&clusterv1.Machine{ObjectMeta: inTreeEnv.meta("m-1")})
	check.looks()
	inTreeEnv.Expect(check.allows()).To(Equal("False " + clusterv1.MachineHealthCheckTooManyUnhealthyReason))

	workers := remedyEnv.remedyCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = &none })
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.checkCondition(workers, remedyv1.RemediationAllowedCondition)).Should(Equal("False " + remedyv1.LimitIsZeroReason))
}

// TestRequeue_BlockedCheck_WakesAtTheNextDeadline: with its gate closed the in-tree reconciler plans no further look, so that the next
// Machine is unhealthy without being called so until something happens by chance.
func TestRequeue_BlockedCheck_WakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	next := map[*environment]*clusterv1.Machine{}
	one := intstr.FromInt32(1)
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		a.falls(a.machine("m-1"))
		next[a] = a.machine("m-2")
	}
	inTreeEnv.turn(next[inTreeEnv], corev1.ConditionUnknown, 0)
	open := inTreeEnv.inTreeCheck("open").looks()
	inTreeEnv.Expect(open.RequeueAfter).To(BeNumerically(">", 0), "with its gate open it does")
	closed := inTreeEnv.inTreeCheck("closed", func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = &one
	})
	inTreeEnv.Expect(closed.looks().RequeueAfter).To(BeZero())
	inTreeEnv.Expect(closed.allows()).To(HavePrefix("False"))

	workers := remedyEnv.remedyCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = &one })
	// Its clock stands still, and is ahead of the probes of the connection: one that breaks meanwhile, and is restored, is evaluated again
	// by its own.
	now := testingclock.NewFakeClock(time.Now().Add(2 * time.Minute))
	remedyEnv.turn(next[remedyEnv], corev1.ConditionUnknown, 3*time.Minute-3*time.Second)
	remedyEnv.start(server.Admin, now)
	remedyEnv.Eventually(remedyEnv.status(workers)).Should(HaveField("Suspect", HaveValue(BeEquivalentTo(1))))
	remedyEnv.Expect(remedyEnv.checkCondition(workers, remedyv1.RemediationAllowedCondition)()).To(HavePrefix("False"))
	now.Step(time.Minute)
	remedyEnv.Eventually(remedyEnv.health(next[remedyEnv])).Should(Equal(isSick))
}

// TestNodeStartup_NodeJoinedWithoutNodeRef_DoesNotTimeOut: Cluster API has not written yet which Node it is.
func TestNodeStartup_NodeJoinedWithoutNodeRef_DoesNotTimeOut(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	machines := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		machines[a] = a.nodeless("m-1")
		a.join(machines[a])
		a.turn(machines[a], corev1.ConditionTrue, time.Hour)
	}
	check := inTreeEnv.inTreeCheck("workers", func(spec *clusterv1.MachineHealthCheckSpec) { spec.Checks.NodeStartupTimeoutSeconds = ptr.To[int32](1) })
	inTreeEnv.Eventually(func() string {
		check.looks()
		return inTreeEnv.health(machines[inTreeEnv])()
	}).Should(Equal("False "+clusterv1.MachineHealthCheckNodeStartupTimeoutReason), "a Node that is there and ready has failed to start")

	workers := remedyEnv.remedyCheck("workers")
	now := testingclock.NewFakeClock(time.Now().Add(time.Hour))
	remedyEnv.start(server.Admin, now)
	remedyEnv.Eventually(remedyEnv.status(workers)).Should(And(HaveField("ObservedGeneration", BeEquivalentTo(1)), HaveField("Undetermined", HaveValue(BeEquivalentTo(1)))))
	remedyEnv.Eventually(remedyEnv.checkCondition(workers, remedyv1.ClusterReachableCondition)).Should(HavePrefix("True"))
	remedyEnv.Expect(remedyEnv.health(machines[remedyEnv])()).To(BeEmpty())
	remedyEnv.Expect(remedyEnv.api.Delete(remedyEnv.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: remedyEnv.node(machines[remedyEnv])}})).To(Succeed())
	remedyEnv.Eventually(remedyEnv.health(machines[remedyEnv])).Should(Equal("False " + clusterv1.MachineHealthCheckNodeStartupTimeoutReason))
}
