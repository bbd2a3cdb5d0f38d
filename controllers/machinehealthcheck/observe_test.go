// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestWhoObservesSeesForHowLongANodeIsGone: nothing may be written on the Machine, and yet the time passes.
func TestWhoObservesSeesForHowLongANodeIsGone(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	m := s.machine("m-1")
	timeout := lasting(10 * time.Minute)
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Mode, spec.NodeGoneTimeout = remedyv1.ObserveMode, &timeout
	})
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	s.Expect(s.kubelet.Delete(s.ctx, s.nodeOf("m-1"))).To(Succeed())
	s.Eventually(get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.wait(6 * time.Minute)
	c.pass()
	s.Expect(get(s, check)().Status.Suspect).To(HaveValue(BeEquivalentTo(1)))
	s.wait(5 * time.Minute)
	s.Eventually(get(s, check)).Should(HaveField("Status.Unhealthy", HaveValue(BeEquivalentTo(1))))
	s.Expect(get(s, m)().Annotations).ToNot(HaveKey(remedyv1.NodeGoneSinceAnnotation))
}

// TestAManagerThatOnlyObservesTakesBackWhatOneBeforeItHasBegun: it is the ceiling over every check, whatever their mode.
func TestAManagerThatOnlyObservesTakesBackWhatOneBeforeItHasBegun(t *testing.T) {
	t.Parallel()
	marks := func(s *stage) string {
		m := s.machines()[0]
		return says(clusterv1.MachineOwnerRemediatedCondition)(&m)
	}
	asks := func(s *stage) string {
		return map[bool]string{true: "asked"}[len(s.requests(remediator.Metal3)) > 0]
	}
	for name, begun := range map[string]struct {
		template bool
		sign     func(*stage) string
	}{
		"a mark for its owner": {sign: marks},
		"a request":            {template: true, sign: asks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.sick("m-1")
			s.machine("m-2")
			check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				if begun.template {
					spec.RemediationTemplate = s.template(remediator.Metal3, "soft")
				}
			})
			before := s.start()
			s.Eventually(func() string { return begun.sign(s) }).ShouldNot(BeEmpty())
			before.settle()
			before.Crash()
			before.stop()
			s.observe = true
			c := s.start()
			s.Eventually(func() string { return begun.sign(s) }).Should(BeEmpty())
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Observed Observing")))
			c.settle()
			for _, m := range s.machines() {
				s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(&m)).ToNot(Equal(isSick))
				s.Expect(notes.Author(m.Annotations)).To(BeEmpty())
			}
			// Kinds that the API server was too busy to name are asked for again, and the finalizer stays until all are known.
			s.Eventually(get(s, check)).Should(HaveField("Finalizers", BeEmpty()))
			writes := len(c.Writes())
			s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-2"), Equal("Observed Observing")))
			c.settle()
			for _, w := range c.Writes()[writes:] {
				s.Expect(w.What()).To(HavePrefix("patch machinehealthchecks.remedy.cluster.x-k8s.io/status "))
			}
		})
	}
}
