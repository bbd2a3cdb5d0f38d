// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// until waits while checks are woken up all the time and remediators fail: what was refused is tried again after a while, or when anything happens.
func (s *stage) until(what func() bool) {
	s.t.Helper()
	s.Eventually(func() bool {
		s.nudge()
		s.acts(remediator.FenceAgents, remediator.Fails)
		s.acts(remediator.Metal3, remediator.Hangs)
		return what()
	}).Should(BeTrue(), s.seen)
}

// seen is what there is, for those who wonder why it came to no end.
func (s *stage) seen() string {
	var b strings.Builder
	for _, m := range s.machines() {
		fmt.Fprintln(&b, m.Name, m.Annotations, says(clusterv1.MachineHealthCheckSucceededCondition)(&m), says(clusterv1.MachineOwnerRemediatedCondition)(&m))
	}
	for _, kind := range []remediator.Kind{remediator.FenceAgents, remediator.Metal3} {
		for _, request := range s.requests(kind) {
			fmt.Fprintln(&b, request.GetKind(), request.GetName(), request.GetDeletionTimestamp(), request.GetFinalizers(), request.GetAnnotations())
		}
	}
	for _, check := range s.checks() {
		fmt.Fprintln(&b, check.Name, check.DeletionTimestamp, check.Finalizers, check.Status.UnhealthyTargets)
	}
	return b.String()
}

// escalates lets two Machines go from the first template to the second one, to their owner, and to recovery.
func (s *stage) escalates() {
	s.t.Helper()
	names := []string{"m-1", "m-2"}
	all := func(is func(m *clusterv1.Machine) bool) func() bool {
		return func() bool {
			for _, name := range names {
				m := &clusterv1.Machine{}
				s.Expect(s.admin.Get(s.ctx, keyOf(s.namespace, name), m)).To(Succeed())
				if !is(m) {
					return false
				}
			}
			return true
		}
	}
	for _, name := range names {
		s.ready(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	s.until(func() bool { return len(s.requests(remediator.Metal3)) == 2 })
	s.Expect(s.requests(remediator.FenceAgents)).To(BeEmpty(), "the one before is gone")
	s.clock.Step(11 * time.Minute)
	s.until(all(func(m *clusterv1.Machine) bool { return says(clusterv1.MachineOwnerRemediatedCondition)(m) == marked }))
	s.Expect(s.requests(remediator.Metal3)).To(BeEmpty(), "the one before is gone")
	s.until(all(func(m *clusterv1.Machine) bool { return m.Annotations[remedyv1.MarkedByAnnotation] != "" }))
	for _, name := range names {
		s.ready(name, corev1.ConditionTrue, 0)
	}
	s.until(all(func(m *clusterv1.Machine) bool {
		return says(clusterv1.MachineHealthCheckSucceededCondition)(m) == isWell && m.Annotations[remedyv1.TriedAnnotation] == ""
	}))
}

// ends lets the check go, which takes everything with it that is ours.
func (s *stage) ends(check *remedyv1.MachineHealthCheck) {
	s.t.Helper()
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	s.until(func() bool {
		// What could not be asked is asked again after a while.
		s.clock.Step(time.Minute)
		return len(s.checks()) == 0
	})
	for _, m := range s.machines() {
		s.Expect(annotations(&m)).To(BeEmpty(), "nothing of ours is left behind")
	}
}

// escalation is a check with all kinds of steps, and two Machines that are well.
func (s *stage) escalation() *remedyv1.MachineHealthCheck {
	s.t.Helper()
	s.audited()
	s.machine("m-1")
	s.machine("m-2")
	return s.check("workers", steps(s.template(remediator.FenceAgents, "soft"), s.template(remediator.Metal3, "hard"), nil))
}

func TestAStoryFullOfErrorsEndsAsItShould(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, withClock)
			check := s.escalation()
			c := s.start()
			s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(2)))
			c.Trouble(faults.Trouble{Seed: seed, Names: []string{s.namespace}, Chance: 0.25, Reads: true})
			s.escalates()
			met := map[faults.Fault]int{}
			for _, w := range c.AllWrites() {
				met[w.Fault]++
			}
			t.Log("writes by what they met:", met)
			s.Expect(met).To(HaveKey(Not(BeEmpty())), "there was trouble")
			c.Trouble(faults.Trouble{})
			s.ends(check)
			createdOnce(s, c)
		})
	}
}

// TestTwoLeadersAtOnceEscalateOnce: one of them is always a little behind.
func TestTwoLeadersAtOnceEscalateOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, withClock)
	check := s.escalation()
	one, two := s.start(), s.start()
	two.Watches().Lag(1, heldMachines)
	s.escalates()
	two.Watches().Release()
	s.ends(check)
	createdOnce(s, one, two)
}

