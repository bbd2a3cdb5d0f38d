// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"fmt"
	"slices"
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
// the next event. It wakes them more slowly than they reconcile: a wake-up can change a check, and its write conflicts.
func wakeUntil(s *stage.Stage, done func() bool) {
	s.T.Helper()
	wakeWhile(s, remediator.Hangs, done)
}

// wakeWhile is wakeUntil while the remediators of the second step have this outcome.
func wakeWhile(s *stage.Stage, outcome remediator.Outcome, done func() bool) {
	s.T.Helper()
	s.Eventually(func() bool {
		s.Wake()
		for _, soft := range []remediator.Kind{remediator.Example, remediator.FenceAgents} {
			s.Remediate(soft, remediator.Fails)
		}
		for _, hard := range []remediator.Kind{remediator.Metal3, remediator.SelfNode} {
			s.Remediate(hard, outcome)
		}
		return done()
	}).WithPolling(time.Second).Should(BeTrue(), func() string { return describe(s) })
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
	for _, kind := range []remediator.Kind{remediator.Example, remediator.FenceAgents, remediator.Metal3, remediator.SelfNode} {
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
	for _, check := range s.NodeChecks() {
		fmt.Fprintln(&b, check.Name, check.DeletionTimestamp, check.Finalizers, check.Status.UnhealthyTargets)
	}
	return b.String()
}

// runEscalation lets two targets go from the first template to the second one, Machines also to owner remediation, and to recovery.
func runEscalation(s *kindStage, check *kindCheck) {
	s.T.Helper()
	names := []string{"m-1", "m-2"}
	all := func(match func(name string) bool) func() bool {
		return func() bool { return !slices.ContainsFunc(names, func(name string) bool { return !match(name) }) }
	}
	machines := func(kind, value string) bool {
		return stage.Count(s.MachineConditions(kind), value) == len(names) || s.ofNodes
	}
	for _, name := range names {
		s.FailNode(name)
	}
	wakeUntil(s.Stage, func() bool { return len(s.Requests(s.hard)) == 2 })
	s.Expect(s.Requests(s.soft)).To(BeEmpty(), "the request of the step before no longer exists")
	if !s.ofNodes {
		s.Clock.Step(11 * time.Minute)
		wakeUntil(s.Stage, func() bool { return machines(clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested) })
		wakeUntil(s.Stage, all(func(name string) bool { return s.target(name).GetAnnotations()[remedyv1.MarkedByAnnotation] != "" }))
	}
	for _, name := range names {
		s.SetReady(name, corev1.ConditionTrue, 0)
	}
	wakeWhile(s.Stage, remediator.Succeeds, func() bool {
		return machines(clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy) && check.healthy() == len(names) &&
			all(func(name string) bool { return s.target(name).GetAnnotations()[remedyv1.TriedAnnotation] == "" })()
	})
}

// deleteCheck deletes the check and waits until it has cleaned up.
func deleteCheck(s *kindStage, check *kindCheck) {
	s.T.Helper()
	s.Expect(s.Admin.Delete(s.Ctx, check.Object)).To(Succeed())
	wakeWhile(s.Stage, remediator.Succeeds, func() bool {
		// Failed calls are retried after a delay.
		s.Clock.Step(time.Minute)
		return len(s.Checks())+len(s.NodeChecks()) == 0
	})
	for _, name := range []string{"m-1", "m-2"} {
		s.Expect(s.target(name).GetAnnotations()).ToNot(HaveKey(ContainSubstring(remedyv1.Prefix)), "no annotation is left")
	}
}

// createEscalation creates a check with steps of all kinds, and two healthy targets.
func createEscalation(s *kindStage) *kindCheck {
	s.T.Helper()
	s.Record()
	s.createTargets("m-1", "m-2")
	return s.createCheck(inSteps(s.soft, s.hard), func(set *settings) { set.ownerLast = !s.ofNodes })
}

// A quarter of all calls of the API server fail; with Nodes, a quarter of all writes. Failed reads in the cluster of the Nodes are an
// outage, which ends by the real clock.
func TestEscalation_RandomErrors_Completes(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				check := createEscalation(s)
				c := s.Start()
				s.Eventually(check.healthy).Should(Equal(2))
				c.Trouble(faults.Trouble{Seed: seed, Names: []string{s.Namespace}, Chance: 0.25, Reads: !s.ofNodes})
				runEscalation(s, check)
				byFault := map[faults.Fault]int{}
				for _, w := range c.AllWrites() {
					byFault[w.Fault]++
				}
				s.T.Log("writes by fault:", byFault)
				s.Expect(byFault).To(HaveKey(Not(BeEmpty())), "some writes have failed")
				c.Trouble(faults.Trouble{})
				deleteCheck(s, check)
				expectCreatedOnce(s.Stage, c)
			}, stage.WithClock)
		})
	}
}

