// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

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
)

// What has been begun when a check goes back to Cluster API's own controller.

// takenOver is a check that asks to be taken over, and was, by a controller that has come to rest.
func (s *stage) takenOver(changes ...func(*clusterv1.MachineHealthCheck)) (*clusterv1.MachineHealthCheck, *controller) {
	s.t.Helper()
	s.takesOver = intree.TakesOver{Annotated: true}
	asks := func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "true"}
	}
	check := s.core("workers", append(changes, asks)...)
	c := s.start()
	s.handedOver(check)
	return check, c
}

func goes(o client.Object) bool { return o.GetDeletionTimestamp() != nil }

// TestARequestThatWasToldToStopIsNotGivenBack: nothing would ever follow on it. Others go on as they are.
func TestARequestThatWasToldToStopIsNotGivenBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.sick("m-1")
	s.sick("m-2")
	check, c := s.takenOver(byTheirTemplate(s))
	s.requested(remediator.Metal3, "m-1")
	s.requested(remediator.Metal3, "m-2")
	c.settle()
	c.Crash()
	c.stop()
	told := s.request(remediator.Metal3, "m-1")()
	s.change(told, func() { told.SetFinalizers([]string{"example.com/reboots"}) })
	s.annotate(told, remedyv1.TimedOutAnnotation, time.Now().UTC().Format(time.RFC3339))
	s.annotate(check, remedyv1.TakeOverAnnotation, "")
	c = s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(pausedBy, BeEmpty()))
	s.Expect(s.request(remediator.Metal3, "m-1")()).To(And(Not(BeNil()), WithTransform(goes, BeTrue()), WithTransform(traces, BeEmpty())), "it is withdrawn")
	s.Expect(s.request(remediator.Metal3, "m-2")()).To(And(HaveField("GetDeletionTimestamp()", BeNil()), WithTransform(traces, BeEmpty())))
}

// TestTheTurnAtAControlPlaneIsGivenBack: otherwise all other checks would wait until its time is over.
func TestTheTurnAtAControlPlaneIsGivenBack(t *testing.T) {
	t.Parallel()
	alone(t)
	s := newStage(t)
	s.members(3)
	s.fails("cp-1")
	check, c := s.takenOver(byTheirTemplate(s))
	s.requested(remediator.Metal3, "cp-1")
	c.settle()
	s.Expect(s.turn()).To(Equal("CoreMachineHealthCheck/" + s.namespace + "/workers"))
	c.restless = true
	s.annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(get(s, check)).Should(WithTransform(pausedBy, BeEmpty()))
	s.Expect(s.turn()).To(BeEmpty())
}

