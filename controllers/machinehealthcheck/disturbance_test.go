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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// createdOnce says whether no request was made twice, by anybody.
func createdOnce(s *stage, controllers ...*controller) {
	s.t.Helper()
	made := map[string]int{}
	for _, c := range controllers {
		for _, w := range c.Writes() {
			if w.Verb == "create" && w.Landed() {
				made[w.Resource+" "+w.Name]++
			}
		}
	}
	s.Expect(made).To(HaveEach(1))
}

func TestTwoLeadersAtOnceMakeNoRequestTwice(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, name := range []string{"m-1", "m-2", "m-3"} {
		s.sick(name)
	}
	s.check("workers", by(s.template(remediator.Metal3, "soft")), atOnce(2))
	one, two := s.start(), s.start()
	s.Eventually(func() int { return len(s.requests(remediator.Metal3)) }).Should(Equal(2))
	one.settle()
	two.settle()
	s.Expect(s.requests(remediator.Metal3)).To(HaveLen(2))
	createdOnce(s, one, two)
}

func TestErrorsOfTheAPIServerDelayAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	sick := s.machine("m-1")
	s.machine("m-2")
	check := s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), nil))
	c := s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(2)))
	s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
	c.Trouble(faults.Trouble{Seed: 7, Chance: 0.2, Reads: true})
	// What was refused is tried again after a while, or when anything happens: so something does.
	s.Eventually(func() int {
		s.nudge()
		return len(s.requests(remediator.FenceAgents))
	}).Should(Equal(2))
	s.acts(remediator.FenceAgents, remediator.Fails)
	s.Eventually(func() string {
		s.nudge()
		s.acts(remediator.FenceAgents, remediator.Fails)
		return says(clusterv1.MachineOwnerRemediatedCondition)(get(s, sick)())
	}).Should(Equal(marked))
	c.Trouble(faults.Trouble{})
	s.Eventually(func() int {
		s.nudge()
		s.acts(remediator.FenceAgents, remediator.Fails)
		return len(s.requests(remediator.FenceAgents))
	}).Should(BeZero())
	createdOnce(s, c)
}

// TestAStaleCacheStartsNothing: something about the Machine has changed, and the controller has not heard of it; the live look has.
func TestAStaleCacheStartsNothing(t *testing.T) {
	t.Parallel()
	for change, do := range map[string]func(*stage, *clusterv1.Machine){
		"it was exempted": func(s *stage, m *clusterv1.Machine) {
			s.annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"the check does not select it any more": func(s *stage, m *clusterv1.Machine) {
			s.change(m, func() { m.Labels["pool"] = "another" })
		},
	} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			m := s.sick("m-1")
			check := s.check("workers", by(s.template(remediator.Metal3, "soft")), func(spec *remedyv1.MachineHealthCheckSpec) { spec.PauseRequests = []string{"not yet"} })
			c := s.start()
			// It is signed already, so that no write to the Machine comes before the request.
			s.Eventually(func() string { return notes.Author(get(s, m)().Annotations) }).Should(Equal("MachineHealthCheck/workers"))
			c.settle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			do(s, m)
			s.Eventually(func() int { return c.Watches().HeldBack("machines.cluster.x-k8s.io") }).Should(BeNumerically(">=", 1))
			s.change(check, func() { check.Spec.PauseRequests = nil })
			s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Held NotConfirmed")))
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
			c.Watches().Release()
			c.settle()
			s.Expect(s.requests(remediator.Metal3)).To(BeEmpty())
		})
	}
}

func TestWatchesThatAreCutOrExpireLoseNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m, other := s.machine("m-1"), s.machine("m-2")
	s.check("workers")
	c := s.start()
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
	c.Watches().Cut()
	s.annotate(m, clusterv1.RemediateMachineAnnotation, "yes")
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	c.Watches().Expire()
	s.annotate(other, clusterv1.RemediateMachineAnnotation, "yes")
	s.Eventually(get(s, other)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}
