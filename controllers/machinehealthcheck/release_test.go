// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// TestACheckIsKeptUntilItsLastMarkIsTakenBack deletes a check whose cache has not brought the mark yet that was given just before. An owner would
// delete the Machine long after.
func TestACheckIsKeptUntilItsLastMarkIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, alsoGone := range map[string]bool{"beside its Cluster": false, "when the Cluster is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			m := s.machine("m-1")
			check := s.check("workers")
			c := s.start()
			c.restless = alsoGone
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineHealthCheckSucceededCondition), Equal(isWell)))
			c.settle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			s.ready("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
			if alsoGone {
				s.Expect(s.admin.Delete(s.ctx, s.cluster)).To(Succeed())
			}
			s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
			before := c.passesOf("workers").Load()
			s.Eventually(func() bool { return c.passesOf("workers").Load() > before+2 || len(s.checks()) == 0 }).Should(BeTrue())
			s.Expect(s.checks()).To(ConsistOf(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer))), "there is something to clean up")
			c.Watches().Release()
			s.Eventually(s.checks).Should(BeEmpty())
			s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
			s.Expect(says(clusterv1.MachineHealthCheckSucceededCondition)(m)).To(BeEmpty())
			s.Expect(annotations(m)).ToNot(HaveKey(HavePrefix(remedyv1.Prefix)))
		})
	}
}

// TestACheckThatDoesNotGoTellsWhy has a remediator that does not let go of its request.
func TestACheckThatDoesNotGoTellsWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sick("m-1")
	s.machine("m-2")
	check := s.check("workers", byTemplate(s))
	c := s.start()
	request := s.requested(remediator.Metal3, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	s.keep(request, "example.com/keeper")
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	s.Eventually(get(s, check)).Should(WithTransform(message(remedyv1.ReadyCondition), ContainSubstring("There are requests for m-1 (its deletion was asked for at 2")))
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False CleaningUp"))
	c.settle()
	s.keep(request)
	s.Eventually(s.checks).Should(BeEmpty())
}

// TestACheckThatWaitsForARightTellsWhich: the check may have requests of a kind that it does not name any more, from before the start. The right to that
// kind is taken away later, and its requests are still there. Checks of other tests may have requests of it just as well: it runs alone.
func TestACheckThatWaitsForARightTellsWhich(t *testing.T) { //nolint:paralleltest // others would wait for that right, too.
	s := newStage(t, withClock)
	kind := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.sick("m-1")
	check := s.check("workers", byTemplate(s))
	c := s.start()
	request := s.requested(remediator.Metal3, "m-1")
	s.Eventually(get(s, check)).Should(WithTransform(holds("m-1"), Equal("Remediating ")))
	c.Crash()
	c.stop()
	// Its spec named that kind before.
	s.annotate(check, remedyv1.RequestKindsAnnotation, get(s, check)().Annotations[remedyv1.RequestKindsAnnotation]+","+kind.Kind+"."+kind.Version+"."+kind.Group)
	c = s.start()
	c.restless = true
	watched := kind.Plural + "." + kind.Group
	s.Eventually(func() int { return c.Watches().Open(watched) }).Should(BeNumerically(">", 0))
	s.keep(request, "example.com/keeper")
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())

	s.revoke(kind)
	says := func(words string) func() bool {
		return func() bool {
			c.Watches().Cut(watched)
			s.wait(16 * time.Second)
			return strings.Contains(message(remedyv1.ReadyCondition)(get(s, check)()), words)
		}
	}
	s.Eventually(says("There may be requests that cannot be seen: SomeRemediation." + kind.Group + ": ")).Should(BeTrue())
	s.Expect(tells(remedyv1.ReadyCondition)(check)).To(Equal("False CleaningUp"))
	s.keep(request)
	s.Eventually(s.request(remediator.Metal3, "m-1")).Should(BeNil())
	for range 10 {
		s.clock.Step(16 * time.Second)
		c.pass()
	}
	s.Expect(tells(remedyv1.ReadyCondition)(get(s, check)())).To(Equal("False CleaningUp"))
	s.Expect(message(remedyv1.ReadyCondition)(check)).To(And(
		ContainSubstring("The check is being deleted, and goes when nothing of it is left. There may be requests that cannot be seen: SomeRemediation."+kind.Group+": "),
		ContainSubstring("ClusterRole"), ContainSubstring("take the finalizer")))

	s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck {
		s.wait(16 * time.Second)
		return s.checks()
	}).Should(BeEmpty())
}
