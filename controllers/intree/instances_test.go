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

// These tests have several instances with a watch filter each.

// ofInstance labels a check for the instance with this watch filter.
func ofInstance(name string) func(*clusterv1.MachineHealthCheck) {
	return func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: name}
	}
}

// The instance that has adopted a check releases it when the label selects another instance. Otherwise the check would stay paused, and no
// controller would reconcile it.
func TestInstances_LabelChanged_CheckIsReleased(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck(
		"workers",
		byNewTemplate(s),
		func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} },
	)
	s.Start()
	s.CompleteAdoption(check)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer)))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(And(
		WithTransform(
			stage.InTreeCondition(remedyv1.AdoptedCondition),
			BeEmpty(),
		),
		HaveField("Annotations", Not(HaveKey(clusterv1.PausedAnnotation))),
		HaveField("Finalizers", BeEmpty()),
	),
		"the first instance releases the check")
	s.SetInTreePaused(check, false)

	// The first instance adopts the check again when the label changes back.
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "a" })
	s.CompleteAdoption(check)
}

// The check is paused for another instance of Remedy.
func TestInstances_CheckOfOtherInstance_IsNotWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	other := s.CreateInTreeCheck("check-b", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "b"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause, remedyv1.AdoptionIDAnnotation: "x/b"}
	})
	s.SetInTreePaused(other, true)
	own := s.CreateInTreeCheck(
		"check-a",
		func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} },
	)
	before := other.ResourceVersion
	s.Start()
	s.CompleteAdoption(own)
	s.Expect(stage.Get(s, other)().ResourceVersion).To(Equal(before))
}

// The check is paused for an instance that restarts and no longer selects it.
func TestInstances_LabelChangedWhileDown_CheckIsReleased(t *testing.T) {
	t.Parallel()
	for name, filter := range map[string]string{"instance with filter": "a", "instance without filter": ""} {
		t.Run(name, func(t *testing.T) {
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
			// No check is monitored now, so the instance does not connect to the cluster.
			c.NeverIdle = true
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(And(
				WithTransform(
					stage.PausedAnnotation,
					BeEmpty(),
				),
				WithTransform(remedyAnnotations, BeEmpty()),
				WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), BeEmpty()),
			),
				"the restarted instance releases the check")
		})
	}
}

// The instance that the label selects now records its name. Otherwise the earlier instance would release the check when it restarts.
func TestInstances_LabelChangedWhileDown_NewInstanceIsRecorded(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers", ofInstance("a"))
	c := s.Start()
	s.CompleteAdoption(check)
	c.WaitIdle()
	c.Crash()
	c.Stop()
	id := check.Annotations[remedyv1.AdoptionIDAnnotation]
	s.Expect(id).To(HaveSuffix("/a"))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })

	s.WatchFilter = "b"
	s.Start()
	s.Eventually(stage.Get(s, check)).Should(HaveField("Annotations", HaveKeyWithValue(remedyv1.AdoptionIDAnnotation, id[:len(id)-1]+"b")))
	s.WatchFilter = "a"
	c = s.Start()
	c.NeverIdle = true
	c.ReconcileAll()
	s.Expect(stage.PausedAnnotation(stage.Get(s, check)())).To(Equal(remedyv1.Pause))
}

// The check is deleted when no instance selects it any more. Its finalizer would block the deletion forever.
func TestInstances_CheckDeletedWhileDown_IsCleanedUp(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.WatchFilter = "a" })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers", byNewTemplate(s), ofInstance("a"))
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
	s.Eventually(s.InTreeChecks, stage.OutcomeTimeout).Should(BeEmpty(), "the deletion completes")
	request := s.Request(remediator.Metal3, "m-1")()
	s.Expect(request == nil || request.GetDeletionTimestamp() != nil).To(BeTrue(), "no controller would complete the request")
}
