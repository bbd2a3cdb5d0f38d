// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"testing"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
)

// During adoptions, Remedy is set to Observe: neither a check nor a request is adopted or released until Remedy enforces
// again.
func TestObserve_DuringAdoption_AdoptsAndReleasesNothing(t *testing.T) {
	a := newEnvironment(t)
	a.template()
	a.takesOver, a.watchFilter = intree.AdoptionPolicy{All: true}, "mine"
	goes, _ := a.pool("goes")
	half, helped := a.pool("half", byTheirTemplate)
	a.falls(helped)
	half.looks()
	a.Expect(a.requests()).To(ConsistOf("half-1"))
	for _, c := range []*inTreeCheck{goes, half} {
		c.isFor(a.watchFilter)
	}
	remedyEnv := a.goes()
	goes.isOurs()
	a.Eventually(half.pause).Should(Equal(remedyv1.Pause))
	remedyEnv.stop()
	goes.isFor("others")
	half.looks()
	last, _ := a.pool("last")
	last.isFor(a.watchFilter)

	a.observes = true
	remedyEnv = a.goes()
	a.Eventually(half.condition(remedyv1.ReadyCondition)).ShouldNot(BeEmpty())
	a.turnWell(helped)
	a.Eventually(func() *int32 {
		half.pause()
		return half.check.Status.CurrentHealthy
	}).Should(HaveValue(BeEquivalentTo(1)), "it has reconciled, and reports")
	a.Expect(a.health(helped)()).To(Equal(isSick))
	a.Expect(goes.pause()).To(Equal(remedyv1.Pause))
	a.Expect(half.pause()).To(Equal(remedyv1.Pause))
	a.Expect(last.pause()).To(BeEmpty())
	a.Expect(a.requests()).To(ConsistOf("half-1"), "the in-tree controller has made it")
	a.Expect(ourNotes(&a.allRequests()[0])).To(BeEmpty())

	remedyEnv.stop()
	a.observes = false
	a.goes()
	a.Eventually(goes.traces).Should(BeEmpty())
	a.Eventually(last.pause).Should(Equal(remedyv1.Pause))
	a.Eventually(a.requests).Should(BeEmpty(), "it is adopted, and its Machine is healthy")
}
