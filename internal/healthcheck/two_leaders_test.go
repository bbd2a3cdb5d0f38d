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

// wakeUntil waits until a condition is true, while it wakes all checks and remediators fail: a failed call is retried with backoff, or at
// the next event.
func wakeUntil(s *stage.Stage, done func() bool) {
	s.T.Helper()
	s.Eventually(func() bool {
		s.Wake()
		s.Remediate(remediator.FenceAgents, remediator.Fails)
		s.Remediate(remediator.Metal3, remediator.Hangs)
		return done()
	}).Should(BeTrue(), func() string { return describe(s) })
}

// describe returns the state of all objects for the message of a test that fails.
func describe(s *stage.Stage) string {
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

// runEscalation lets two Machines go from the first template to the second one, to owner remediation, and to recovery.
func runEscalation(s *stage.Stage) {
	s.T.Helper()
	names := []string{"m-1", "m-2"}
	all := func(match func(m *clusterv1.Machine) bool) func() bool {
		return func() bool {
			for _, name := range names {
				m := &clusterv1.Machine{}
				s.Expect(s.Admin.Get(s.Ctx, stage.Key(s.Namespace, name), m)).To(Succeed())
				if !match(m) {
					return false
				}
			}
			return true
		}
	}
	for _, name := range names {
		s.SetReady(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	wakeUntil(s, func() bool { return len(s.Requests(remediator.Metal3)) == 2 })
	s.Expect(s.Requests(remediator.FenceAgents)).To(BeEmpty(), "the request of the step before no longer exists")
	s.Clock.Step(11 * time.Minute)
	wakeUntil(s, all(func(m *clusterv1.Machine) bool {
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(m) == stage.OwnerRequested
	}))
	s.Expect(s.Requests(remediator.Metal3)).To(BeEmpty(), "the request of the step before no longer exists")
	wakeUntil(s, all(func(m *clusterv1.Machine) bool { return m.Annotations[remedyv1.MarkedByAnnotation] != "" }))
	for _, name := range names {
		s.SetReady(name, corev1.ConditionTrue, 0)
	}
	wakeUntil(s, all(func(m *clusterv1.Machine) bool {
		return stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m) == stage.IsHealthy &&
			m.Annotations[remedyv1.TriedAnnotation] == ""
	}))
}

// deleteCheck deletes the check and waits until it has cleaned up.
func deleteCheck(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	wakeUntil(s, func() bool {
		// Failed calls are retried after a delay.
		s.Clock.Step(time.Minute)
		return len(s.Checks()) == 0
	})
	for _, m := range s.Machines() {
		s.Expect(stage.Annotations(&m)).To(BeEmpty(), "no annotation is left")
	}
}

// createEscalation creates a check with steps of all kinds, and two healthy Machines.
func createEscalation(s *stage.Stage) *remedyv1.MachineHealthCheck {
	s.T.Helper()
	s.Record()
	s.CreateMachine("m-1")
	s.CreateMachine("m-2")
	return s.CreateCheck(
		"workers",
		stage.BySteps(s.CreateTemplate(remediator.FenceAgents, "soft"), s.CreateTemplate(remediator.Metal3, "hard"), nil),
	)
}

// A quarter of all calls of the API server fail.
func TestEscalation_RandomErrors_Completes(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithClock)
			check := createEscalation(s)
			c := s.Start()
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(2)))
			c.Trouble(faults.Trouble{Seed: seed, Names: []string{s.Namespace}, Chance: 0.25, Reads: true})
			runEscalation(s)
			byFault := map[faults.Fault]int{}
			for _, w := range c.AllWrites() {
				byFault[w.Fault]++
			}
			t.Log("writes by fault:", byFault)
			s.Expect(byFault).To(HaveKey(Not(BeEmpty())), "some writes have failed")
			c.Trouble(faults.Trouble{})
			deleteCheck(s, check)
			expectCreatedOnce(s, c)
		})
	}
}

// The cache of the second leader is always one event behind.
func TestTwoLeaders_OneLags_EscalateOnce(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	check := createEscalation(s)
	first, second := s.Start(), s.Start()
	second.Watches().Lag(1, machinesResource)
	runEscalation(s)
	second.Watches().Release()
	deleteCheck(s, check)
	expectCreatedOnce(s, first, second)
}

// The second leader has not observed which Machine is being remediated, and would remediate another one.
func TestTwoLeaders_StaleMachines_KeepMaxInFlight(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	for _, name := range []string{"m-1", "m-2", "m-3", "m-4"} {
		s.CreateMachine(name)
	}
	check := s.CreateCheck("workers", stage.MaxInFlight(1))
	first, second := s.Start(), s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(4)))
	first.WaitIdle()
	second.WaitIdle()
	second.Watches().Hold(machinesResource)
	inRemediation := func() []string {
		var names []string
		for _, m := range s.Machines() {
			if stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m) == stage.OwnerRequested {
				names = append(names, m.Name)
			}
		}
		return names
	}
	s.FailNode("m-2")
	s.Eventually(inRemediation).Should(Equal([]string{"m-2"}))
	// Either leader can have written the status, so the test does not read it.
	first.ReconcileAll()
	// The leader with the current cache crashes. The other Machines have been unhealthy for longer, so they are first in line for a free
	// place.
	first.Crash()
	for _, name := range []string{"m-1", "m-3", "m-4"} {
		s.SetReady(name, corev1.ConditionUnknown, time.Hour)
	}
	for range 3 {
		second.ReconcileAll()
		s.Expect(inRemediation()).To(Equal([]string{"m-2"}))
	}
	second.Watches().Release()
	second.WaitIdle()
	s.Expect(inRemediation()).To(Equal([]string{"m-2"}))
}

