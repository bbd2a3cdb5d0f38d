// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/stage"
)

// Checks of Cluster API, without its own controller: the tests say what that would say. It stands beside ours in module test/differential.

// TestWhoOnlyLooksOnHandsNothingOver: what is in our hands stays there, and nothing is begun for it. That is what the panic switch is for.
func TestWhoOnlyLooksOnHandsNothingOver(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption)
	ours, theirs := s.CreateInTreeCheck("ours"), s.CreateInTreeCheck("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "false"}
		check.Spec.Selector.MatchLabels = map[string]string{"nobody": "has-it"}
	})
	s.SetInTreePaused(theirs, false)
	c := s.Start()
	s.CompleteAdoption(ours)
	c.WaitIdle()
	c.Crash()
	c.Stop()
	m := s.CreateUnhealthyMachine("m-1")
	s.Annotate(theirs, remedyv1.TakeOverAnnotation, "")
	s.Observe = true
	c = s.Start()
	s.Eventually(stage.Get(s, ours)).Should(HaveField("Status.CurrentHealthy", HaveValue(BeZero())), "it is looked at")
	s.Eventually(stage.Get(s, ours)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), Equal("False "+remedyv1.OnlyObservedReason)))
	c.WaitIdle()
	s.TakesOver = intree.TakesOver{}
	c.Crash()
	c.Stop()
	c = s.Start()
	// It looks after nothing now, and so it does not connect to the cluster either.
	c.NeverIdle = true
	c.ReconcileAll()
	s.Expect(stage.PausedAnnotation(stage.Get(s, ours)())).To(Equal(remedyv1.Pause))
	s.Expect(stage.PausedAnnotation(stage.Get(s, theirs)())).To(BeEmpty())
	s.Expect(stage.InTreeCondition(remedyv1.TakenOverCondition)(theirs)).To(BeEmpty())
	s.Expect(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition)(stage.Get(s, m)())).To(BeEmpty())
}

// TestOurWordGoesAlsoWhereItIsTheOnlyOne: Cluster API's own controller has not said anything, as it does not run or does not look after
// this check.
func TestOurWordGoesAlsoWhereItIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.TakesOver{Annotated: true} })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "true"}
	})
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.Annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).Should(HaveField("Status.Conditions", BeEmpty()), "our word goes")
}

// TestASignatureThatComesLateIsTakenOff: whoever led before may have looked before a check was given back, and signed a Machine after it.
func TestASignatureThatComesLateIsTakenOff(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver = intree.TakesOver{Annotated: true} })
	check := s.CreateInTreeCheck("workers")
	s.SetInTreePaused(check, false)
	late, other := s.CreateMachine("m-1"), s.CreateMachine("m-2")
	c := s.Start()
	c.NeverIdle = true
	s.Annotate(other, remedyv1.MarkedByAnnotation, "CoreMachineHealthCheck/other")
	s.Annotate(late, remedyv1.MarkedByAnnotation, "CoreMachineHealthCheck/workers")
	s.Eventually(stage.Get(s, late), stage.OutcomeTimeout).
		Should(HaveField("Annotations", Not(HaveKey(remedyv1.MarkedByAnnotation))), "the signature goes")
	s.Expect(stage.Get(s, other)().Annotations).To(HaveKey(remedyv1.MarkedByAnnotation), "that is not its own")
	s.Annotate(other, remedyv1.MarkedByAnnotation, "")
	s.Eventually(stage.Get(s, check)).Should(WithTransform(traces, BeEmpty()))
}

// traces are our notes on an object.
func traces(o client.Object) (all []string) {
	for key := range o.GetAnnotations() {
		if strings.HasPrefix(key, remedyv1.Prefix) {
			all = append(all, key)
		}
	}
	return all
}

// TestWhatIsNoneOfOursIsNotChanged: others may have conditions of the same names.
func TestWhatIsNoneOfOursIsNotChanged(t *testing.T) {
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
	s.CreateCheck("ours")
	c := s.Start()
	c.WaitIdle()
	s.Expect(stage.Get(s, check)().ResourceVersion).To(Equal(before))
}

// TestACheckIsOursWhereNobodyElseIs: no handshake, and the condition Paused is ours to tell.
func TestACheckIsOursWhereNobodyElseIs(t *testing.T) {
	t.Parallel()
	s := stage.New(t, func(s *stage.Stage) { s.TakesOver, s.WatchFilter = intree.TakesOver{Exclusive: true}, "a" })
	m := s.CreateUnhealthyMachine("m-1")
	check := s.CreateInTreeCheck("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "a"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
	})
	s.Start()
	s.Eventually(stage.Get(s, m)).
		Should(WithTransform(stage.MachineCondition(clusterv1.MachineOwnerRemediatedCondition), Equal(stage.OwnerRequested)))
	s.Eventually(stage.Get(s, check)).
		Should(And(
			WithTransform(stage.InTreeCondition(clusterv1.PausedCondition), Equal("False "+remedyv1.NotPausedReason)),
			WithTransform(stage.PausedAnnotation, BeEmpty()),
		))
	s.Change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), BeEmpty()), "it is not ours any more")
}

// byTheirTemplate lets a check of Cluster API remediate by a template.
func byTheirTemplate(s *stage.Stage) func(*clusterv1.MachineHealthCheck) {
	spec := &remedyv1.MachineHealthCheckSpec{}
	stage.ByNewTemplate(s)(spec)
	return func(check *clusterv1.MachineHealthCheck) {
		named := spec.RemediationTemplate
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: named.APIVersion,
			Kind:       named.Kind,
			Name:       named.Name,
		}
	}
}

// TestWhoOnlyObservesDoesNotSayThatItWaits: it would say so for ever of each check that is new.
func TestWhoOnlyObservesDoesNotSayThatItWaits(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.WithAdoption, func(s *stage.Stage) { s.Observe = true })
	s.CreateMachine("m-1")
	check := s.CreateInTreeCheck("workers")
	c := s.Start()
	c.NeverIdle = true
	s.Eventually(stage.Get(s, check)).
		Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.SetInTreePaused(check, false)
	s.Eventually(stage.Get(s, check), stage.OutcomeTimeout).
		Should(WithTransform(stage.InTreeCondition(remedyv1.TakenOverCondition), BeEmpty()), "nothing is waited for")
	s.Expect(stage.PausedAnnotation(stage.Get(s, check)())).To(BeEmpty())
}