// TestTheTurnOfOthersStays when a check is given back that had something under way itself.
func TestTheTurnOfOthersStays(t *testing.T) {
	t.Parallel()
	alone(t)
	s := newStage(t)
	s.members(3)
	s.fails("cp-1")
	check, c := s.takenOver(byTheirTemplate(s))
	s.requested(remediator.Metal3, "cp-1")
	c.settle()
	c.Crash()
	c.stop()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "remedy-control-plane"}}
	s.Expect(s.kubelet.Get(s.ctx, keyOf(lease.Namespace, lease.Name), lease)).To(Succeed())
	lease.Spec.HolderIdentity = ptr.To("MachineHealthCheck/far/away")
	s.Expect(s.kubelet.Update(s.ctx, lease)).To(Succeed())
	c = s.start()
	c.restless = true
	s.Eventually(func() bool { return c.clusters.At(keyOf(s.namespace, "prod")).Connection(s.ctx).Up }).Should(BeTrue(), "or it cannot see the turn")
	s.annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(get(s, check)).Should(WithTransform(pausedBy, BeEmpty()))
	s.Expect(s.turn()).To(Equal("MachineHealthCheck/far/away"))
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
	ends := map[string]func(*stage, *controller, remediator.Kind, *clusterv1.MachineHealthCheck){
		"until the right comes back": func(s *stage, _ *controller, kind remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
			s.Eventually(get(s, check)).Should(And(WithTransform(traces, BeEmpty()), WithTransform(coreTells(remedyv1.TakenOverCondition), BeEmpty())))
			s.Expect(s.request(kind, "m-1")()).To(WithTransform(traces, BeEmpty()))
		},
		"and not once more after somebody else has cleaned up": func(s *stage, c *controller, _ remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.change(check, func() { check.Finalizers, check.Annotations = nil, nil })
			s.changeStatus(check, func() { meta.RemoveStatusCondition(&check.Status.Conditions, remedyv1.TakenOverCondition) })
			c.pass()
			s.Expect(coreTells(remedyv1.TakenOverCondition)(get(s, check)())).To(BeEmpty())
		},
		"until it is asked for again": func(s *stage, _ *controller, _ remediator.Kind, check *clusterv1.MachineHealthCheck) {
			s.annotate(check, remedyv1.TakeOverAnnotation, "true")
			s.theySay(check, false)
			s.Eventually(get(s, check)).Should(WithTransform(pausedBy, Equal(remedyv1.Pause)))
			memory := takeover.ParseMemory(check.Annotations[remedyv1.TakeOverIDAnnotation])
			s.Expect(memory.Losses).To(BeEmpty(), "nobody but us has taken our pause away")
		},
	}
	for name, end := range ends { //nolint:paralleltest // as above.
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			kind := remediator.NewKind(s.namespace+".example.com", "v1", "SomeRemediation")
			s.Expect(management.InstallCRDObjects(kind.CRDs()...)).To(Succeed())
			s.Expect(aggregate(s.ctx, kind.Rules()...)).To(Succeed())
			s.sick("m-1")
			check, c := s.takenOver(byCore(s.template(kind, "soft")))
			old := s.requested(kind, "m-1")
			s.change(old, func() { old.SetFinalizers([]string{"example.com/reboots"}) })
			hard := s.template(remediator.Metal3, "hard")
			s.change(check, func() { byCore(hard)(check) })
			s.sick("m-2")
			s.requested(remediator.Metal3, "m-2")
			c.settle()
			c.restless = true
			s.revoke(kind)
			s.annotate(check, remedyv1.TakeOverAnnotation, "")
			s.Eventually(get(s, check), suspense).Should(And(
				WithTransform(pausedBy, BeEmpty()), WithTransform(coreTells(remedyv1.TakenOverCondition), Equal("False "+remedyv1.NotCleanedUpReason))), "it goes back, and says so")
			s.Expect(get(s, check)().Finalizers).To(ConsistOf(remedyv1.CleanupFinalizer), "it must not go before that is done")
			s.Expect(s.request(remediator.Metal3, "m-2")()).To(WithTransform(traces, BeEmpty()), "it can be read")
			end(s, c, kind, check)
		})
	}
}

// TestACheckOfTheirsLooksAfterItsMachinesUntilItIsGone: their controller does not mind that it is on its way out.
func TestACheckOfTheirsLooksAfterItsMachinesUntilItIsGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	m := s.machine("m-1")
	theirs := s.core("theirs", func(check *clusterv1.MachineHealthCheck) { check.Finalizers = []string{"example.com/waits"} })
	s.theySay(theirs, false)
	s.Expect(s.admin.Delete(s.ctx, theirs)).To(Succeed())
	check := s.check("ours")
	s.ready(m.Name, corev1.ConditionUnknown, 10*time.Minute)
	c := s.start()
	s.Eventually(get(s, check), suspense).Should(WithTransform(holds("m-1"), HavePrefix("Held ")), "ours waits for theirs")
	c.settle()
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
	s.change(theirs, func() { theirs.Finalizers = nil })
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
}

// TestOfAPausedCheckThatGoesOnlyWhoHasTheWordTells: our pause was taken away from it, and its Cluster is paused, so that there is no cleaning up yet.
func TestOfAPausedCheckThatGoesOnlyWhoHasTheWordTells(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.machine("m-1")
	s.change(s.cluster, func() { s.cluster.Spec.Paused = ptr.To(true) })
	check := s.core("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Finalizers = []string{remedyv1.CleanupFinalizer, "example.com/waits"}
	})
	said := []metav1.Condition{{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason, Message: "Cluster spec.paused is set to true",
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}
	s.changeStatus(check, func() { check.Status.Conditions = said })
	s.Expect(s.admin.Delete(s.ctx, check)).To(Succeed())
	c := s.start()
	c.restless = true
	s.Eventually(func() bool {
		s.nudge()
		return c.judged(check.Name)
	}).Should(BeTrue())
	s.Expect(get(s, check)().Status.Conditions).To(HaveEach(HaveField("Type", BeElementOf(clusterv1.PausedCondition, remedyv1.TakenOverCondition))))
	s.change(s.cluster, func() { s.cluster.Spec.Paused = nil })
	s.Eventually(get(s, check)).Should(HaveField("Finalizers", ConsistOf("example.com/waits")))
	s.change(check, func() { check.Finalizers = nil })
}