// TestTwoLeadersAtOnceMarkNoMoreThanOne: one of them has not heard who was marked, and would take somebody else.
func TestTwoLeadersAtOnceMarkNoMoreThanOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.machine(name)
	}
	check := s.check("workers", atOnce(1))
	one, two := s.start(), s.start()
	s.Eventually(get(s, check)).Should(WithTransform(healthy, BeEquivalentTo(4)))
	one.settle()
	two.settle()
	two.Watches().Hold(heldMachines)
	isMarked := func() []string {
		var names []string
		for _, m := range s.machines() {
			if says(clusterv1.MachineOwnerRemediatedCondition)(&m) == marked {
				names = append(names, m.Name)
			}
		}
		return names
	}
	s.fails("m-2")
	s.Eventually(isMarked).Should(Equal([]string{"m-2"}))
	// What the status says by now may be of either of them.
	one.pass()
	// The one who knows says no more. The others have been ill for longer, and come first where there is a place.
	one.Crash()
	for _, name := range []string{"m-1", "m-3", "m-4"} {
		s.ready(name, corev1.ConditionUnknown, time.Hour)
	}
	for range 3 {
		two.pass()
		s.Expect(isMarked()).To(Equal([]string{"m-2"}))
	}
	two.Watches().Release()
	two.settle()
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
			s := newStage(t)
			s.audited()
			s.machine("m-1")
			s.machine("m-2")
			s.check("workers", by(s.template(remediator.Metal3, "soft")), atOnce(1))
			c := s.start()
			c.settle()
			// One has gone through it all, so that everything is being watched and the check has its finalizer.
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.requested(remediator.Metal3, "m-1")
			c.settle()
			s.Expect(starts(c)).To(Equal([]string{"create m-1"}))
			c.Watches().Hold(held...)
			s.recovers("m-1")
			s.ready("m-2", corev1.ConditionUnknown, 10*time.Minute)
			for range 3 {
				c.pass()
			}
			s.Expect(starts(c)).To(Or(Equal([]string{"create m-1", "delete m-1"}), Equal([]string{"create m-1", "delete m-1", "create m-2"})))
			c.Watches().Release()
			s.Eventually(func() any {
				s.nudge()
				return s.request(remediator.Metal3, "m-2")()
			}, suspense).ShouldNot(BeNil(), "the next has its turn")
			c.settle()
			s.Expect(starts(c)).To(Equal([]string{"create m-1", "delete m-1", "create m-2"}))
		})
	}
}

// TestAnOwnerWhoIsNotHeardYetIsNotOverwritten: the Machine has the owner's words, and the cache has not.
func TestAnOwnerWhoIsNotHeardYetIsNotOverwritten(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.audited()
	m := s.sick("m-1")
	check := s.check("workers")
	c := s.start()
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	c.settle()
	c.Watches().Hold(heldMachines)
	s.ownerSays(m, clusterv1.MachineSetMachineRemediationDeferredReason)
	s.Eventually(func() int { return c.Watches().HeldBack(heldMachines) }).Should(BeNumerically(">=", 1))
	deferred := "False " + clusterv1.MachineSetMachineRemediationDeferredReason
	s.ready("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(get(s, check)).Should(WithTransform(said("m-1"), ContainSubstring("status False")), "it has judged the Node as it is")
	c.pass()
	c.pass()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(Equal(deferred))
	c.Watches().Release()
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(Equal(deferred))
	s.Expect(annotations(m)).To(HaveKey(remedyv1.MarkedByAnnotation))
}

// TestACheckThatHasChangedUnheardBeginsNothing: it was deleted, observes, or looks after others, and the cache does not know.
func TestACheckThatHasChangedUnheardBeginsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage, check *remedyv1.MachineHealthCheck){
		"it is deleted": func(s *stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
		},
		"it observes":    func(s *stage, check *remedyv1.MachineHealthCheck) { s.observes(check) },
		"others are its": func(s *stage, check *remedyv1.MachineHealthCheck) { s.looksAfterOthers(check) },
	} {
		for kind, template := range map[string]bool{"with requests": true, "with marks": false} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.audited()
				// One is being remediated, so that all is prepared for more.
				s.sick("m-0")
				m := s.machine("m-1")
				check := s.check("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
					if template {
						by(s.template(remediator.Metal3, "soft"))(spec)
					}
				})
				c := s.start()
				s.Eventually(get(s, check)).Should(WithTransform(holds("m-0"), Equal("Remediating ")))
				s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
				c.settle()
				c.Watches().Hold(heldChecks)
				change(s, check)
				s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
				c.nudged(3)
				nothing := func() {
					s.Expect(starts(c)).ToNot(ContainElement("create m-1"))
					s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
				}
				nothing()
				c.Watches().Release()
				c.settle()
				nothing()
			})
		}
	}
}

// nudged lets the controller look so many times at the check that it knows, which may be gone for everybody else.
func (c *controller) nudged(times int) {
	c.s.t.Helper()
	for range times {
		before := c.passesOf("workers").Load()
		c.s.nudge()
		c.s.Eventually(func() int64 { return c.passesOf("workers").Load() }).Should(BeNumerically(">", before))
	}
}

func (s *stage) observes(check *remedyv1.MachineHealthCheck) {
	s.t.Helper()
	s.change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
}

func (s *stage) looksAfterOthers(check *remedyv1.MachineHealthCheck) {
	s.t.Helper()
	s.change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
}

// untilQuiet is what has happened before the story begins.
func (s *stage) untilQuiet() {
	s.t.Helper()
	c, err := s.startAs(faults.Start(s.ctx), s.user())
	s.Expect(err).ToNot(HaveOccurred())
	defer c.stop()
	s.Expect(c.quiet(s.ctx)).To(Succeed())
}
