// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/faults"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// These tests play the in-tree controller. In module test/differential, the real one runs next to Remedy.

// With --observe, the manager keeps the checks that were adopted, adopts no other one and starts no remediation.
func TestAdoption_ObserveFlag_AdoptsAndReleasesNothing(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption)
	adopted, notAdopted := s.CreateInTreeCheck("adopted"), s.CreateInTreeCheck("not-adopted", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.AdoptAnnotation: "false"}
		check.Spec.Selector.MatchLabels = map[string]string{"no-machine": "has-it"}
	})
	s.SetInTreePaused(notAdopted, false)
	c := s.Start()
	s.CompleteAdoption(adopted)
	c.WaitIdle()
	c.Crash()
	c.Stop()
	m := s.CreateUnhealthyMachine("m-1")
	s.Annotate(notAdopted, remedyv1.AdoptAnnotation, "")
	s.Observe = true
	c = s.Start()
	s.Eventually(stage.Get(s, adopted)).Should(HaveField("Status.CurrentHealthy", HaveValue(BeZero())), "the check is evaluated")
	s.Eventually(stage.Get(s, adopted)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal("False "+remedyv1.OnlyObservedReason)))
	c.WaitIdle()
	s.TakesOver = intree.AdoptionPolicy{}
	c.Crash()
	c.Stop()
	c = s.Start()
	// No check is monitored now, so the instance does not connect to the cluster.
	c.NeverIdle = true
	c.ReconcileAll()
	s.Expect(stage.PausedAnnotation(stage.Get(s, adopted)())).To(Equal(remedyv1.Pause))
	s.Expect(stage.PausedAnnotation(stage.Get(s, notAdopted)())).To(BeEmpty())
	s.Expect(stage.InTreeCondition(remedyv1.AdoptedCondition)(notAdopted)).To(BeEmpty())
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
}

// conflicts counts the conflicts of writes to checks.
type conflicts struct {
	next  http.RoundTripper
	count *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c conflicts) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusConflict && strings.Contains(r.URL.Path, "/machinehealthchecks/") {
		c.count.Add(1)
	}
	return response, err
}

// A check is adopted, remediates a Machine, and is released. No write of the manager conflicts with an earlier one of its own: the test
// writes only while the manager writes nothing.
func TestAdoption_AdoptAndRelease_HasNoConflicts(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.AdoptionPolicy{OptIn: true} })
	s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers")
	s.SetInTreePaused(check, false)
	user, count := rest.CopyConfig(s.User()), &atomic.Int64{}
	user.Wrap(func(next http.RoundTripper) http.RoundTripper { return conflicts{next, count} })
	c, err := s.StartAs(faults.Start(s.Ctx), user)
	s.Expect(err).ToNot(HaveOccurred())
	t.Cleanup(c.StopIdle)
	c.WaitIdle()
	s.Annotate(check, remedyv1.AdoptAnnotation, "true")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, Equal(remedyv1.Pause)))
	c.WaitIdle()
	s.SetInTreePaused(check, true)
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal("True "+remedyv1.AdoptedReason)))
	s.Eventually(func() string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-1"] }).
		Should(Equal(stage.OwnerRequested))
	c.WaitIdle()
	s.Annotate(check, remedyv1.AdoptAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(stage.PausedAnnotation, BeEmpty()))
	c.WaitIdle()
	s.Expect(count.Load()).To(BeZero())
}

// A Machine has failed while it was created, and its Node has joined later. In-tree ignores that, so its adoption does not replace it. One
// without a Node is remediated.
func TestAdoption_EarlierFailureOfMachine_IsIgnored(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption)
	fail := func(m *clusterv1.Machine) {
		s.ChangeStatus(m, func() {
			reason := &clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: ptr.To("CreateError")} //nolint:staticcheck // providers still set it
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: reason}                  //nolint:staticcheck // as above
		})
	}
	fail(s.CreateMachine("m-1"))
	fail(s.CreateMachineWithoutNode("m-2", nil))
	check := s.CreateInTreeCheck("workers")
	c := s.Start()
	s.CompleteAdoption(check)
	s.Eventually(func() string { return s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-2"] }).
		Should(Equal(stage.OwnerRequested))
	c.WaitIdle()
	s.Expect(s.MachineConditions(clusterv1.MachineHealthCheckSucceededCondition)["m-1"]).To(Equal(stage.IsHealthy))
	s.Expect(s.MachineConditions(clusterv1.MachineOwnerRemediatedCondition)["m-1"]).To(BeEmpty())
}

// The in-tree controller has not written a status: it does not run, or it does not reconcile this check.
func TestRelease_OnlyConditionOfTheCheck_IsRemoved(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.AdoptionPolicy{OptIn: true} })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.AdoptAnnotation: "true"}
	})
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.Annotate(check, remedyv1.AdoptAnnotation, "")
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(HaveField("Status.Conditions", BeEmpty()), "Adopted is removed")
}

