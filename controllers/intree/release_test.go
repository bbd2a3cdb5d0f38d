// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// These tests release a check that has started a remediation.

// createAdopted creates a check, requests its adoption, and returns it and the instance that has adopted it.
func createAdopted(s *stage.Stage, changes ...func(*clusterv1.MachineHealthCheck)) (*clusterv1.MachineHealthCheck, *stage.Instance) {
	s.T.Helper()
	s.TakesOver = intree.AdoptionPolicy{OptIn: true}
	annotate := func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.AdoptAnnotation: "true"}
	}
	check := s.CreateInTreeCheck("workers", append(changes, annotate)...)
	c := s.Start()
	s.CompleteAdoption(check)
	return check, c
}

func isBeingDeleted(o client.Object) bool { return o.GetDeletionTimestamp() != nil }

// No controller would act on a request with the timed-out annotation after the release. Other requests stay.
func TestRelease_TimedOutRequest_IsWithdrawn(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	s.CreateUnhealthyMachine("m-2")
	check, c := createAdopted(s, byNewTemplate(s))
	s.WaitRequest(remediator.Metal3, "m-1")
	s.WaitRequest(remediator.Metal3, "m-2")
	c.WaitIdle()
	c.Crash()
	c.Stop()
	timedOut := s.Request(remediator.Metal3, "m-1")()
	s.Change(timedOut, func() { timedOut.SetFinalizers([]string{"example.com/reboots"}) })
	s.Annotate(timedOut, remedyv1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339))
	s.Annotate(check, remedyv1.AdoptAnnotation, "")
	c = s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Expect(s.Request(remediator.Metal3, "m-1")()).
		To(And(Not(BeNil()), WithTransform(isBeingDeleted, BeTrue()), WithTransform(remedyAnnotations, BeEmpty())), "the request is withdrawn")
	s.Expect(s.Request(remediator.Metal3, "m-2")()).
		To(And(HaveField("GetDeletionTimestamp()", BeNil()), WithTransform(remedyAnnotations, BeEmpty())))
}

// Otherwise all other checks of the control plane would wait until the Lease expires.
func TestRelease_ControlPlaneLease_IsReleased(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	check, c := createAdopted(s, byNewTemplate(s))
	s.WaitRequest(remediator.Metal3, "cp-1")
	c.WaitIdle()
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("InTreeMachineHealthCheck/" + s.Namespace + "/workers"))
	c.NeverIdle = true
	s.Annotate(check, remedyv1.AdoptAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Eventually(s.ControlPlaneLeaseHolder).Should(BeEmpty(), "the Lease is released")
}

// The released check has started a remediation itself, but a check of another management cluster holds the Lease now.
func TestRelease_LeaseOfOtherCheck_IsKept(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	check, c := createAdopted(s, byNewTemplate(s))
	s.WaitRequest(remediator.Metal3, "cp-1")
	c.WaitIdle()
	c.Crash()
	c.Stop()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"}}
	s.Expect(s.Workload.Get(s.Ctx, stage.Key(lease.Namespace, lease.Name), lease)).To(Succeed())
	lease.Spec.HolderIdentity = ptr.To("MachineHealthCheck/far/away")
	s.Expect(s.Workload.Update(s.Ctx, lease)).To(Succeed())
	c = s.Start()
	c.NeverIdle = true
	s.Eventually(func() bool { return c.Clusters.Get(stage.Key(s.Namespace, "prod")).Connection(s.Ctx).Up }).
		Should(BeTrue(), "a connected instance can read the Lease")
	s.Annotate(check, remedyv1.AdoptAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/far/away"))
}

// byTemplate lets an in-tree check remediate with a template.
func byTemplate(template *remedyv1.MachineTemplateReference) func(*clusterv1.MachineHealthCheck) {
	return func(check *clusterv1.MachineHealthCheck) {
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: template.APIVersion, Kind: template.Kind, Name: template.Name,
		}
	}
}

