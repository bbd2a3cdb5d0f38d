// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	s.Eventually(get(s, check), suspense).Should(WithTransform(healthy, BeEquivalentTo(1)), "it is told again")
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

// TestANewLeaderKnowsWhatItsPredecessorHasWrittenLast: that has landed when the new one had filled its cache, which does not show it for as long as
// the test lasts.
func TestANewLeaderKnowsWhatItsPredecessorHasWrittenLast(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sick("m-1")
	s.machine("m-2")
	check := s.check("workers", byTemplate(s))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	c.settle()
	c.Crash()
	c.stop()
	s.firstRead = func(c *controller) {
		c.Watches().Hold("machinehealthchecks.remedy.cluster.x-k8s.io")
		s.changeStatus(check, func() {
			check.Status.CurrentHealthy = ptr.To[int32](7)
			check.Status.RecentRemediations = []remedyv1.RecentRemediation{{Target: "m-9", Outcome: remedyv1.ReplacedOutcome, Started: metav1.Now(), Ended: metav1.Now()}}
		})
	}
	c = s.start()
	s.Eventually(func() bool { return c.judged("workers") }).Should(BeTrue())
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(1)), "it is not as its predecessor has told")
	s.ready("m-1", corev1.ConditionTrue, 0)
	s.Eventually(get(s, check)).Should(WithTransform(outcomes, Equal([]string{"m-1 Recovered", "m-9 Replaced"})))
	c.Watches().Release()
}
