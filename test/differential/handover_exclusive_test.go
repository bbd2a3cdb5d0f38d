// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// Checks were adopted; then the in-tree controller is stopped for good, and --in-tree-machinehealthchecks=Replace is set. Remediations continue,
// the pauses of Remedy are removed, and the pause of a user stays. Then all of it is reverted.
func TestReplace_SetAndReverted_RemediationsContinue(t *testing.T) {
	a := newEnvironment(t)
	a.template()
	marks, marked := a.pool("marks")
	asks, helped := a.pool("asks", byTheirTemplate)
	later := a.machine("marks-2", func(m *clusterv1.Machine) { m.Labels[poolLabel] = "marks" })
	inTree := a.runs(server.Admin)
	a.takesOver = intree.AdoptionPolicy{All: true}
	remedyEnv := a.goes()
	for _, c := range []*inTreeCheck{marks, asks} {
		a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	}
	a.falls(marked)
	a.falls(helped)
	a.Eventually(a.owner(marked)).Should(Equal(waits))
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	request := a.allRequests()[0].GetUID()

	inTree.stop()
	remedyEnv.stop()
	a.takesOver = intree.AdoptionPolicy{Replace: true}
	remedyEnv = a.goes()
	for _, c := range []*inTreeCheck{marks, asks} {
		a.Eventually(c.pause).Should(BeEmpty())
		a.Eventually(c.condition(clusterv1.PausedCondition)).Should(Equal("False " + remedyv1.NotPausedReason))
		a.Eventually(c.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	}
	a.falls(later)
	a.Eventually(a.owner(later)).Should(Equal(waits))
	a.Expect(a.allRequests()[0].GetUID()).To(Equal(request), "what was begun goes on")
	marks.annotate(clusterv1.PausedAnnotation, "by hand")
	a.Eventually(marks.condition(clusterv1.PausedCondition)).Should(HavePrefix("True"))
	a.turnWell(helped)
	a.Eventually(a.requests).Should(BeEmpty(), "this one is not paused")
	a.turnWell(later)
	a.Eventually(a.health(helped)).Should(Equal(isWell))
	a.Expect(a.health(later)()).To(Equal(isSick), "a person's pause is a pause")
	marks.annotate(clusterv1.PausedAnnotation, "")
	a.Eventually(a.health(later)).Should(Equal(isWell))

	remedyEnv.stop()
	a.runs(server.Admin)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	a.goes()
	for _, c := range []*inTreeCheck{marks, asks} {
		a.Eventually(c.traces).Should(BeEmpty())
		a.Eventually(c.condition(clusterv1.PausedCondition)).Should(HavePrefix("False"))
	}
	a.falls(helped)
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	a.Expect(ourNotes(&a.allRequests()[0])).To(BeEmpty(), "the in-tree controller has made it")
	marks.asked(true)
	a.Eventually(marks.condition(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	a.Expect(marks.pause()).To(Equal(remedyv1.Pause), "the in-tree controller runs again")
	a.Expect(asks.traces()).To(BeEmpty())
}
