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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/takeover"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// What has been begun when a check goes back to Cluster API's own controller.

// takenOver is a check that asks to be taken over, and was, by a controller that has come to rest.
func takenOver(s *stage.Stage, changes ...func(*clusterv1.MachineHealthCheck)) (*clusterv1.MachineHealthCheck, *stage.Instance) {
	s.T.Helper()
	s.TakesOver = intree.TakesOver{Annotated: true}
	asks := func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "true"}
	}
	check := s.CreateInTreeCheck("workers", append(changes, asks)...)
	c := s.Start()
	s.CompleteAdoption(check)
	return check, c
}

func goes(o client.Object) bool { return o.GetDeletionTimestamp() != nil }

// TestARequestThatWasToldToStopIsNotGivenBack: nothing would ever follow on it. Others go on as they are.
func TestARequestThatWasToldToStopIsNotGivenBack(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	s.CreateUnhealthyMachine("m-2")
	check, c := takenOver(s, byTheirTemplate(s))
	s.WaitRequest(remediator.Metal3, "m-1")
	s.WaitRequest(remediator.Metal3, "m-2")
	c.WaitIdle()
	c.Crash()
	c.Stop()
	told := s.Request(remediator.Metal3, "m-1")()
	s.Change(told, func() { told.SetFinalizers([]string{"example.com/reboots"}) })
	s.Annotate(told, remedyv1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339))
	s.Annotate(check, remedyv1.TakeOverAnnotation, "")
	c = s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Expect(s.Request(remediator.Metal3, "m-1")()).
		To(And(Not(BeNil()), WithTransform(goes, BeTrue()), WithTransform(traces, BeEmpty())), "it is withdrawn")
	s.Expect(s.Request(remediator.Metal3, "m-2")()).To(And(HaveField("GetDeletionTimestamp()", BeNil()), WithTransform(traces, BeEmpty())))
}

// TestTheTurnAtAControlPlaneIsGivenBack: otherwise all other checks would wait until its time is over.
func TestTheTurnAtAControlPlaneIsGivenBack(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	check, c := takenOver(s, byTheirTemplate(s))
	s.WaitRequest(remediator.Metal3, "cp-1")
	c.WaitIdle()
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("CoreMachineHealthCheck/" + s.Namespace + "/workers"))
	c.NeverIdle = true
	s.Annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Expect(s.ControlPlaneLeaseHolder()).To(BeEmpty())
}

// TestTheTurnOfOthersStays when a check is given back that had something under way itself.
func TestTheTurnOfOthersStays(t *testing.T) {
	t.Parallel()
	stage.LockControlPlane(t)
	s := stage.New(t)
	s.CreateControlPlane(3)
	s.FailNode("cp-1")
	check, c := takenOver(s, byTheirTemplate(s))
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
	s.Eventually(func() bool { return c.Clusters.At(stage.Key(s.Namespace, "prod")).Connection(s.Ctx).Up }).
		Should(BeTrue(), "or it cannot see the turn")
	s.Annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	s.Expect(s.ControlPlaneLeaseHolder()).To(Equal("MachineHealthCheck/far/away"))
}

// byCore lets a check of Cluster API remediate by a template.
func byCore(template *remedyv1.MachineTemplateReference) func(*clusterv1.MachineHealthCheck) {
	return func(check *clusterv1.MachineHealthCheck) {
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: template.APIVersion, Kind: template.Kind, Name: template.Name,
		}
	}
}

