//go:build long

// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// TestOneCheck_ManyMachines_CountsAndLimitsAll takes minutes with the ten thousand Machines of the full depth.
func TestOneCheck_ManyMachines_CountsAndLimitsAll(t *testing.T) {
	s := newStage(t)
	s.SetDefaultEventuallyPollingInterval(time.Second)
	const places = 10
	all := depth.Of(1_000, 10_000)
	silent, gone, more := all/100, all/200, 6*all/1_000
	people := s.newCrowd()
	people.ready = func(i int) corev1.ConditionStatus {
		switch {
		case i%100 == 0:
			return corev1.ConditionUnknown
		case i%200 == 1:
			return ""
		}
		return corev1.ConditionTrue
	}
	begun := time.Now()
	people.come(all)
	made := time.Now()
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.MaxUnhealthy, spec.MaxInFlight = ptr.To(intstr.FromString("2%")), ptr.To(intstr.FromInt32(places))
	})
	c := s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(all-silent-gone)))
	told := time.Now()
	c.calm()
	s.counts(get(s, check)(), all, silent+gone, places)
	s.Expect(check.Status.RemediationsAllowed).To(HaveValue(BeEquivalentTo(all/50 - silent - gone)))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(HavePrefix("True"))
	s.Expect(tells(remedyv1.ClusterReachableCondition)(check)).To(HavePrefix("True"))
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(HavePrefix("True"))
	marks := s.told(clusterv1.MachineOwnerRemediatedCondition)
	s.Expect(countOf(marks, marked)).To(Equal(places))
	s.Expect(countOf(marks, "")).To(Equal(all - places))
	s.Expect(countOf(s.told(clusterv1.MachineHealthCheckSucceededCondition), isWell)).To(Equal(all - silent - gone))

	// More are sick than may be: nobody else is touched, and everybody is told.
	s.Expect(eachOf(more, func(i int) error { return people.fallIll(i*100 + 2) })).To(Succeed())
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(all-silent-gone-more)))
	c.calm()
	s.counts(get(s, check)(), all, silent+gone+more, places)
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False " + remedyv1.TooManyUnhealthyReason))
	s.Expect(s.told(clusterv1.MachineOwnerRemediatedCondition)).To(Equal(marks))
	t.Logf("%d Machines: made in %s, all of them told how they are in %s, everything in %s",
		all, made.Sub(begun).Round(time.Second), told.Sub(made).Round(time.Second), time.Since(begun).Round(time.Second))
}

// counts looks at everything that is counted, and at what is listed: that has an end, and how many there are is told.
func (s *stage) counts(check *remedyv1.MachineHealthCheck, all, sick, remediating int) {
	s.t.Helper()
	status := &check.Status
	for what, n := range map[*int32]int{
		status.ExpectedMachines: all, status.CurrentHealthy: all - sick, status.Unhealthy: sick, status.Suspect: 0, status.Undetermined: 0,
		status.Remediating: remediating, status.Held: sick - remediating, status.UnhealthyTargetsTotal: sick,
	} {
		s.Expect(what).To(HaveValue(BeEquivalentTo(n)), "%v", status)
	}
	s.Expect(status.UnhealthyTargets).To(HaveLen(min(sick, 100)))
	s.Expect(status.Targets).To(HaveLen(min(all, 1000)))
	content, err := json.Marshal(status)
	s.Expect(err).ToNot(HaveOccurred())
	s.Expect(len(content)).To(BeNumerically("<", 100_000))
}
