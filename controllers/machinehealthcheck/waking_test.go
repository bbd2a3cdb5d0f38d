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

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestAHeldPlanStillWakesAtTheNextDeadline: nothing may be done, and yet people are told in time what becomes of the next Machine. Nobody but the
// check itself looks when that is due.
func TestAHeldPlanStillWakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	s.sick("m-1")
	next := s.machine("m-2")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	// By the clock of the test, which stands still, this is due in a few seconds, and in as many more as were needed to come here.
	s.ready("m-2", corev1.ConditionUnknown, 5*time.Minute-3*time.Second)
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.RemediationAllowedCondition), Equal("False TooManyUnhealthy")))
	s.Eventually(get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	c.settle()
	s.clock.Step(time.Hour)
	s.Eventually(get(s, next)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-2"), Equal("Held TooManyUnhealthy")))
}

// TestWhatMachinesWaitForIsWatched: as long as its Cluster is not so far, a Machine is not judged. When it is, nobody has to wait for anything else to
// happen. The connection to the cluster is up all the time, so that it is not what wakes the check.
func TestWhatMachinesWaitForIsWatched(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			m := s.sick("m-1")
			turn := func(status metav1.ConditionStatus) {
				s.changeStatus(s.cluster, func() {
					for i := range s.cluster.Status.Conditions {
						if c := &s.cluster.Status.Conditions[i]; c.Type == kind {
							c.Status, c.LastTransitionTime = status, metav1.Now()
						}
					}
				})
			}
			turn(metav1.ConditionFalse)
			check := s.check("workers")
			c := s.start()
			s.Eventually(get(s, check)).Should(HaveField("Status.ObservedGeneration", BeEquivalentTo(1)))
			c.settle()
			s.Expect(get(s, check)().Status.UnhealthyTargets).To(BeEmpty())
			s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
			turn(metav1.ConditionTrue)
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
		})
	}
}