const (
	machinesResource = "machines.cluster.x-k8s.io"
	requestsResource = "metal3remediations.infrastructure.cluster.x-k8s.io"
	checksResource   = "machinehealthchecks.remedy.cluster.x-k8s.io"
)

// The watch of the requests lags, and the check is reconciled several times.
func TestStaleCache_RequestNotCached_IsCreatedOnce(t *testing.T) {
	t.Parallel()
	for name, resources := range map[string][]string{
		"requests":                      {requestsResource},
		"requests and checks":           {requestsResource, checksResource},
		"requests, checks and Machines": {requestsResource, checksResource, machinesResource},
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
			// The first Machine is remediated completely, so all kinds are watched and the check has its finalizer.
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitRequest(remediator.Metal3, "m-1")
			c.WaitIdle()
			s.Expect(requestWrites(c)).To(Equal([]string{"create m-1"}))
			c.Watches().Hold(resources...)
			recoverMachine(s, "m-1")
			s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
			for range 3 {
				c.ReconcileAll()
			}
			s.Expect(requestWrites(c)).
				To(Or(Equal([]string{"create m-1", "delete m-1"}), Equal([]string{"create m-1", "delete m-1", "create m-2"})))
			c.Watches().Release()
			s.Eventually(func() any {
				s.Wake()
				return s.Request(remediator.Metal3, "m-2")()
			}, stage.OutcomeTimeout).ShouldNot(BeNil(), "the next Machine is remediated")
			c.WaitIdle()
			s.Expect(requestWrites(c)).To(Equal([]string{"create m-1", "delete m-1", "create m-2"}))
		})
	}
}

// The owner has set a reason on the Machine, and the cache does not show it.
func TestStaleCache_OwnerAnswered_ReasonIsKept(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.Record()
	m := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	c.WaitIdle()
	c.Watches().Hold(machinesResource)
	s.SetOwnerAnswer(m, clusterv1.MachineSetMachineRemediationDeferredReason)
	s.Eventually(func() int { return c.Watches().BlockedBack(machinesResource) }).Should(BeNumerically(">=", 1))
	deferred := "False " + clusterv1.MachineSetMachineRemediationDeferredReason
	s.SetReady("m-1", corev1.ConditionFalse, 11*time.Minute)
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(messageOfTarget("m-1"), ContainSubstring("status False")), "the current Node is evaluated")
	c.ReconcileAll()
	c.ReconcileAll()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(Equal(deferred))
	c.Watches().Release()
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(Equal(deferred))
	s.Expect(stage.Annotations(m)).To(HaveKey(remedyv1.MarkedByAnnotation))
}

// The check was deleted, or set to Observe mode, or selects other Machines, and the cache does not show it.
func TestStaleCache_CheckChanged_StartsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck){
		"deleted": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
		},
		"observe mode":   func(s *stage.Stage, check *remedyv1.MachineHealthCheck) { setObserveMode(s, check) },
		"other selector": func(s *stage.Stage, check *remedyv1.MachineHealthCheck) { selectOtherPool(s, check) },
	} {
		for remediation, template := range map[string]bool{"external remediation": true, "owner remediation": false} {
			t.Run(name+", "+remediation, func(t *testing.T) {
				t.Parallel()
				s := stage.New(t)
				s.Record()
				// One Machine is being remediated, so no other write has to come before the next remediation.
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
				c.Watches().Hold(checksResource)
				change(s, check)
				s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
				reconcileTimes(c, 3)
				expectNothing := func() {
					s.Expect(requestWrites(c)).ToNot(ContainElement("create m-1"))
					s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
				}
				expectNothing()
				c.Watches().Release()
				c.WaitIdle()
				expectNothing()
			})
		}
	}
}

// reconcileTimes triggers so many reconciles of a check that the cache still has. It may no longer exist in the API server.
func reconcileTimes(c *stage.Instance, times int) {
	c.Stage.T.Helper()
	for range times {
		before := c.Reconciles("workers").Load()
		c.Stage.Wake()
		c.Stage.Eventually(func() int64 { return c.Reconciles("workers").Load() }).Should(BeNumerically(">", before))
	}
}

func setObserveMode(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
}

func selectOtherPool(s *stage.Stage, check *remedyv1.MachineHealthCheck) {
	s.T.Helper()
	s.Change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
}

// runUntilIdle runs an instance before the scenario starts.
func runUntilIdle(s *stage.Stage) {
	s.T.Helper()
	c, err := s.StartAs(faults.Start(s.Ctx), s.User())
	s.Expect(err).ToNot(HaveOccurred())
	defer c.Stop()
	s.Expect(c.RunUntilIdle(s.Ctx)).To(Succeed())
}
