// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	deprecated "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Metal3 sets OwnerRemediated=False after its last retry, so the owner of the Machine replaces it. Its request no longer exists then.
func TestOwnerRemediation_SetByRemediator_IsKept(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", stage.ByNewTemplate(s))
	c := s.Start()
	request := s.WaitRequest(remediator.Metal3, "m-1")
	// Before that, the manager cannot distinguish the answer from one that was left before the Machine became unhealthy.
	s.Eventually(func() string {
		return stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(stage.Get(s, unhealthy)())
	}).Should(Equal(stage.IsUnhealthy))
	s.SetOwnerAnswer(unhealthy, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)
	s.Expect(s.Admin.Delete(s.Ctx, request)).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
	c.WaitIdle()
	ownerRemediated := stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)
	s.Expect(ownerRemediated(stage.Get(s, unhealthy)())).To(Equal(stage.OwnerRequested))
	s.Expect(s.Request(remediator.Metal3, "m-1")()).To(BeNil(), "the owner replaces the Machine")

	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
	s.Expect(ownerRemediated(stage.Get(s, unhealthy)())).To(Equal(stage.OwnerRequested))
	s.Expect(stage.Annotations(unhealthy)).To(BeEmpty())
}

// A Machine that was healthy in between has no request of the check, so one that a user sets later is not one of the check.
func TestOwnerRemediation_SetByUserLater_IsKept(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers")
	c := s.Start()
	condition := func(kind string) func() string {
		return func() string { return stage.MachineCondition(kind)(stage.Get(s, unhealthy)()) }
	}
	s.Eventually(condition(clusterv1.MachineOwnerRemediatedCondition)).Should(Equal(stage.OwnerRequested))
	s.SetReady("m-1", corev1.ConditionTrue, 0)
	s.Eventually(condition(clusterv1.MachineHealthCheckSucceededCondition)).Should(Equal(stage.IsHealthy))
	s.RemoveOwnerAnswer(unhealthy)
	s.Eventually(func() map[string]string { return stage.Annotations(stage.Get(s, unhealthy)()) }).Should(BeEmpty())
	s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
	s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
	s.Eventually(condition(clusterv1.MachineHealthCheckSucceededCondition)).Should(Equal(stage.IsUnhealthy))
	s.SetOwnerAnswer(unhealthy, clusterv1.MachineOwnerRemediatedWaitingForRemediationReason)
	c.WaitIdle()
	s.Expect(condition(clusterv1.MachineOwnerRemediatedCondition)()).To(Equal(stage.OwnerRequested))
}

// KubeadmControlPlane does not remediate its only Machine, and removes its answer only if HealthCheckSucceeded is True. So the check
// removes the answer to its request, also if the Machine is healthy again and its owner has not removed the answer yet.
func TestOwnerRemediation_RefusedAndCheckDeleted_IsRemoved(t *testing.T) {
	t.Parallel()
	for name, healthy := range map[string]bool{"unhealthy": false, "healthy again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			stage.LockControlPlane(t)
			m := s.CreateControlPlaneMachine("cp-1")
			s.SetReady("cp-1", corev1.ConditionUnknown, 10*time.Minute)
			check := s.CreateCheck("control", stage.OfPool("control"))
			c := s.Start()
			s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
			s.SetOwnerAnswer(m, stage.CannotBeRemediated)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("cp-1"), Equal("Blocked OwnerRefuses")))
			if healthy {
				s.SetReady("cp-1", corev1.ConditionTrue, 0)
				s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
			}
			c.WaitIdle()
			s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
			s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
			s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
			s.Expect(deprecated.Get(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)).To(BeNil())
			s.Expect(stage.Annotations(m)).To(BeEmpty())
		})
	}
}

// Each annotation takes almost two seconds, so one reconcile does not request remediation of all Machines. The others have no
// HealthCheckSucceeded=False before their annotation: a check that is deleted meanwhile would leave it.
func TestOwnerRemediation_OutOfTime_SetsNoConditionWithoutAnnotation(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	for i := range 5 {
		s.CreateUnhealthyMachine(fmt.Sprintf("m-%d", i))
	}
	check := s.CreateCheck("workers")
	c := s.StartInterrupted(func(r *http.Request, _ string) bool {
		_, name, ofMachine := strings.Cut(r.URL.Path, "/machines/")
		name, ofStatus := strings.CutSuffix(name, "/status")
		switch {
		case r.Method != http.MethodPatch || !ofMachine:
		case ofStatus:
			m := &clusterv1.Machine{}
			err := s.Admin.Get(s.Ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, m)
			if stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(m) != stage.IsHealthy && len(stage.Annotations(m)) == 0 {
				t.Errorf("%s has HealthCheckSucceeded=False without an annotation (%v)", name, err)
			}
		default:
			s.Clock.Step(1900 * time.Millisecond)
		}
		return false
	}, nil)
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Remediating", HaveValue(BeEquivalentTo(5))))
}

// MachineSets count Machines that are being deleted, by the reason of OwnerRemediated, for the maxInFlight of a MachineDeployment.
func TestOwnerRemediation_OwnerDeletesMachine_AnswerIsKept(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer} })
	check := s.CreateCheck("workers")
	c := s.Start()
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.SetOwnerAnswer(m, clusterv1.MachineSetMachineRemediationMachineDeletingReason)
	s.Expect(s.Admin.Delete(s.Ctx, m)).To(Succeed())
	c.WaitIdle()
	s.Expect(s.Admin.Delete(s.Ctx, check)).To(Succeed())
	s.Eventually(func() []remedyv1.MachineHealthCheck { return s.Checks() }).Should(BeEmpty())
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).
		To(Equal("False " + clusterv1.MachineSetMachineRemediationMachineDeletingReason))
	s.SetFinalizers(m)
}
