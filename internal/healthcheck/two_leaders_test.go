// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// until waits while checks are woken up all the time and remediators fail: what was refused is tried again after a while, or when anything
// happens.
func until(s *stage.Stage, what func() bool) {
	s.T.Helper()
	s.Eventually(func() bool {
		s.Wake()
		s.Remediate(remediator.FenceAgents, remediator.Fails)
		s.Remediate(remediator.Metal3, remediator.Hangs)
		return what()
	}).Should(BeTrue(), func() string { return seen(s) })
}

// seen is what there is, for those who wonder why it came to no end.
func seen(s *stage.Stage) string {
	var b strings.Builder
	for _, m := range s.Machines() {
		fmt.Fprintln(
			&b,
			m.Name,
			m.Annotations,
			stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(&m),
			stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m),
		)
	}
	for _, kind := range []remediator.Kind{remediator.FenceAgents, remediator.Metal3} {
		for _, request := range s.Requests(kind) {
			fmt.Fprintln(
				&b,
				request.GetKind(),
				request.GetName(),
				request.GetDeletionTimestamp(),
				request.GetFinalizers(),
				request.GetAnnotations(),
			)
		}
	}
	for _, check := range s.Checks() {
		fmt.Fprintln(&b, check.Name, check.DeletionTimestamp, check.Finalizers, check.Status.UnhealthyTargets)
	}
	return b.String()
}

// escalates lets two Machines go from the first template to the second one, to their owner, and to recovery.
func escalates(s *stage.Stage) {
	s.T.Helper()
	names := []string{"m-1", "m-2"}
	all := func(is func(m *clusterv1.Machine) bool) func() bool {
		return func() bool {
			for _, name := range names {
				m := &clusterv1.Machine{}
				s.Expect(s.Admin.Get(s.Ctx, stage.Key(s.Namespace, name), m)).To(Succeed())
				if !is(m) {
					return false
				}
			}
			return true
		}
	}
	for _, name := range names {
		s.SetReady(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	until(s, func() bool { return len(s.Requests(remediator.Metal3)) == 2 })
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty(), "the one before is gone")
	s.Clock.Step(11 * time.Minute)
	until(s, all(func(m *clusterv1.Machine) bool {
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(m) == stage.OwnerRequested
	}))
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty(), "the one before is gone")
	until(s, all(func(m *clusterv1.Machine) bool { return m.Annotations[remedyv1.MarkedByAnnotation] != "" }))
	for _, name := range names {
		s.SetReady(name, corev1.ConditionTrue, 0)
	}
	until(s, all(func(m *clusterv1.Machine) bool {
		return stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m) == stage.IsHealthy &&
			m.Annotations[remedyv1.TriedAnnotation] == ""
	}))
}

// ends lets the check go, which takes everything with it that is ours.
func ends(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	until(s, func() bool {
		// What could not be asked is asked again after a while.
		s.Clock.Step(time.Minute)
		return len(s.Checks()) == 0
	})
	for _, m := range s.Machines() {
		s.Expect(stage.Annotations(&m)).To(BeEmpty(), "nothing of ours is left behind")
	}
}

// escalation is a check with all kinds of steps, and two Machines that are well.
func escalation(s *stage.Stage) *remedyv1.MachineHealthCheck {
	s.T.Helper()
	s.Record()
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	return s.CreateCheck(
		"workers",
		stage.BySteps(s.CreateTemplate(remediator.FenceAgents, "soft"), s.CreateTemplate(remediator.Metal3, "hard"), nil),
	)
}

func TestAStoryFullOfErrorsEndsAsItShould(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithClock)
			check := escalation(s)
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(2)))
			c.Trouble(faults.Trouble{Seed: seed, Names: []string{s.Namespace}, Chance: 0.25, Reads: true})
			escalates(s)
			met := map[faults.Fault]int{}
			for _, w := range c.AllWrites() {
				met[w.Fault]++
			}
			t.Log("writes by what they met:", met)
			s.Expect(met).To(HaveKey(Not(BeEmpty())), "there was trouble")
			c.Trouble(faults.Trouble{})
			ends(s, check)
			createdOnce(s, c)
		})
	}
}

// TestTwoLeadersAtOnceEscalateOnce: one of them is always a little behind.
func TestTwoLeadersAtOnceEscalateOnce(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	check := escalation(s)
	one, two := s.Start(), s.Start()
	two.Watches().Lag(1, heldMachines)
	escalates(s)
	two.Watches().Release()
	ends(s, check)
	createdOnce(s, one, two)
}

// TestTwoLeadersAtOnceMarkNoMoreThanOne: one of them has not heard who was marked, and would take somebody else.
func TestTwoLeadersAtOnceMarkNoMoreThanOne(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.CreateMachine(name)
	}
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	one, two := s.Start(), s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(4)))
	one.WaitIdle()
	two.WaitIdle()
	two.Watches().Hold(heldMachines)
	isMarked := func() []string {
		var names []string
		for _, m := range s.Machines() {
			if stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m) == stage.OwnerRequested {
				names = append(names, m.Name)
			}
		}
		return names
	}
	s.FailNode("m-2")
	s.Eventually(isMarked).Should(Equal([]string{"m-2"}))
	// What the status says by now may be of either of them.
	one.ReconcileAll()
	// The one who knows says no more. The others have been ill for longer, and come first where there is a place.
	one.Crash()
	for _, name := range []string{"m-1", "m-3", "m-4"} {
		s.SetReady(name, corev1.ConditionUnknown, time.Hour)
	}
	for range 3 {
		two.ReconcileAll()
		s.Expect(isMarked()).To(Equal([]string{"m-2"}))
	}
	two.Watches().Release()
	two.WaitIdle()
	s.Expect(isMarked()).To(Equal([]string{"m-2"}))
}