// The cache of the second leader is always one event behind.
func TestTwoLeaders_OneLags_EscalateOnce(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		check := createEscalation(s)
		first, second := s.Start(), s.Start()
		second.Watches().Lag(1, s.targets)
		runEscalation(s, check)
		second.Watches().Release()
		deleteCheck(s, check)
		expectCreatedOnce(s.Stage, first, second)
	}, stage.WithClock)
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
	checksResource   = "machinehealthchecks.remedy.cluster.x-k8s.io"
)

// The watch of the requests lags, and the check is reconciled several times.
func TestStaleCache_RequestNotCached_IsCreatedOnce(t *testing.T) {
	t.Parallel()
	for name, resources := range map[string]func(s *kindStage) []string{
		"requests":                      func(s *kindStage) []string { return []string{s.requests} },
		"requests and checks":           func(s *kindStage) []string { return []string{s.requests, s.checks} },
		"requests, checks and Machines": func(s *kindStage) []string { return []string{s.requests, s.checks, machinesResource} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachKind(t, func(s *kindStage) {
				s.Record()
				s.createTargets("m-1", "m-2")
				check := s.createCheck(atMost(1))
				c := s.Start()
				c.WaitIdle()
				// The first target is remediated completely, so all kinds are watched and the check has its finalizer.
				s.FailNode("m-1")
				s.waitRequest("m-1")
				c.WaitIdle()
				s.Expect(s.requestWrites(c)).To(Equal([]string{"create m-1"}))
				c.Watches().Hold(resources(s)...)
				s.recover("m-1")
				s.FailNode("m-2")
				reconcileTimes(s, c, check.GetName(), 6)
				s.Expect(s.requestWrites(c)).To(BeElementOf(
					[]string{"create m-1", "delete m-1"}, []string{"create m-1", "delete m-1", "create m-2"}))
				c.Watches().Release()
				s.Eventually(func() any {
					s.Wake()
					return s.request("m-2")()
				}, stage.OutcomeTimeout).ShouldNot(BeNil(), "the next target is remediated")
				c.WaitIdle()
				s.Expect(s.requestWrites(c)).To(Equal([]string{"create m-1", "delete m-1", "create m-2"}))
			})
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
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
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

// The check was deleted, or set to Observe mode, or selects other targets, and the cache does not show it.
func TestStaleCache_CheckChanged_StartsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*kindCheck){
		"deleted": (*kindCheck).delete, "observe mode": (*kindCheck).observe, "other selector": (*kindCheck).selectOthers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachRemediation(t, func(s *kindStage) {
				s.Record()
				// One target is being remediated, so no other write has to come before the next remediation.
				s.createUnhealthy("m-0")
				s.createTargets("m-1")
				check := s.createCheck()
				c := s.Start()
				s.Eventually(check.decision("m-0")).Should(Equal("Remediating "))
				s.Eventually(check.healthy).Should(Equal(1))
				c.WaitIdle()
				c.Watches().Hold(s.checks)
				change(check)
				s.FailNode("m-1")
				reconcileTimes(s, c, check.GetName(), 3)
				expectNothing := func() {
					s.Expect(s.requestWrites(c)).ToNot(ContainElement("create m-1"))
					s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)).ToNot(HaveKeyWithValue("m-1", Not(BeEmpty())))
				}
				expectNothing()
				c.Watches().Release()
				c.WaitIdle()
				expectNothing()
			})
		})
	}
}

// reconcileTimes triggers so many reconciles of a check that the cache still has. It may no longer exist in the API server. A
// NodeHealthCheck of the management cluster has no Cluster, so a label of a Node triggers them.
func reconcileTimes(s *kindStage, c *stage.Instance, check string, times int) {
	s.T.Helper()
	for i := range times {
		before := c.Reconciles(check).Load()
		if s.ofNodes {
			s.ChangeNode("m-1", func(node *corev1.Node) { node.Labels["test.invalid/reconcile"] = fmt.Sprint(i) })
		}
		s.Wake()
		s.Eventually(func() int64 { return c.Reconciles(check).Load() }).Should(BeNumerically(">", before))
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
