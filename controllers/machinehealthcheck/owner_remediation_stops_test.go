// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Each of these changes cancels a request of owner remediation that the owner has not answered.
func TestOwnerRemediation_NoLongerWanted_IsCanceled(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck, m *clusterv1.Machine){
		"pauseRequests": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Change(check, func() { check.Spec.PauseRequests = []string{"maintenance"} })
		},
		"storm": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.SetReady("m-2", corev1.ConditionFalse, 10*time.Minute)
		},
		"skip-remediation": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.Annotate(m, clusterv1.MachineSkipRemediationAnnotation, "yes")
		},
		"labels of the Machine": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, m *clusterv1.Machine) {
			s.Change(m, func() { m.Labels["pool"] = "others" })
		},
		"selector": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Change(check, func() { check.Spec.Selector.MatchLabels = map[string]remedyv1.LabelValue{"pool": "others"} })
		},
		"observe mode": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, _ *clusterv1.Machine) {
			s.Change(check, func() { check.Spec.Mode = remedyv1.ObserveMode })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			unhealthy := s.CreateUnhealthyMachine("m-1")
			s.CreateMachine("m-2")
			check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				cooldown := stage.Duration(5 * time.Minute)
				spec.MaxUnhealthy, spec.StormCooldownDuration = ptr.To(intstr.FromInt32(1)), &cooldown
			})
			s.Start()
			s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
			change(s, check, unhealthy)
			s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, "")
		})
	}
}

func TestObserveMode_UnhealthyMachine_WritesOnlyStatus(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Observed ObserveMode")))
	s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False ObserveMode"))
	c.WaitIdle()
	for _, w := range c.Writes() {
		// The owner reference to the Cluster is a write to the check, too.
		s.Expect(w.Resource).To(Equal("machinehealthchecks"), w.What())
	}
	s.Expect(check.Finalizers).To(BeEmpty())
}

// A paused check changes no condition of a Machine, not even when its Node becomes unhealthy.
func TestPause_CheckOrCluster_StopsAllWrites(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(s *stage.Stage, check *remedyv1.MachineHealthCheck, on bool){
		"check": func(s *stage.Stage, check *remedyv1.MachineHealthCheck, on bool) {
			s.Annotate(check, clusterv1.PausedAnnotation, map[bool]string{true: "yes"}[on])
		},
		"Cluster": func(s *stage.Stage, _ *remedyv1.MachineHealthCheck, on bool) {
			s.Change(s.Cluster, func() { s.Cluster.Spec.Paused = ptr.To(on) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			m := s.CreateMachine("m-1")
			check := s.CreateCheck("workers")
			c := s.Start()
			s.WaitMachineCondition(m, clusterv1.MachineHealthCheckSucceededCondition, stage.IsHealthy)
			c.WaitIdle()
			pause(s, check, true)
			s.WaitCheckCondition(check, remedyv1.PausedCondition, "True Paused")
			s.Expect(stage.CheckCondition(remedyv1.RemediationAllowedCondition)(check)).To(Equal("False Paused"))
			s.Expect(stage.CheckCondition(remedyv1.ReadyCondition)(check)).To(Equal("True Ready"))
			s.Eventually(func() []float64 { return c.Series("remedy_check_condition", "workers", remedyv1.PausedCondition) }).
				Should(Equal([]float64{1}))
			s.Eventually(func() []float64 { return c.Series("remedy_remediation_allowed", "workers") }).Should(Equal([]float64{0}))
			before := len(c.Writes())
			s.SetReady("m-1", corev1.ConditionUnknown, 10*time.Minute)
			// The deletion of another check wakes the paused check. The other check selects no Machine.
			s.Expect(s.Admin.Delete(s.Ctx, s.CreateCheck("other", stage.OfPool("others")))).To(Succeed())
			c.ReconcileAll()
			s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(stage.Get(s, m)())).To(Equal(stage.IsHealthy))
			for _, w := range c.Writes()[before:] {
				s.Expect(w.Name).To(Equal("other"), w.What())
			}
			pause(s, check, false)
			s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
		})
	}
}

func TestPause_Machine_IsNotWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	m := s.CreateUnhealthyMachine("m-1", func(m *clusterv1.Machine) { m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
	check := s.CreateCheck("workers")
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.ObservedGeneration", BeEquivalentTo(1)))
	c.WaitIdle()
	for _, w := range c.Writes() {
		s.Expect(w.Resource).To(Equal("machinehealthchecks"), w.What())
	}
	s.Change(m, func() { m.Annotations = nil })
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
}

// A user deletes the Node of a lost server, and a finalizer keeps it. Its Machine is not being deleted, so the owner replaces it.
func TestOwnerRemediation_NodeKeptByFinalizer_IsRequested(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	unhealthy := s.CreateUnhealthyMachine("m-1")
	s.ChangeNode("m-1", func(node *corev1.Node) { node.Finalizers = []string{"example.com/wait"} })
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	s.CreateCheck("workers")
	s.Start()
	s.WaitMachineCondition(unhealthy, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.ChangeNode("m-1", func(node *corev1.Node) { node.Finalizers = nil })
}
