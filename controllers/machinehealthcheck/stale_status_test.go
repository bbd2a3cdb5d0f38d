// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// TestAStatusIsTrueThoughTheCacheIsBehind: what we have written ourselves is not in the cache yet, and everything is as it was before that.
func TestAStatusIsTrueThoughTheCacheIsBehind(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	c.settle()
	c.Watches().Hold("machinehealthchecks.remedy.cluster.x-k8s.io")
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(0)))
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	c.Watches().Release()
}

func TestEverythingIsLookedAtAgainOnceInAWhile(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.sync = ptr.To(time.Second) })
	s.machine("m-1")
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)))
	c.settle()
	routine := func() float64 {
		n := 0.0
		for _, counted := range c.series("remedy_evaluations_total", "resync") {
			n += counted
		}
		return n
	}
	before := routine()
	s.Eventually(routine).Should(BeNumerically(">=", before+2))
}
