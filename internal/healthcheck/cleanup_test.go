// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// TestACheckIsKeptUntilItsLastMarkIsTakenBack deletes a check whose cache has not brought the mark yet that was given just before. An owner
// would delete the Machine long after.
func TestACheckIsKeptUntilItsLastMarkIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, alsoGone := range map[string]bool{"beside its Cluster": false, "when the Cluster is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateMachine("m-1")
			check := s.CreateCheck("workers")
			c := s.Start()
			c.NeverIdle = alsoGone
			s.Eventually(stage.Get(s, m)).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition), Equal(stage.IsHealthy)))
			c.WaitIdle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.Eventually(stage.Get(s, m)).
				Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
			if alsoGone {
				s.Expect(s.Admin.Delete(s.Ctx, s.Cluster)).To(Succeed())
			}
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			before := c.Reconciles("workers").Load()
			s.Eventually(func() bool { return c.Reconciles("workers").Load() > before+2 || len(s.Checks()) == 0 }).Should(BeTrue())
			s.Expect(s.Checks()).To(ConsistOf(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer))), "there is something to clean up")
			c.Watches().Release()
			s.Eventually(s.Checks).Should(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m)).To(BeEmpty())
			s.Expect(stage.Annotations(m)).ToNot(HaveKey(HavePrefix(remedyv1.Prefix)))
		})
	}
}

// TestACheckThatDoesNotGoTellsWhy has a remediator that does not let go of its request.
func TestACheckThatDoesNotGoTellsWhy(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	s.CreateMachine("m-2")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	request := s.WaitRequest(remediator.Metal3, "m-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	s.SetRequestFinalizers(request, "example.com/keeper")
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.CheckMessage(remedyv1.ReadyCondition),
			ContainSubstring("There are requests for m-1 (its deletion was asked for at 2")))
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False CleaningUp"))
	c.WaitIdle()
	s.SetRequestFinalizers(request)
	s.Eventually(s.Checks).Should(BeEmpty())
}

// TestACheckThatWaitsForARightTellsWhich: the check may have requests of a kind that it does not name any more, from before the start. The
// right to that kind is taken away later, and its requests are still there. Checks of other tests may have requests of it just as well: it
// runs alone.
func TestACheckThatWaitsForARightTellsWhich(t *testing.T) { //nolint:paralleltest // others would wait for that right, too.
	s := stage.New(t, stage.WithClock)
	kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
	s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	request := s.WaitRequest(remediator.Metal3, "m-1")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	c.Crash()
	c.Stop()
	// Its spec named that kind before.
	s.Annotate(
		check,
		remedyv1.RequestKindsAnnotation,
		stage.Get(s, check)().Annotations[remedyv1.RequestKindsAnnotation]+","+kind.Kind+"."+kind.Version+"."+kind.Group,
	)
	c = s.Start()
	c.NeverIdle = true
	watched := kind.Plural + "." + kind.Group
	s.Eventually(func() int { return c.Watches().Open(watched) }).Should(BeNumerically(">", 0))
	s.SetRequestFinalizers(request, "example.com/keeper")
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())

	s.Revoke(kind)
	says := func(words string) func() bool {
		return func() bool {
			c.Watches().Cut(watched)
			s.Advance(16 * time.Second)
			return strings.Contains(stage.CheckMessage(remedyv1.ReadyCondition)(stage.Get(s, check)()), words)
		}
	}
	s.Eventually(says("There may be requests that cannot be seen: SomeRemediation." + kind.Group + ": ")).Should(BeTrue())
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("False CleaningUp"))
	s.SetRequestFinalizers(request)
	s.Eventually(s.Request(remediator.Metal3, "m-1")).Should(BeNil())
	for range 10 {
		s.Clock.Step(16 * time.Second)
		c.ReconcileAll()
	}
	s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(stage.Get(s, check)())).To(Equal("False CleaningUp"))
	s.Expect(stage.CheckMessage(remedyv1.ReadyCondition)(check)).To(And(
		ContainSubstring(
			"The check is being deleted, and goes when nothing of it is left. "+
				"There may be requests that cannot be seen: SomeRemediation."+kind.Group+": ",
		),
		ContainSubstring("ClusterRole"),
		ContainSubstring("take the finalizer"),
	))

	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck {
		s.Advance(16 * time.Second)
		return s.Checks()
	}).Should(BeEmpty())
}
