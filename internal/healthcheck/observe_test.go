// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package healthcheck_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// In Observe mode, the check does not annotate the Machine with the time of the deletion, but nodeGoneTimeout still passes.
func TestObserveMode_NodeDeleted_CountsTheTimeout(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithClock)
	m := s.CreateMachine("m-1")
	timeout := stage.Duration(10 * time.Minute)
	check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
		spec.Mode, spec.NodeGoneTimeout = remedyv1.ObserveMode, &timeout
	})
	c := s.Start()
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Healthy, BeEquivalentTo(1)))
	s.Expect(s.Workload.Delete(s.Ctx, s.Node("m-1"))).To(Succeed())
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Suspect", HaveValue(BeEquivalentTo(1))))
	s.Advance(6 * time.Minute)
	c.ReconcileAll()
	s.Expect(stage.Get(s, check)().Status.Suspect).To(HaveValue(BeEquivalentTo(1)))
	s.Advance(5 * time.Minute)
	s.Eventually(stage.Get(s, check)).Should(HaveField("Status.Unhealthy", HaveValue(BeEquivalentTo(1))))
	s.Expect(stage.Get(s, m)().Annotations).ToNot(HaveKey(remedyv1.NodeGoneSinceAnnotation))
}

// A manager with --observe cancels the remediations of an earlier process, whatever the mode of the check is.
func TestObserveFlag_RunningRemediation_IsCanceled(t *testing.T) {
	t.Parallel()
	ownerRemediation := func(s *stage.Stage) string {
		m := s.Machines()[0]
		return stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(&m)
	}
	externalRemediation := func(s *stage.Stage) string {
		return map[bool]string{true: "requested"}[len(s.Requests(remediator.Metal3)) > 0]
	}
	for name, test := range map[string]struct {
		template    bool
		remediation func(*stage.Stage) string
	}{
		"owner remediation":    {remediation: ownerRemediation},
		"external remediation": {template: true, remediation: externalRemediation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateUnhealthyMachine("m-1")
			s.CreateMachine("m-2")
			check := s.CreateCheck("workers", func(spec *remedyv1.MachineHealthCheckSpec) {
				if test.template {
					spec.RemediationTemplate = s.CreateTemplate(remediator.Metal3, "soft")
				}
			})
			before := s.Start()
			s.Eventually(func() string { return test.remediation(s) }).ShouldNot(BeEmpty())
			before.WaitIdle()
			before.Crash()
			before.Stop()
			s.Observe = true
			c := s.Start()
			s.Eventually(func() string { return test.remediation(s) }).Should(BeEmpty())
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-1"), Equal("Observed ObserveMode")))
			c.WaitIdle()
			for _, m := range s.Machines() {
				s.Expect(stage.MachineCondition(clusterv1.MachineHealthCheckSucceededCondition)(&m)).ToNot(Equal(stage.IsUnhealthy))
				s.Expect(notes.ResponsibleCheck(m.Annotations)).To(BeEmpty())
			}
			// The finalizer stays until all kinds of requests are known: an instance retries the kinds that a busy API server has not served.
			s.Eventually(stage.Get(s, check)).Should(HaveField("Finalizers", BeEmpty()))
			writes := len(c.Writes())
			s.SetReady("m-2", corev1.ConditionUnknown, 10*time.Minute)
			s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.Decision("m-2"), Equal("Observed ObserveMode")))
			c.WaitIdle()
			for _, w := range c.Writes()[writes:] {
				s.Expect(w.What()).To(HavePrefix("patch machinehealthchecks.remedy.cluster.x-k8s.io/status "))
			}
		})
	}
}

// An observing check reports what it would do for the Machines of another check, and which check is responsible for them: docs/adopt.md
// compares two checks in this way. The other check does not notice it.
func TestObserveMode_OtherCheck_DecidesAsIfAlone(t *testing.T) {
	t.Parallel()
	for name, withTemplate := range map[string]bool{"owner remediation": false, "external remediation": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage.New(t)
			s.CreateUnhealthyMachine("m-1")
			s.CreateMachine("m-2")
			steps := func(template string) func(*remedyv1.MachineHealthCheckSpec) {
				return func(spec *remedyv1.MachineHealthCheckSpec) {
					if withTemplate {
						spec.RemediationTemplate = s.CreateTemplate(remediator.Metal3, template)
					}
				}
			}
			responsible := s.CreateCheck("a", steps("a"))
			c := s.Start()
			s.Eventually(stage.Get(s, responsible)).Should(WithTransform(stage.Decision("m-1"), Equal("Remediating ")))
			observing := s.CreateCheck("b", steps("b"), func(spec *remedyv1.MachineHealthCheckSpec) { spec.Mode = remedyv1.ObserveMode })
			s.Eventually(stage.Get(s, observing)).Should(WithTransform(stage.Decision("m-1"), Equal("Observed ObserveMode")))
			s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(observing)).To(Equal("False SelectorsOverlap"))
			s.Expect(stage.CheckMessage(remedyv1.SelectorsDisjointCondition)(observing)).
				To(ContainSubstring("MachineHealthCheck " + s.Namespace + "/a is responsible for 2 targets: m-1, m-2"))
			c.WaitIdle()
			s.Expect(stage.CheckCondition(remedyv1.SelectorsDisjointCondition)(stage.Get(s, responsible)())).To(Equal("True SelectorsDisjoint"))
			s.Expect(stage.Decision("m-1")(responsible)).To(Equal("Remediating "))
		})
	}
}
