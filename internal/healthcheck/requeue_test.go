// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Remediation is blocked, but the check still reports in time that the next target becomes unhealthy. Only its own deadline wakes it.
func TestRequeue_BlockedCheck_WakesAtTheNextDeadline(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1", "m-3")
		s.createTargets("m-2")
		check := s.createCheck(maxUnhealthy("1"))
		// By the clock of the test, which does not run, the deadline is in three seconds and the time since the test began.
		s.SetReady("m-2", corev1.ConditionUnknown, 5*time.Minute-3*time.Second)
		c := s.Start()
		s.Eventually(check.condition(remedyv1.RemediationAllowedCondition)).Should(Equal("False TooManyUnhealthy"))
		s.Eventually(check.status).Should(HaveField("Suspect", HaveValue(BeEquivalentTo(1))))
		c.WaitIdle()
		s.Clock.Step(time.Hour)
		s.waitMachineCondition("m-2", clusterv1.MachineHealthCheckSucceededCondition, stage.IsUnhealthy)
		s.Eventually(check.decision("m-2")).Should(Equal("Blocked TooManyUnhealthy"))
	}, stage.WithClock)
}

// A Machine is not judged before its Cluster has both conditions. A change of either one wakes the check. The connection to the cluster is
// up all the time, so it does not wake the check.
func TestClusterConditions_BecomeTrue_WakeTheCheck(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{clusterv1.ClusterControlPlaneInitializedCondition, clusterv1.ClusterInfrastructureReadyCondition} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateUnhealthyMachine("m-1")
			setCondition := func(status metav1.ConditionStatus) {
				s.ChangeStatus(s.Cluster, func() {
					for i := range s.Cluster.Status.Conditions {
						if c := &s.Cluster.Status.Conditions[i]; c.Type == kind {
							c.Status, c.LastTransitionTime = status, metav1.Now()
						}
					}
				})
			}
			setCondition(metav1.ConditionFalse)
			check := s.CreateCheck("workers")
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedGeneration", BeEquivalentTo(1)))
			c.WaitIdle()
			s.Expect(stage.Get(s, check)().Status.UnhealthyTargets).To(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			setCondition(metav1.ConditionTrue)
			s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, stage.IsUnhealthy)
			s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
		})
	}
}
