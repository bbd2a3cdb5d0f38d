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

// Checks were taken over by the handshake; then the in-tree controller is stopped for good, and we are told so. What had been begun goes
// on, our pauses go, and a person's pause is still one. Then all of it goes back.
func TestTheInTreeControllerIsStoppedForGoodAndComesBack(t *testing.T) {
	a := newEnvironment(t)
	a.template()
	marks, marked := a.pool("marks")
	asks, helped := a.pool("asks", byTheirTemplate)
	later := a.machine("marks-2", func(m *clusterv1.Machine) { m.Labels[poolLabel] = "marks" })
	inTree := a.runs(server.Admin)
	a.takesOver = intree.AdoptionPolicy{All: true}
	ours := a.goes()
	for _, c := range []*theirs{marks, asks} {
		a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	}
	a.falls(marked)
	a.falls(helped)
	a.Eventually(a.owner(marked)).Should(Equal(waits))
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	request := a.allRequests()[0].GetUID()

	inTree.stop()
	ours.stop()
	a.takesOver = intree.AdoptionPolicy{Replace: true}
	ours = a.goes()
	for _, c := range []*theirs{marks, asks} {
		a.Eventually(c.pause).Should(BeEmpty())
		a.Eventually(c.says(clusterv1.PausedCondition)).Should(Equal("False " + remedyv1.NotPausedReason))
		a.Eventually(c.says(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	}
	a.falls(later)
	a.Eventually(a.owner(later)).Should(Equal(waits))
	a.Expect(a.allRequests()[0].GetUID()).To(Equal(request), "what was begun goes on")
	marks.annotate(clusterv1.PausedAnnotation, "by hand")
	a.Eventually(marks.says(clusterv1.PausedCondition)).Should(HavePrefix("True"))
	a.turnWell(helped)
	a.Eventually(a.requests).Should(BeEmpty(), "this one is not paused")
	a.turnWell(later)
	a.Eventually(a.health(helped)).Should(Equal(isWell))
	a.Expect(a.health(later)()).To(Equal(isSick), "a person's pause is a pause")
	marks.annotate(clusterv1.PausedAnnotation, "")
	a.Eventually(a.health(later)).Should(Equal(isWell))

	ours.stop()
	a.runs(server.Admin)
	a.takesOver = intree.AdoptionPolicy{OptIn: true}
	a.goes()
	for _, c := range []*theirs{marks, asks} {
		a.Eventually(c.traces).Should(BeEmpty())
		a.Eventually(c.says(clusterv1.PausedCondition)).Should(HavePrefix("False"))
	}
	a.falls(helped)
	a.Eventually(a.requests).Should(ConsistOf("asks-1"))
	a.Expect(ourNotes(&a.allRequests()[0])).To(BeEmpty(), "the in-tree controller has made it")
	marks.asked(true)
	a.Eventually(marks.says(remedyv1.AdoptedCondition)).Should(Equal("True " + remedyv1.AdoptedReason))
	a.Expect(marks.pause()).To(Equal(remedyv1.Pause), "there is somebody to shake hands with again")
	a.Expect(asks.traces()).To(BeEmpty())
}
