// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// In Observe mode, the check does not annotate the Machine with the time of the deletion, but nodeGoneTimeout still passes.
func TestObserveMode_NodeDeleted_CountsTheTimeout(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := s.CreateMachine("m-1")
	timeout := stage.Duration(10 * time.Minute)
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Mode, spec.NodeGoneTimeout = remedyv1.ObserveMode, &timeout
	})
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.Advance(6 * time.Minute)
	c.ReconcileAll()
	s.Expect(stage.Get(s, check)().Status.Suspect).To(HaveValue(BeEquivalentTo(1)))
	s.Advance(5 * time.Minute)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Unhealthy", HaveValue(BeEquivalentTo(1))))
	s.Expect(stage.Get(s, m)().Annotations).ToNot(HaveKey(remedyv1.NodeGoneSinceAnnotation))
}

// A manager with --observe cancels the remediations of an earlier process, whatever the mode of the check is.
func TestObserveFlag_RunningRemediation_IsCanceled(t *testing.T) {
	t.Parallel()
	forEachRemediation(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		s.createTargets("m-2")
		check := s.createCheck()
		before := s.Start()
		s.Eventually(s.remediation("m-1")).ShouldNot(BeEmpty())
		before.WaitIdle()
		before.Crash()
		before.Stop()
		s.Observe = true
		c := s.Start()
		s.Eventually(s.remediation("m-1")).Should(BeEmpty())
		s.Eventually(check.decision("m-1")).Should(Equal("Observed ObserveMode"))
		c.WaitIdle()
		for _, name := range []string{"m-1", "m-2"} {
			s.Expect(notes.ResponsibleCheck(s.annotations(name)())).To(BeEmpty())
			s.Expect(s.machineCondition(name, clusterv1.MachineHealthCheckSucceededCondition)).ToNot(Equal(stage.IsUnhealthy))
		}
		// The finalizer stays until all kinds of requests are known: an instance retries the kinds that a busy API server has not served.
		s.Eventually(check.finalizers).Should(BeEmpty())
		writes := len(c.Writes())
		s.FailNode("m-2")
		s.Eventually(check.decision("m-2")).Should(Equal("Observed ObserveMode"))
		c.WaitIdle()
		for _, w := range c.Writes()[writes:] {
			s.Expect(w.What()).To(HavePrefix("patch " + s.checks + "/status "))
		}
	})
}

// An observing check reports what it would do for the targets of another check, and which check is responsible for them: docs/adopt.md
// compares two checks in this way. The other check does not notice it.
func TestObserveMode_OtherCheck_DecidesAsIfAlone(t *testing.T) {
	t.Parallel()
	forEachRemediation(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		s.createTargets("m-2")
		responsible := s.createCheck(named("a"))
		c := s.Start()
		s.Eventually(responsible.decision("m-1")).Should(Equal("Remediating "))
		observing := s.createCheck(named("b"), func(set *settings) { set.Mode = remedyv1.ObserveMode })
		s.Eventually(observing.decision("m-1")).Should(Equal("Observed ObserveMode"))
		s.Expect(observing.condition(remedyv1.SelectorsDisjointCondition)()).To(Equal("False SelectorsOverlap"))
		s.Expect(observing.message(remedyv1.SelectorsDisjointCondition)).
			To(ContainSubstring(responsible.title() + " is responsible for 2 targets: " + s.name("m-1") + ", " + s.name("m-2")))
		c.WaitIdle()
		s.Expect(responsible.condition(remedyv1.SelectorsDisjointCondition)()).To(Equal("True SelectorsDisjoint"))
		s.Expect(responsible.decision("m-1")()).To(Equal("Remediating "))
	})
}
