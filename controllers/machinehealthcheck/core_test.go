// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// Checks of Cluster API, without its own controller: the tests say what that would say. It stands beside ours in module test/differential.

// withTakeOver lets the controllers take all checks of Cluster API over.
func withTakeOver(s *stage) { s.takesOver = intree.TakesOver{All: true} }

// core is a check of Cluster API for all Machines.
func (s *stage) core(name string, changes ...func(*clusterv1.MachineHealthCheck)) *clusterv1.MachineHealthCheck {
	s.t.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	check.Spec.ClusterName = s.cluster.Name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name}
	check.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: "Ready", Status: "Unknown", TimeoutSeconds: ptr.To[int32](300)}}
	for _, change := range changes {
		change(check)
	}
	s.create(check)
	return check
}

// cores are the checks of Cluster API.
func (s *stage) cores() []clusterv1.MachineHealthCheck {
	s.t.Helper()
	list := &clusterv1.MachineHealthCheckList{}
	s.Expect(s.admin.List(s.ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	return list.Items
}

// coreName tells the check of Cluster API from ours of that name.
func coreName(check string) string { return "core/" + check }

// theySay lets Cluster API's own controller tell whether it sees a pause on a check.
func (s *stage) theySay(check *clusterv1.MachineHealthCheck, paused bool) {
	s.t.Helper()
	said := metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	if paused {
		said.Status, said.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		said.Message = "MachineHealthCheck has the " + clusterv1.PausedAnnotation + " annotation"
	}
	s.changeStatus(check, func() { meta.SetStatusCondition(&check.Status.Conditions, said) })
}

// handedOver is the whole handshake.
func (s *stage) handedOver(check *clusterv1.MachineHealthCheck) {
	s.t.Helper()
	s.theySay(check, false)
	s.Eventually(get(s, check)).Should(WithTransform(pausedBy, Equal(remedyv1.Pause)))
	s.theySay(check, true)
	s.Eventually(get(s, check)).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), Equal("True "+remedyv1.TakenOverReason)))
}

func pausedBy(check *clusterv1.MachineHealthCheck) string {
	return check.Annotations[clusterv1.PausedAnnotation]
}

// coreTells is what a condition of a check of Cluster API says.
func coreTells(kind string) func(*clusterv1.MachineHealthCheck) string {
	return func(check *clusterv1.MachineHealthCheck) string {
		if c := meta.FindStatusCondition(check.Status.Conditions, kind); c != nil {
			return string(c.Status) + " " + c.Reason
		}
		return ""
	}
}

// TestWhoOnlyLooksOnHandsNothingOver: what is in our hands stays there, and nothing is begun for it. That is what the panic switch is for.
func TestWhoOnlyLooksOnHandsNothingOver(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver)
	ours, theirs := s.core("ours"), s.core("theirs", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "false"}
		check.Spec.Selector.MatchLabels = map[string]string{"nobody": "has-it"}
	})
	s.theySay(theirs, false)
	c := s.start()
	s.handedOver(ours)
	c.settle()
	c.Crash()
	c.stop()
	m := s.sick("m-1")
	s.annotate(theirs, remedyv1.TakeOverAnnotation, "")
	s.observe = true
	c = s.start()
	s.Eventually(get(s, ours)).Should(HaveField("Status.CurrentHealthy", HaveValue(BeZero())), "it is looked at")
	s.Eventually(get(s, ours)).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), Equal("False "+remedyv1.OnlyObservedReason)))
	c.settle()
	s.takesOver = intree.TakesOver{}
	c.Crash()
	c.stop()
	c = s.start()
	// It looks after nothing now, and so it does not connect to the cluster either.
	c.restless = true
	c.pass()
	s.Expect(pausedBy(get(s, ours)())).To(Equal(remedyv1.Pause))
	s.Expect(pausedBy(get(s, theirs)())).To(BeEmpty())
	s.Expect(coreTells(remedyv1.TakenOverCondition)(theirs)).To(BeEmpty())
	s.Expect(says(clusterv1.MachineOwnerRemediatedCondition)(get(s, m)())).To(BeEmpty())
}

