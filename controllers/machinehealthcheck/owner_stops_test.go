// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

func TestWhatTakesAWaitingMarkBack(t *testing.T) {
	t.Parallel()
	for name, because := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine){
		"a request to pause": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
		},
		"a storm": func(s *stage, _ *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.ready("m-2", corev1.ConditionFalse, 10*time.Minute)
		},
		"skip-remediation": func(s *stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"other labels of the Machine": func(s *stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.change(m, func() { m.Labels["pool"] = "others" })
		},
		"another selector": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
		},
		"observing": func(s *stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			sick := s.sick("m-1")
			s.machine("m-2")
			check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				cooldown := lasting(5 * time.Minute)
				spec.MaxUnhealthy, spec.StormCooldownDuration = ptr.To(intstr.FromInt32(1)), &cooldown
			})
			s.start()
			s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
			because(s, check, sick)
			s.Eventually(get(s, sick)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), BeEmpty()))
		})
	}
}

func TestAClosedGateLeavesMarksAndTellsHealth(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := s.sick("m-1"), s.machine("m-2")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.MaxUnhealthy = ptr.To(intstr.FromInt32(1)) })
	c := s.start()
	s.Eventually(get(s, first)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.ready("m-2", corev1.ConditionFalse, 10*time.Minute)
	s.Eventually(get(s, second)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isSick)))
	s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.RemediationAllowedCondition), Equal("False TooManyUnhealthy")))
	s.Expect(holds("m-2")(check)).To(Equal("Held TooManyUnhealthy"))
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, first)())).To(Equal(marked))
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, second)())).To(BeEmpty())
}

func TestWhoOnlyObservesWritesOnlyStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sick("m-1")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Observed Observing")))
	s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False Observing"))
	c.settle()
	for _, w := range c.Writes() {
		// That it belongs to its Cluster is no act.
		s.Expect(w.Resource).To(Equal("machinehealthchecks"), w.What())
	}
	s.Expect(check.Finalizers).To(BeEmpty())
}

func TestAPauseFreezes(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck, on bool){
		"of the check": func(s *stage, check *remedyv1.MachineHealthCheck, on bool) {
			s.annotate(check, clusterv1.PausedAnnotation, map[bool]string{true: "yes"}[on])
		},
		"of the Cluster": func(s *stage, _ *remedyv1.MachineHealthCheck, on bool) {
			s.change(s.cluster, func() { s.cluster.Spec.Paused = ptr.To(on) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			m := s.machine("m-1")
			check := s.check("workers")
			c := s.start()
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
			c.settle()
			pause(s, check, true)
			s.Eventually(get(s, check)).Should(WithTransform(tells(remedyv1.PausedCondition), Equal("True Paused")))
			s.Expect(tells(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False Paused"))
			s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False NotReady"))
			s.Eventually(func() []float64 { return c.series("remedy_check_condition", "workers", remedyv1.PausedCondition) }).Should(Equal([]float64{1}))
			s.Eventually(func() []float64 { return c.series("remedy_remediation_allowed", "workers") }).Should(Equal([]float64{0}))
			before := len(c.Writes())
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			// It wakes the one that is paused, and has no Machine itself.
			s.Expect(s.admin.Delete(s.ctx, s.check("other", ofPool("others")))).To(Succeed())
			c.pass()
			s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(get(s, m)())).To(Equal(isWell))
			for _, w := range c.Writes()[before:] {
				s.Expect(w.Name).To(Equal("other"), w.What())
			}
			pause(s, check, false)
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
		})
	}
}

func TestAPausedMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.sick("m-1", func(m *clusterv1.Machine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, check)).Should(HaveField("Status.ObservedGeneration", BeEquivalentTo(1)))
	c.settle()
	for _, w := range c.Writes() {
		s.Expect(w.Resource).To(Equal("machinehealthchecks"), w.What())
	}
	s.change(m, func() { m.Annotations = nil })
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}