// An earlier leader that has not seen the release of a check can annotate a Machine after it.
func TestRelease_LateResponsibleCheck_IsRemoved(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.AdoptionPolicy{OptIn: true} })
	check := s.CreateInTreeCheck("workers")
	s.SetInTreePaused(check, false)
	late, other := s.CreateMachine("m-1"), s.CreateMachine("m-2")
	c := s.Start()
	c.NeverIdle = true
	s.Annotate(other, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/other")
	s.Annotate(late, remedyv1.MarkedByAnnotation, "InTreeMachineHealthCheck/workers")
	s.Eventually(stage.Get(s, late), stage.OutcomeTimeout).
		Should(HaveField("Annotations", Not(HaveKey(remedyv1.MarkedByAnnotation))), "the annotation is removed")
	s.Expect(stage.Get(s, other)().Annotations).To(HaveKey(remedyv1.MarkedByAnnotation), "another check is responsible")
	s.Annotate(other, remedyv1.MarkedByAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(remedyAnnotations, BeEmpty()))
}

// remedyAnnotations are the annotations of Remedy on an object.
func remedyAnnotations(o client.Object) (all []string) {
	for key := range o.GetAnnotations() {
		if strings.HasPrefix(key, remedyv1.Prefix) {
			all = append(all, key)
		}
	}
	return all
}

// Other controllers can set conditions of the same types on a check.
func TestInTreeCheck_NotAdopted_IsNotWritten(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers")
	s.SetInTreePaused(check, false)
	s.ChangeStatus(check, func() {
		meta.SetStatusCondition(
			&check.Status.Conditions,
			metav1.Condition{Type: remedyv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Mine"},
		)
	})
	before := check.ResourceVersion
	s.CreateCheck("workers")
	c := s.Start()
	c.WaitIdle()
	s.Expect(stage.Get(s, check)().ResourceVersion).To(Equal(before))
}

// The annotation on a Cluster adopts the checks that its topology generates. The policy does not examine other checks of that Cluster.
func TestAdoption_AnnotatedCluster_GeneratedChecksOnly(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.AdoptionPolicy{OptIn: true} })
	s.Annotate(s.Cluster, remedyv1.AdoptAnnotation, "true")
	written := s.CreateInTreeCheck("written")
	generated := s.CreateInTreeCheck("generated", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}
		check.Spec.Selector.MatchLabels = map[string]string{"pool": "other"}
	})
	for _, check := range []*clusterv1.MachineHealthCheck{written, generated} {
		s.SetInTreePaused(check, false)
	}
	c := s.Start()
	s.CompleteAdoption(generated)
	c.WaitIdle()
	s.Expect(stage.PausedAnnotation(stage.Get(s, written)())).To(BeEmpty())
	s.Annotate(written, remedyv1.AdoptAnnotation, "true")
	s.CompleteAdoption(written)
}

// With --in-tree-machinehealthchecks=Replace, no in-tree controller runs: there is no handover, and Remedy sets the Paused condition.
func TestAdoption_Exclusive_NeedsNoHandover(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver, s.WatchFilter = intree.AdoptionPolicy{Replace: true}, "a" })
	m := s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "a"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
	})
	s.Start()
	s.WaitMachineCondition(m, clusterv1.MachineOwnerRemediatedCondition, stage.OwnerRequested)
	s.Eventually(stage.Get(s, check)).
		Should(And(
			WithTransform(stage.InTreeCondition(clusterv1.PausedCondition), Equal("False "+remedyv1.NotPausedReason)),
			WithTransform(stage.PausedAnnotation, BeEmpty()),
		))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), BeEmpty()), "the check is released")
}

// byNewTemplate lets an in-tree check remediate with a new template.
func byNewTemplate(s *stage.Stage) func(*clusterv1.MachineHealthCheck) {
	spec := &remedyv1.MachineHealthCheckSpec{}
	stage.ByNewTemplate(s)(spec)
	return func(check *clusterv1.MachineHealthCheck) {
		template := spec.RemediationTemplate
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: template.APIVersion,
			Kind:       template.Kind,
			Name:       template.Name,
		}
	}
}

// With --observe, the manager adopts no new check, so a condition that it waits for the handover would stay forever.
func TestAdoption_ObserveFlag_DoesNotReportWaiting(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.Observe = true })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.SetInTreePaused(check, false)
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.InTreeCondition(remedyv1.AdoptedCondition), BeEmpty()), "the condition is removed")
	s.Expect(stage.PausedAnnotation(stage.Get(s, check)())).To(BeEmpty())
}