// The manager has no permission on a kind of requests. It reports NotCleanedUp, cleans up everything else and releases the check, so the
// in-tree controller monitors its Machines again.
func TestRelease_CleanupFails_IsReported(t *testing.T) { //nolint:paralleltest // other tests would wait for that permission
	ends := map[string]func(*stage.Stage, *stage.Instance, remediator.Kind, *clusterv1.MachineHealthCheck){
		"permission restored": func(s *stage.Stage, _ *stage.Instance, kind remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
			s.Eventually(stage.Get(s, check)).
				Should(And(WithTransform(remedyAnnotations, BeEmpty()), WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), BeEmpty())))
			s.Expect(s.Request(kind, "m-1")()).To(WithTransform(remedyAnnotations, BeEmpty()))
		},
		"cleaned up by a user": func(
			s *stage.Stage, c *stage.Instance, _ remediator.Kind, check *clusterv1.MachineHealthCheck,
		) {
			s.Change(check, func() { check.Finalizers, check.Annotations = nil, nil })
			s.ChangeStatus(check, func() { meta.RemoveStatusCondition(&check.Status.Conditions, remedyv1.AdoptedCondition) })
			c.ReconcileAll()
			s.Expect(stage.InTreeCondition(remedyv1.AdoptedCondition)(stage.Get(s, check)())).To(BeEmpty())
		},
		"adoption requested again": func(s *stage.Stage, _ *stage.Instance, _ remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.Annotate(check, remedyv1.AdoptAnnotation, "true")
			s.SetInTreePaused(check, false)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, Equal(remedyv1.Pause)))
			memory := adoption.ParseMemory(check.Annotations[remedyv1.AdoptionIDAnnotation])
			s.Expect(memory.Losses).To(BeEmpty(), "no other controller has removed the pause of Remedy")
		},
	}
	for name, end := range ends { //nolint:paralleltest // as above.
		t.Run(name, func(t *testing.T) {
			s := stage.New(t)
			kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
			s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
			s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
			s.CreateUnhealthyMachine("m-1")
			check, c := createAdopted(s, byTemplate(s.CreateTemplate(kind, "soft")))
			old := s.WaitRequest(kind, "m-1")
			s.Change(old, func() { old.SetFinalizers([]string{"example.com/reboots"}) })
			hard := s.CreateTemplate(remediator.Metal3, "hard")
			s.Change(check, func() { byTemplate(hard)(check) })
			s.CreateUnhealthyMachine("m-2")
			s.WaitRequest(remediator.Metal3, "m-2")
			c.WaitIdle()
			c.NeverIdle = true
			s.Revoke(kind)
			s.Annotate(check, remedyv1.AdoptAnnotation, "")
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(WithTransform(stage.PausedAnnotation, BeEmpty()), "the pause is removed")
			s.Expect(stage.Get(s, check)().Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer), "the finalizer stays until the cleanup is complete")
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(
				WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal("False "+remedyv1.NotCleanedUpReason)),
				"the check reports NotCleanedUp")
			s.Expect(s.Request(remediator.Metal3, "m-2")()).
				To(WithTransform(remedyAnnotations, BeEmpty()), "requests of this kind can be read and are released")
			end(s, c, kind, check)
		})
	}
}

// The in-tree controller reconciles a check that is being deleted until the check no longer exists.
func TestInTreeCheck_BeingDeleted_StaysResponsible(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateMachine("m-1")
	inTree := s.CreateInTreeCheck("in-tree", func(check *clusterv1.MachineHealthCheck) { check.Finalizers = []string{"example.com/waits"} })
	s.SetInTreePaused(inTree, false)
	s.Expect(s.Admin.Delete(s.Ctx, inTree)).To(Succeed())
	check := s.CreateCheck("workers")
	s.SetReady(m.Name, corev1.ConditionUnknown, 10*time.Minute)
	c := s.Start()
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.Decision("m-1"), Equal("Blocked ManagedByOtherCheck")), "the in-tree check is responsible")
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
	s.Change(inTree, func() { inTree.Finalizers = nil })
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// A user has removed the pause of Remedy from the check, and the Cluster is paused, so there is no cleanup yet. Only the in-tree controller
// writes the status.
func TestInTreeCheck_DeletedWhilePaused_GetsNoStatus(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
	check := s.CreateInTreeCheck("in-tree", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.AdoptionIDAnnotation: "a"}
		check.Finalizers = []string{remedyv1.CleanupFinalizer, "example.com/waits"}
	})
	paused := []metav1.Condition{{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
		Message:            "Cluster spec.paused is set to true",
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}
	s.ChangeStatus(check, func() { check.Status.Conditions = paused })
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(func() bool {
		s.Wake()
		return c.Evaluated(check.Name)
	}).Should(BeTrue())
	s.Expect(stage.Get(s, check)().Status.Conditions).
		To(HaveEach(HaveField("Type", BeElementOf(clusterv1.PausedCondition, remedyv1.AdoptedCondition))))
	s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = nil })
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", ConsistOf("example.com/waits")))
	s.Change(check, func() { check.Finalizers = nil })
}