// TestOurWordGoesAlsoWhereItIsTheOnlyOne: Cluster API's own controller has not said anything, as it does not run or does not look after this check.
func TestOurWordGoesAlsoWhereItIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.takesOver = intree.TakesOver{Annotated: true} })
	s.machine("m-1")
	check := s.core("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Annotations = map[string]string{remedyv1.TakeOverAnnotation: "true"}
	})
	c := s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.annotate(check, remedyv1.TakeOverAnnotation, "")
	s.Eventually(get(s, check), suspense).Should(HaveField("Status.Conditions", BeEmpty()), "our word goes")
}

// TestASignatureThatComesLateIsTakenOff: whoever led before may have looked before a check was given back, and signed a Machine after it.
func TestASignatureThatComesLateIsTakenOff(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.takesOver = intree.TakesOver{Annotated: true} })
	check := s.core("workers")
	s.theySay(check, false)
	late, other := s.machine("m-1"), s.machine("m-2")
	c := s.start()
	c.restless = true
	s.annotate(other, remedyv1.MarkedByAnnotation, "CoreMachineHealthCheck/other")
	s.annotate(late, remedyv1.MarkedByAnnotation, "CoreMachineHealthCheck/workers")
	s.Eventually(get(s, late), suspense).Should(HaveField("Annotations", Not(HaveKey(remedyv1.MarkedByAnnotation))), "the signature goes")
	s.Expect(get(s, other)().Annotations).To(HaveKey(remedyv1.MarkedByAnnotation), "that is not its own")
	s.annotate(other, remedyv1.MarkedByAnnotation, "")
	s.Eventually(get(s, check)).Should(WithTransform(traces, BeEmpty()))
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
	s := newStage(t)
	s.machine("m-1")
	check := s.core("workers")
	s.theySay(check, false)
	s.changeStatus(check, func() {
		meta.SetStatusCondition(&check.Status.Conditions, metav1.Condition{Type: remedyv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Mine"})
	})
	before := check.ResourceVersion
	s.check("ours")
	c := s.start()
	c.settle()
	s.Expect(get(s, check)().ResourceVersion).To(Equal(before))
}

// TestACheckIsOursWhereNobodyElseIs: no handshake, and the condition Paused is ours to tell.
func TestACheckIsOursWhereNobodyElseIs(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(s *stage) { s.takesOver, s.filter = intree.TakesOver{Exclusive: true}, "a" })
	m := s.sick("m-1")
	check := s.core("workers", func(check *clusterv1.MachineHealthCheck) {
		check.Labels = map[string]string{clusterv1.WatchLabel: "a"}
		check.Annotations = map[string]string{clusterv1.PausedAnnotation: remedyv1.Pause}
	})
	s.start()
	s.Eventually(get(s, m)).Should(WithTransform(says(clusterv1.MachineOwnerRemediatedCondition), Equal(marked)))
	s.Eventually(get(s, check)).Should(And(WithTransform(coreTells(clusterv1.PausedCondition), Equal("False "+remedyv1.NotPausedReason)), WithTransform(pausedBy, BeEmpty())))
	s.change(check, func() { check.Labels[clusterv1.WatchLabel] = "b" })
	s.Eventually(get(s, check), suspense).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), BeEmpty()), "it is not ours any more")
}

// byTheirTemplate lets a check of Cluster API remediate by a template.
func byTheirTemplate(s *stage) func(*clusterv1.MachineHealthCheck) {
	spec := &remedyv1.MachineHealthCheckSpec{}
	byTemplate(s)(spec)
	return func(check *clusterv1.MachineHealthCheck) {
		named := spec.RemediationTemplate
		check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: named.APIVersion, Kind: named.Kind, Name: named.Name}
	}
}

// TestWhoOnlyObservesDoesNotSayThatItWaits: it would say so for ever of each check that is new.
func TestWhoOnlyObservesDoesNotSayThatItWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t, withTakeOver, func(s *stage) { s.observe = true })
	s.machine("m-1")
	check := s.core("workers")
	c := s.start()
	c.restless = true
	s.Eventually(get(s, check)).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), Equal("False "+remedyv1.WaitingForHandoverReason)))
	s.theySay(check, false)
	s.Eventually(get(s, check), suspense).Should(WithTransform(coreTells(remedyv1.TakenOverCondition), BeEmpty()), "nothing is waited for")
	s.Expect(pausedBy(get(s, check)())).To(BeEmpty())
}