// TestWhatCannotBeCleanedUpIsTold, and keeps nobody from looking after the Machines. What can be is cleaned up.
func TestWhatCannotBeCleanedUpIsTold(t *testing.T) { //nolint:paralleltest // checks of other tests would wait for that right, too.
	ends := map[string]func(*stage.Stage, *stage.Instance, remediator.Kind, *clusterv1.MachineHealthCheck){
		"until the right comes back": func(s *stage.Stage, _ *stage.Instance, kind remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
			s.Eventually(stage.Get(s, check)).
				Should(And(WithTransform(traces, BeEmpty()), WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), BeEmpty())))
			s.Expect(s.Request(kind, "m-1")()).To(WithTransform(traces, BeEmpty()))
		},
		"and not again after a person has cleaned up": func(
			s *stage.Stage, c *stage.Instance, _ remediator.Kind, check *clusterv1.MachineHealthCheck,
		) {
			s.Change(check, func() { check.Finalizers, check.Annotations = nil, nil })
			s.ChangeStatus(check, func() { meta.RemoveStatusCondition(&check.Status.Conditions, remedyv1.TakenOverCondition) })
			c.ReconcileAll()
			s.Expect(stage.InTreeCondition(remedyv1.TakenOverCondition)(stage.Get(s, check)())).To(BeEmpty())
		},
		"until it is asked for again": func(s *stage.Stage, _ *stage.Instance, _ remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.Annotate(check, remedyv1.TakeOverAnnotation, "true")
			s.SetInTreePaused(check, false)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, Equal(remedyv1.Pause)))
			memory := takeover.ParseMemory(check.Annotations[remedyv1.TakeOverIDAnnotation])
			s.Expect(memory.Losses).To(BeEmpty(), "nobody but us has taken our pause away")
		},
	}
	for name, end := range ends { //nolint:paralleltest // as above.
		t.Run(name, func(t *testing.T) {
			s := stage.New(t)
			kind := remediator.NewKind(s.Namespace+".example.com", "v1", "SomeRemediation")
			s.Expect(stage.Management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
			s.Expect(stage.Aggregate(s.Ctx, kind.Rules()...)).To(Succeed())
			s.CreateUnhealthyMachine("m-1")
			check, c := takenOver(s, byCore(s.CreateTemplate(kind, "soft")))
			old := s.WaitRequest(kind, "m-1")
			s.Change(old, func() { old.SetFinalizers([]string{"example.com/reboots"}) })
			hard := s.CreateTemplate(remediator.Metal3, "hard")
			s.Change(check, func() { byCore(hard)(check) })
			s.CreateUnhealthyMachine("m-2")
			s.WaitRequest(remediator.Metal3, "m-2")
			c.WaitIdle()
			c.NeverIdle = true
			s.Revoke(kind)
			s.Annotate(check, remedyv1.TakeOverAnnotation, "")
			s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(And(
				WithTransform(
					stage.PausedAnnotation,
					BeEmpty(),
				),
				WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), Equal("False "+remedyv1.NotCleanedUpReason)),
			), "it goes back, and says so")
			s.Expect(stage.Get(s, check)().Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer), "it must not go before that is done")
			s.Expect(s.Request(remediator.Metal3, "m-2")()).To(WithTransform(traces, BeEmpty()), "it can be read")
			end(s, c, kind, check)
		})
	}
}

// TestACheckOfTheirsLooksAfterItsMachinesUntilItIsGone: their controller does not mind that it is on its way out.
func TestACheckOfTheirsLooksAfterItsMachinesUntilItIsGone(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateMachine("m-1")
	theirs := s.CreateInTreeCheck("theirs", func(check *clusterv1.MachineHealthCheck) { check.Finalizers = []string{"example.com/waits"} })
	s.SetInTreePaused(theirs, false)
	s.Expect(s.Admin.Delete(s.Ctx, theirs)).To(Succeed())
	check := s.CreateCheck("ours")
	s.SetReady(m.Name, corev1.ConditionUnknown, 10*time.Minute)
	c := s.Start()
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.Decision("m-1"), HavePrefix("Held ")), "ours waits for theirs")
	c.WaitIdle()
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
	s.Change(theirs, func() { theirs.Finalizers = nil })
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
}

// TestOfAPausedCheckThatGoesOnlyWhoHasTheWordTells: our pause was taken away from it, and its Cluster is paused, so that there is no
// cleaning up yet.
func TestOfAPausedCheckThatGoesOnlyWhoHasTheWordTells(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(true) })
	check := s.CreateInTreeCheck("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Finalizers = []string{remedyv1.CleanupFinalizer, "example.com/waits"}
	})
	said := []metav1.Condition{{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
		Message:            "Cluster spec.paused is set to true",
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}
	s.ChangeStatus(check, func() { check.Status.Conditions = said })
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(func() bool {
		s.Wake()
		return c.Evaluated(check.Name)
	}).Should(BeTrue())
	s.Expect(stage.Get(s, check)().Status.Conditions).
		To(HaveEach(HaveField("Type", BeElementOf(clusterv1.PausedCondition, remedyv1.TakenOverCondition))))
	s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = nil })
	s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", ConsistOf("example.com/waits")))
	s.Change(check, func() { check.Finalizers = nil })
}
