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

// The in-tree controller has created a request for a check, and then ends: this check and another one with a higher priority are adopted.
// The request is withdrawn when its Machine is healthy, as with the in-tree controller.
func TestRequest_CheckNotResponsible_IsWithdrawn(t *testing.T) {
	t.Run("another template", func(t *testing.T) {
		a := newEnvironment(t)
		a.template()
		a.create(remediator.Metal3.NewTemplate(a.namespace, anotherTemplate, map[string]any{"strategy": "Reboot"}))
		first := a.inTreeCheck("first", byTheirTemplate)
		a.leavesNothing(first, a.inTreeCheck("second", byTheirTemplate, func(spec *clusterv1.MachineHealthCheckSpec) {
			spec.Remediation.TemplateRef.Name = anotherTemplate
		}))
	})
	t.Run("a check of Remedy", func(t *testing.T) {
		a := newEnvironment(t)
		a.template()
		a.remedyCheck("first", byOurTemplate)
		a.leavesNothing(a.inTreeCheck("second", byTheirTemplate))
	})
}

// Two instances have different flags. Each has one of two checks that select a Machine, and the Machine is remediated: neither takes the
// check of the other for an in-tree check.
func TestOverlap_TwoInstances_MachineIsRemediated(t *testing.T) {
	a := newEnvironment(t)
	first, second := a.inTreeCheck("first"), a.inTreeCheck("second")
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

// The in-tree controller reconciles another check and has created a request for it, and the cache of Remedy does not have this check yet. The
// request stays with the in-tree controller.
func TestRequest_OtherCheckNotInCache_IsNotAdopted(t *testing.T) {
	a := newEnvironment(t)
	a.template()
	first := a.inTreeCheck("first", byTheirTemplate)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	first.annotate(remedyv1.AdoptAnnotation, "true")
	before := a.goes()
	first.isOurs()
	a.falls(a.machine("m-3"))
	a.Eventually(a.requests).Should(ConsistOf("m-3"))
	before.stop()
	// This one has read the final state of the check: only the other check is missing in its cache.
	remedyEnv := a.goes()
	a.falls(a.machine("m-4"))
	a.Eventually(a.requests).Should(ConsistOf("m-3", "m-4"))
	remedyEnv.Watches().Hold("machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io")
	a.falls(a.machine("m-1", func(m *clusterv1.Machine) { m.Labels["late"] = "too" }))
	a.falls(a.machine("m-2"))
	late := a.inTreeCheck("late", byTheirTemplate, func(spec *clusterv1.MachineHealthCheckSpec) {
		spec.Selector.MatchLabels = map[string]string{"late": "too"}
	})
	a.Eventually(func() []string {
		late.looks()
		return a.requests()
	}).Should(ContainElement("m-1"))
	remedyEnv.Watches().Release("machines.cluster.x-k8s.io")
	a.Eventually(a.requests).Should(ConsistOf("m-1", "m-2", "m-3", "m-4"))
	for _, request := range a.allRequests() {
		a.Expect(len(ourNotes(&request)) > 0).To(Equal(request.GetName() != "m-1"), request.GetName())
	}
}

// leavesNothing lets the last of some checks make a request, and all of them be adopted.
func (a *environment) leavesNothing(checks ...*inTreeCheck) {
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
