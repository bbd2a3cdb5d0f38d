//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/depth"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestOneCheck_ManyMachines_CountsAndLimitsAll takes minutes with the ten thousand Machines of the full depth.
func TestOneCheck_ManyMachines_CountsAndLimitsAll(t *testing.T) {
	s := stage.New(t)
	s.SetDefaultEventuallyPollingInterval(time.Second)
	all := depth.Of(400, 10_000)
	unknown, noNode, places, more := all/100, all/200, all/100, all/100
	bulk := s.NewBulk()
	bulk.Ready = func(i int) corev1.ConditionStatus {
		switch {
		case i%100 == 0:
			return corev1.ConditionUnknown
		case i%200 == 1:
			return ""
		}
		return corev1.ConditionTrue
	}
	started := time.Now()
	bulk.Create(all)
	created := time.Now()
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.MaxUnhealthy, spec.MaxInFlight = ptr.To(intstr.FromString("2%")), ptr.To(intstr.FromInt32(int32(places)))
	})
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(all-unknown-noNode)))
	evaluated := time.Now()
	c.WaitNoReconciles()
	expectCounts(s, stage.Get(s, check)(), all, unknown+noNode, places)
	s.Expect(check.Status.RemediationsAllowed).To(HaveValue(BeEquivalentTo(all/50 - unknown - noNode)))
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(HavePrefix("True"))
	s.Expect(stage.CheckCondition(remedyv1.ClusterReachableCondition)(check)).To(HavePrefix("True"))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(HavePrefix("True"))
	ownerRemediated := s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)
	s.Expect(stage.Count(ownerRemediated, stage.OwnerRequested)).To(Equal(places))
	s.Expect(stage.Count(ownerRemediated, "")).To(Equal(all - places))
	s.Expect(stage.Count(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition), stage.IsHealthy)).
		To(Equal(all - unknown - noNode))

	// More Machines become unhealthy than maxUnhealthy allows: no other Machine is remediated, and the check reports all of them.
	s.Expect(stage.Parallel(more, func(i int) error { return bulk.FailNode(i*100 + 2) })).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(all-unknown-noNode-more)))
	c.WaitNoReconciles()
	expectCounts(s, stage.Get(s, check)(), all, unknown+noNode+more, places)
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False " + remedyv1.TooManyUnhealthyReason))
	s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)).To(Equal(ownerRemediated))
	t.Logf("%d Machines: created in %s, evaluated in %s, everything in %s",
		all, created.Sub(started).Round(time.Second), evaluated.Sub(created).Round(time.Second), time.Since(started).Round(time.Second))
}

// expectCounts verifies all counts of a status, and the length of its lists, which are truncated.
func expectCounts(s *stage.Stage, check *remedyv1.MachineHealthCheck, all, unhealthy, remediating int) {
	s.T.Helper()
	status := &check.Status
	for count, n := range map[*int32]int{
		status.ExpectedMachines: all, status.CurrentHealthy: all - unhealthy, status.Unhealthy: unhealthy,
		status.Suspect: 0, status.Undetermined: 0,
		status.Remediating: remediating, status.Blocked: unhealthy - remediating, status.UnhealthyTargetsTotal: unhealthy,
	} {
		s.Expect(count).To(HaveValue(BeEquivalentTo(n)), "%v", status)
	}
	s.Expect(status.UnhealthyTargets).To(HaveLen(min(unhealthy, 100)))
	s.Expect(status.Targets).To(HaveLen(min(all, 1000)))
	content, err := json.Marshal(status)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(len(content)).To(BeNumerically("<", 100_000))
}
