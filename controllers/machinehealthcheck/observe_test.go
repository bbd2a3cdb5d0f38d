// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
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
