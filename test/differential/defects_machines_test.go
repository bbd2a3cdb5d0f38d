// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// The provider of a Machine reports a failure in fields that the in-tree reconciler does not read any more.
func TestMachine_FailureMessage_IsUnhealthyAtOnce(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	machines := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		m := a.machine("m-1")
		a.changeStatus(m, func() {
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{ //nolint:staticcheck // providers still set it.
				FailureMessage: ptr.To("the server is on fire"), //nolint:staticcheck // as above.
			}}
		})
		machines[a] = m
	}
	inTreeEnv.inTreeCheck("workers").looks()
	inTreeEnv.Expect(inTreeEnv.health(machines[inTreeEnv])()).To(Equal(isWell))

	remedyEnv.remedyCheck("workers")
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.health(machines[remedyEnv])).Should(Equal("False " + string(health.MachineFailed)))
}

// TestNode_OtherProviderID_IsNotTheNodeOfTheMachine: a new server has the name of an old one, which does not exist
// any more.
func TestNode_OtherProviderID_IsNotTheNodeOfTheMachine(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	machines := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		m := a.machine("m-1")
		a.Expect(a.api.Delete(a.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.node(m)}})).To(Succeed())
		another := m.DeepCopy()
		another.Spec.ProviderID = "test:///another"
		a.join(another)
		a.turn(m, corev1.ConditionTrue, 0)
		machines[a] = m
	}
	inTreeEnv.inTreeCheck("workers").looks()
	inTreeEnv.Expect(inTreeEnv.health(machines[inTreeEnv])()).To(Equal(isWell))

	remedyEnv.remedyCheck("workers")
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.health(machines[remedyEnv])).Should(Equal("False " + clusterv1.MachineHealthCheckNodeDeletedReason))
}

// TestOwnerRemediation_NoRemediatingOwner_IsBlocked: both set the same conditions, because another controller may act on them. Only Remedy
// reports that no owner acts, and removes the conditions with the check.
func TestOwnerRemediation_NoRemediatingOwner_IsBlocked(t *testing.T) {
	t.Parallel()
	inTreeEnv, remedyEnv := newEnvironments(t)
	machines := map[*environment]*clusterv1.Machine{}
	for _, a := range []*environment{inTreeEnv, remedyEnv} {
		machines[a] = a.machine("m-1", func(m *clusterv1.Machine) { m.OwnerReferences = nil })
		a.falls(machines[a])
	}
	inTreeEnv.inTreeCheck("workers").looks()
	inTreeEnv.Expect(inTreeEnv.condition(machines[inTreeEnv], clusterv1.MachineOwnerRemediatedCondition)()).
		To(Equal("False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason))

	workers := remedyEnv.remedyCheck("workers")
	remedyEnv.goes()
	remedyEnv.Eventually(remedyEnv.health(machines[remedyEnv])).Should(Equal(isSick))
	remedyEnv.Eventually(remedyEnv.holds(workers, "m-1")).Should(Equal("Blocked " + string(remedyv1.BlockedNoRemediatingOwner)))
	remedyEnv.Eventually(remedyEnv.condition(machines[remedyEnv], clusterv1.MachineOwnerRemediatedCondition)).
		Should(Equal("False " + clusterv1.MachineOwnerRemediatedWaitingForRemediationReason))
}
