// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// The in-tree controller has made a request for a check, and then nobody is left but us: the check and another one that comes before it are
// ours. The request goes when its Machine is well, as it would have if the in-tree controller had stayed.
func TestARequestOfACheckThatComesSecondIsNotLeftBehind(t *testing.T) {
	t.Run("another template", func(t *testing.T) {
		a := newEnvironment(t)
		a.template()
		a.create(remediator.Metal3.NewTemplate(a.namespace, anotherTemplate, map[string]any{"strategy": "Reboot"}))
		first := a.theirs("first", byTheirTemplate)
		a.leavesNothing(first, a.theirs("second", byTheirTemplate, func(spec *clusterv1.MachineHealthCheckSpec) {
			spec.Remediation.TemplateRef.Name = anotherTemplate
		}))
	})
	t.Run("a check of our own kind", func(t *testing.T) {
		a := newEnvironment(t)
		a.template()
		a.ours("first", byOurTemplate)
		a.leavesNothing(a.theirs("second", byTheirTemplate))
	})
}

// Two instances beside each other were asked for different things. Of two checks that select a Machine each has one, and the Machine is not
// forgotten: the one does not take the check of the other for one of Cluster API.
func TestTwoInstancesWithDifferentFlagsForgetNoMachine(t *testing.T) {
	a := newEnvironment(t)
	first, second := a.theirs("first"), a.theirs("second")
	m := a.machine("m-1")
	first.isFor("asked")
	first.annotate(remedyv1.AdoptAnnotation, "true")
	second.isFor("all")
	a.takesOver, a.watchFilter = intree.AdoptionPolicy{OptIn: true}, "asked"
	a.goes()
	a.takesOver, a.watchFilter = intree.AdoptionPolicy{All: true}, "all"
	a.goes()
	first.isOurs()
	second.isOurs()
	a.falls(m)
	a.Eventually(a.owner(m)).Should(Equal(waits))
}

// There is one more check, which the in-tree controller looks after and has made a request for, and our cache does not know of it yet. The
// request is left to whoever made it.
func TestARequestIsNotAdoptedByWhatACacheDoesNotKnow(t *testing.T) {
	a := newEnvironment(t)
	a.template()
	first := a.theirs("first", byTheirTemplate)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	first.annotate(remedyv1.AdoptAnnotation, "true")
	before := a.goes()
	first.isOurs()
	a.falls(a.machine("m-3"))
	a.Eventually(a.requests).Should(ConsistOf("m-3"))
	before.stop()
	// This one has read the check as it stays: from what it does not hear any more nothing is missing but the other check.
	ours := a.goes()
	a.falls(a.machine("m-4"))
	a.Eventually(a.requests).Should(ConsistOf("m-3", "m-4"))
	ours.Watches().Hold("machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io")
	a.falls(a.machine("m-1", func(m *clusterv1.Machine) { m.Labels["late"] = "too" }))
	a.falls(a.machine("m-2"))
	late := a.theirs("late", byTheirTemplate, func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{"late": "too"}
	})
	a.Eventually(func() []string {
		late.looks()
		return a.requests()
	}).Should(ContainElement("m-1"))
	ours.Watches().Release("machines.cluster.x-k8s.io")
	a.Eventually(a.requests).Should(ConsistOf("m-1", "m-2", "m-3", "m-4"))
	for _, request := range a.allRequests() {
		a.Expect(len(ourNotes(&request)) > 0).To(Equal(request.GetName() != "m-1"), request.GetName())
	}
}

// leavesNothing lets the last of some checks make a request, and all of them be taken over.
func (a *environment) leavesNothing(checks ...*theirs) {
	a.t.Helper()
	m := a.machine("m-1")
	a.falls(m)
	checks[len(checks)-1].looks()
	a.Expect(a.requests()).To(ConsistOf("m-1"))
	a.takesOver = intree.AdoptionPolicy{All: true}
	a.goes()
	for _, c := range checks {
		c.isOurs()
	}
	a.turnWell(m)
	a.Eventually(a.health(m)).Should(Equal(isWell))
	a.Eventually(a.requests).Should(BeEmpty())
}
