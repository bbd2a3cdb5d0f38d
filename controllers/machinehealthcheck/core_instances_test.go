// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// Several instances beside each other, each with a filter of its own.

// ofInstance lets an instance be the one to act for a check.
func ofInstance(name string) func(*clusterv1.MachineHealthCheck) {
	return func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: name}
	}
}

// TestACheckThatAnotherInstanceIsToActForIsGivenBack: whoever took it over knows that it was him. Otherwise it would stay paused, and nobody would look
// after it.
func TestACheckThatAnotherInstanceIsToActForIsGivenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver, func(s *stage) { s.filter = "a" })
	s.sick("m-1")
	check := s.core("workers", byTheirTemplate(s), func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} })
	s.start()
	s.handedOver(check)
	s.Eventually(get(s, check)).Should(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer)))
	s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(get(s, check), suspense).Should(And(
		WithTransform(coreTells(remedyv1.TakenOverCondition), BeEmpty()), HaveField("Annotations", Not(HaveKey(clusterv1.PausedAnnotation))), HaveField("Finalizers", BeEmpty())),
		"whoever had it gives it back")
	s.theySay(check, false)

	// Also if another process has taken it over.
	s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "a" })
	s.handedOver(check)
}

// TestACheckOfAnotherInstanceIsLeftAlone: it is paused for us, and it is not for us to say by whom.
func TestACheckOfAnotherInstanceIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver, func(s *stage) { s.filter = "a" })
	s.machine("m-1")
	theirs := s.core("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "b"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause, remedyv1.TakeOverIDAnnotation: "x/b"}
	})
	s.theySay(theirs, true)
	ours := s.core("ours", func(check *clusterv1.MachineHealthCheck) { check.Labels = map[string]string{clusterv1.WatchLabel: "a"} })
	before := theirs.ResourceVersion
	s.start()
	s.handedOver(ours)
	s.Expect(get(s, theirs)().ResourceVersion).To(Equal(before))
}

// TestALabelMayChangeWhileNobodyLooks: the check is paused for an instance that comes back and is not to act for it any more.
func TestALabelMayChangeWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	for before, filter := range map[string]string{"by an instance with a filter": "a", "by one that acted for all": ""} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, withTakeOver, func(s *stage) { s.filter = filter })
			s.machine("m-1")
			check := s.core("workers", ofInstance("a"))
			c := s.start()
			s.handedOver(check)
			c.settle()
			c.Crash()
			c.stop()
			s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })

			s.filter = "a"
			c = s.start()
			// It looks after nothing now, and so it does not connect to the cluster either.
			c.restless = true
			s.Eventually(get(s, check), suspense).Should(And(
				WithTransform(pausedBy, BeEmpty()), WithTransform(traces, BeEmpty()), WithTransform(coreTells(remedyv1.TakenOverCondition), BeEmpty())),
				"whoever comes back gives it back")
		})
	}
}

// TestACheckIsSignedByWhoActsForIt: otherwise whoever had it before would give it back as soon as he is there again.
func TestACheckIsSignedByWhoActsForIt(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver, func(s *stage) { s.filter = "a" })
	s.machine("m-1")
	check := s.core("workers", ofInstance("a"))
	c := s.start()
	s.handedOver(check)
	c.settle()
	c.Crash()
	c.stop()
	id := check.Annotations[remedyv1.TakeOverIDAnnotation]
	s.Expect(id).To(HaveSuffix("/a"))
	s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })

	s.filter = "b"
	s.start()
	s.Eventually(get(s, check)).Should(HaveField("Annotations", HaveKeyWithValue(remedyv1.TakeOverIDAnnotation, id[:len(id)-1]+"b")))
	s.filter = "a"
	c = s.start()
	c.restless = true
	c.pass()
	s.Expect(pausedBy(get(s, check)())).To(Equal(remedyv1.Pause))
}

// TestACheckMayBeDeletedWhileNobodyLooks: no instance acts for it any more, and it would never go.
func TestACheckMayBeDeletedWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver, func(s *stage) { s.filter = "a" })
	s.sick("m-1")
	check := s.core("workers", byTheirTemplate(s), ofInstance("a"))
	c := s.start()
	s.handedOver(check)
	s.requested(remediator.Metal3, "m-1")
	c.settle()
	c.Crash()
	c.stop()
	s.change(check, func() { delete(check.Labels, clusterv1.WatchLabel) })
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	c = s.start()
	c.restless = true
	s.Eventually(s.cores, suspense).Should(BeEmpty(), "it goes all the same")
	left := s.request(remediator.Metal3, "m-1")()
	s.Expect(left == nil || left.GetDeletionTimestamp() != nil).To(BeTrue(), "nobody would go on with it")
}