const (
	heldMachines = "machines.cluster.x-k8s.io"
	heldRequests = "metal3remediations.infrastructure.cluster.x-k8s.io"
	heldChecks   = "machinehealthchecks.remedy.cluster.x-k8s.io"
)

// TestARequestThatIsNotSeenYetIsMadeOnce: its own watch lags, and the check is looked at over and over.
func TestARequestThatIsNotSeenYetIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, held := range map[string][]string{
		"requests": {heldRequests}, "requests and checks": {heldRequests, heldChecks}, "all": {heldRequests, heldChecks, heldMachines},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.Record()
			s.CreateMachine("m-1")
			s.CreateMachine("m-2")
			s.CreateCheck("workers", stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft")), stage.MaxInFlight(1))
			c := s.Start()
			c.WaitIdle()
			// One has gone through it all, so that everything is being watched and the check has its finalizer.
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitRequest(remediator.Metal3, "m-1")
			c.WaitIdle()
			s.Expect(starts(c)).To(Equal([]string{"create m-1"}))
			c.Watches().Hold(held...)
			recovers(s, "m-1")
			s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
			for range 3 {
				c.ReconcileAll()
			}
			s.Expect(starts(c)).To(Or(Equal([]string{"create m-1", "delete m-1"}), Equal([]string{"create m-1", "delete m-1", "create m-2"})))
			c.Watches().Release()
			s.Eventually(func() any {
				s.Wake()
				return s.Request(remediator.Metal3, "m-2")()
			}, stage.OutcomeTimeout).ShouldNot(BeNil(), "the next has its turn")
			c.WaitIdle()
			s.Expect(starts(c)).To(Equal([]string{"create m-1", "delete m-1", "create m-2"}))
		})
	}
}

// TestAnOwnerWhoIsNotHeardYetIsNotOverwritten: the Machine has the owner's words, and the cache has not.
func TestAnOwnerWhoIsNotHeardYetIsNotOverwritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	m := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	c.WaitIdle()
	c.Watches().Hold(heldMachines)
	s.SetOwnerAnswer(m, clusterv1.MachineSetMachineRemediationDeferredReason)
	s.Eventually(func() int { return c.Watches().HeldBack(heldMachines) }).Should(BeNumerically(">=", 1))
	deferred := "False " + clusterv1.MachineSetMachineRemediationDeferredReason
	s.SetReady("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(stage.Get(s, check)).Should(WithTransform(said("m-1"), ContainSubstring("status False")), "it has judged the Node as it is")
	c.ReconcileAll()
	c.ReconcileAll()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(Equal(deferred))
	c.Watches().Release()
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(Equal(deferred))
	s.Expect(stage.Annotations(m)).To(HaveKey(remedyv1.MarkedByAnnotation))
}

// TestACheckThatHasChangedUnheardBeginsNothing: it was deleted, observes, or looks after others, and the cache does not know.
func TestACheckThatHasChangedUnheardBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"it is deleted": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
		},
		"it observes":    func(s *stage.Stage, check *remedyv1.MachineHealthCheck) { observes(s, check) },
		"others are its": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) { looksAfterOthers(s, check) },
	} {
		for kind, template := range map[string]bool{"with requests": true, "with marks": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				s := stage.New(t)
				s.Record()
				// One is being remediated, so that all is prepared for more.
				s.CreateUnhealthyMachine("m-0")
				m := s.CreateMachine("m-1")
				check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
					if template {
						stage.ByTemplate(s.CreateTemplate(remediator.Metal3, "soft"))(spec)
					}
				})
				c := s.Start()
				s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-0"), Equal("Remediating ")))
				s.Eventually(stage.Get(s, m)).
					Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsHealthy)))
				c.WaitIdle()
				c.Watches().Hold(heldChecks)
				change(s, check)
				s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
				nudged(c, 3)
				nothing := func() {
					s.Expect(starts(c)).ToNot(ContainElement("create m-1"))
					s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
				}
				nothing()
				c.Watches().Release()
				c.WaitIdle()
				nothing()
			})
		}
	}
}

// nudged lets the controller look so many times at the check that it knows, which may be gone for everybody else.
func nudged(c *stage.Instance, times int) {
	c.Stage.T.Helper()
	for range times {
		before := c.Reconciles("workers").Load()
		c.Stage.Wake()
		c.Stage.Eventually(func() int64 { return c.Reconciles("workers").Load() }).Should(BeNumerically(">", before))
	}
}

func observes(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
}

func looksAfterOthers(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
}

// untilQuiet is what has happened before the story begins.
func untilQuiet(s *stage.Stage) {
	s.T.Helper()
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	defer c.Stop()
	s.Expect(c.RunUntilIdle(s.Ctx)).To(Succeed())
}
