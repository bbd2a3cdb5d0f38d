// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// A check is deleted before its cache shows the owner remediation that it has just requested. Without the cleanup, the owner would delete
// the Machine later.
func TestCleanup_StaleMachineCache_KeepsTheFinalizer(t *testing.T) {
	t.Parallel()
	for name, clusterDeleted := range map[string]bool{"Cluster exists": false, "Cluster deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateMachine("m-1")
			check := s.CreateCheck("workers")
			c := s.Start()
			c.NeverIdle = clusterDeleted
			s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
			c.WaitIdle()
			c.Watches().Hold("machines.cluster.x-k8s.io")
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
			if clusterDeleted {
				s.Expect(s.Admin.Delete(s.Ctx, s.Cluster)).To(Succeed())
			}
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			before := c.Reconciles("workers").Load()
			s.Eventually(func() bool { return c.Reconciles("workers").Load() > before+2 || len(s.Checks()) == 0 }).Should(BeTrue())
			s.Expect(s.Checks()).To(ConsistOf(HaveField("Finalizers", ConsistOf(remedyv1.CleanupFinalizer))), "the check has something to clean up")
			c.Watches().Release()
			s.Eventually(s.Checks).Should(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m)).To(BeEmpty())
			s.Expect(stage.Annotations(m)).ToNot(HaveKey(HavePrefix(remedyv1.Prefix)))
		})
	}
}

// A remediator does not remove its finalizer from the request. The check that is being deleted reports that it waits for it.
func TestCleanup_RequestWithFinalizer_IsReported(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(s *kindStage) {
		s.createUnhealthy("m-1")
		s.createTargets("m-2")
		check := s.createCheck()
		c := s.Start()
		request := s.waitRequest("m-1")
		s.Eventually(check.decision("m-1")).Should(Equal("Remediating "))
		s.SetRequestFinalizers(request, "example.com/keeper")
		s.Expect(s.Admin.Delete(s.Ctx, check.Object)).To(Succeed())
		s.Eventually(check.status).Should(HaveField("Conditions", ContainElement(And(
			HaveField("Type", remedyv1.ReadyCondition), HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", "CleaningUp"),
			HaveField("Message", ContainSubstring("Requests exist for "+s.name("m-1")+" (deletion requested at 2")),
		))))
		c.WaitIdle()
		s.SetRequestFinalizers(request)
		s.Eventually(func() int { return len(s.Checks()) + len(s.NodeChecks()) }).Should(BeZero())
	})
}

// The check can have requests of a kind that an earlier version of its spec named. The permission on that kind is revoked when the check is
// deleted. The test runs alone, because checks of other tests can have requests of any kind.
func TestCleanup_PermissionRevoked_IsReported(t *testing.T) { //nolint:paralleltest // other tests would wait for that permission
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
	// An earlier version of its spec named that kind.
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
	reports := func(text string) func() bool {
		return func() bool {
			c.Watches().Cut(watched)
			s.Advance(16 * time.Second)
			return strings.Contains(stage.CheckMessage(remedyv1.ReadyCondition)(stage.Get(s, check)()), text)
		}
	}
	s.Eventually(reports("Requests may exist that cannot be listed: SomeRemediation." + kind.Group + ": ")).Should(BeTrue())
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
			"The check is being deleted; its finalizer stays until the cleanup is complete. "+
				"Requests may exist that cannot be listed: SomeRemediation."+kind.Group+": ",
		),
		ContainSubstring("ClusterRole"),
		ContainSubstring("remove the finalizer"),
	))

	s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck {
		s.Advance(16 * time.Second)
		return s.Checks()
	}).Should(BeEmpty())
}
