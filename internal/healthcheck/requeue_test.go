// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestAHeldPlanStillWakesAtTheNextDeadline: nothing may be done, and yet people are told in time what becomes of the next Machine. Nobody
// but the check itself looks when that is due.
func TestAHeldPlanStillWakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	s.CreateUnhealthyMachine("m-1")
	next := s.CreateMachine("m-2")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	// By the clock of the test, which stands still, this is due in a few seconds, and in as many more as were needed to come here.
	s.SetReady("m-2", corev1.ConditionUnknown, 5*time.Minute-3*time.Second)
	c := s.Start()
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckCondition(remedyv1.RemediationAllowedCondition), Equal("False TooManyUnhealthy")))
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	c.WaitIdle()
	s.Clock.Step(time.Hour)
	s.Eventually(stage.Get(s, next)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsUnhealthy)))
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-2"), Equal("Held TooManyUnhealthy")))
}

// TestWhatMachinesWaitForIsWatched: as long as its Cluster is not so far, a Machine is not judged. When it is, nobody has to wait for
// anything else to happen. The connection to the cluster is up all the time, so that it is not what wakes the check.
func TestWhatMachinesWaitForIsWatched(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateUnhealthyMachine("m-1")
			turn := func(status metav1.ConditionStatus) {
				s.ChangeStatus(s.Cluster, func() {
					for i := range s.Cluster.Status.Conditions {
						if c := &s.Cluster.Status.Conditions[i]; c.Type == kind {
							c.Status, c.LastTransitionTime = status, metav1.Now()
						}
					}
				})
			}
			turn(metav1.ConditionFalse)
			check := s.CreateCheck("workers")
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedGeneration", BeEquivalentTo(1)))
			c.WaitIdle()
			s.Expect(stage.Get(s, check)().Status.UnhealthyTargets).To(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			turn(metav1.ConditionTrue)
			s.Eventually(stage.Get(s, m)).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsUnhealthy)))
			s.Eventually(stage.Get(s, m)).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
		})
	}
}
