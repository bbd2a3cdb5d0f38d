// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Several instances beside each other, each with a filter of its own.

// ofInstance lets an instance be the one to act for a check.
func ofInstance(name string) func(*clusterv1.MachineHealthCheck) {
	return func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: name}
	}
}

// TestACheckThatAnotherInstanceIsToActForIsGivenBack: whoever took it over knows that it was him. Otherwise it would stay paused, and
// nobody would look after it.
func TestACheckThatAnotherInstanceIsToActForIsGivenBack(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck(
		"workers",
		byTheirTemplate(s),
		func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} },
	)
	s.Start()
	s.CompleteAdoption(check)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer)))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(And(
		WithTransform(
			stage.InTreeCondition(remedyv1.TakenOverCondition),
			BeEmpty(),
		),
		HaveField("Annotations", Not(HaveKey(clusterv1.PausedAnnotation))),
		HaveField("Finalizers", BeEmpty()),
	),
		"whoever had it gives it back")
	s.SetInTreePaused(check, false)

	// Also if another process has taken it over.
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "a" })
	s.CompleteAdoption(check)
}

// TestACheckOfAnotherInstanceIsLeftAlone: it is paused for us, and it is not for us to say by whom.
func TestACheckOfAnotherInstanceIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	theirs := s.CreateInTreeCheck("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "b"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause, remedyv1.TakeOverIDAnnotation: "x/b"}
	})
	s.SetInTreePaused(theirs, true)
	ours := s.CreateInTreeCheck(
		"ours",
		func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} },
	)
	before := theirs.ResourceVersion
	s.Start()
	s.CompleteAdoption(ours)
	s.Expect(stage.Get(s, theirs)().ResourceVersion).To(Equal(before))
}

// TestALabelMayChangeWhileNobodyLooks: the check is paused for an instance that comes back and is not to act for it any more.
func TestALabelMayChangeWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	for before, filter := range map[string]string{"by an instance with a filter": "a", "by one that acted for all": ""} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = filter })
			s.CreateMachine("m-1")
			check := s.CreateInTreeCheck("workers", ofInstance("a"))
			c := s.Start()
			s.CompleteAdoption(check)
			c.WaitIdle()
			c.Crash()
			c.Stop()
			s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })

			s.WatchFilter = "a"
			c = s.Start()
			// It looks after nothing now, and so it does not connect to the cluster either.
			c.NeverIdle = true
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(And(
				WithTransform(
					stage.PausedAnnotation,
					BeEmpty(),
				),
				WithTransform(traces, BeEmpty()),
				WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), BeEmpty()),
			),
				"whoever comes back gives it back")
		})
	}
}

// TestACheckIsSignedByWhoActsForIt: otherwise whoever had it before would give it back as soon as he is there again.
func TestACheckIsSignedByWhoActsForIt(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers", ofInstance("a"))
	c := s.Start()
	s.CompleteAdoption(check)
	c.WaitIdle()
	c.Crash()
	c.Stop()
	id := check.Annotations[remedyv1.TakeOverIDAnnotation]
	s.Expect(id).To(HaveSuffix("/a"))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })

	s.WatchFilter = "b"
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(HaveField("Annotations", HaveKeyWithValue(remedyv1.TakeOverIDAnnotation, id[:len(id)-1]+"b")))
	s.WatchFilter = "a"
	c = s.Start()
	c.NeverIdle = true
	c.ReconcileAll()
	s.Expect(stage.PausedAnnotation(stage.Get(s, check)())).To(Equal(remedyv1.Pause))
}

// TestACheckMayBeDeletedWhileNobodyLooks: no instance acts for it any more, and it would never go.
func TestACheckMayBeDeletedWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers", byTheirTemplate(s), ofInstance("a"))
	c := s.Start()
	s.CompleteAdoption(check)
	s.WaitRequest(remediator.Metal3, "m-1")
	c.WaitIdle()
	c.Crash()
	c.Stop()
	s.Change(check, func() { delete(check.Labels, clusterv1.WatchLabel) })
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	c = s.Start()
	c.NeverIdle = true
	s.Eventually(s.InTreeChecks, stage.OutcomeTimeout).Should(BeEmpty(), "it goes all the same")
	left := s.Request(remediator.Metal3, "m-1")()
	s.Expect(left == nil || left.GetDeletionTimestamp() != nil).To(BeTrue(), "nobody would go on with it")
}
