// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// What was wrong once stays right.

func TestAPlanLeavesWhatItIsGivenAsItIs(t *testing.T) {
	g := NewWithT(t)
	x := usual(slots(1), check(func(c *Check) { c.Frozen = true }))
	x.situation.Replacing = []Replacement{{Target: "b"}, {Target: "a"}}
	g.Expect(x.plan().Replacing).To(HaveLen(2))
	g.Expect(x.situation.Replacing[0].Target).To(Equal("b"))
}

func TestTheLedgerOfACoveredTargetIsNotOurs(t *testing.T) {
	x := usual(coveredBy("MachineHealthCheck/other"), remembers(1, noon.Add(time.Hour)))
	d := x.plan().Decisions[0]
	NewWithT(t).Expect(d.Writes(&x.situation.Targets[0])).To(BeEmpty(), "two checks with different limits would correct each other for ever")
}

func TestWhoWasPausedIsGivenTheTimeThatIsLeft(t *testing.T) {
	g := NewWithT(t)
	thawed := func(ago_ time.Duration) option { return check(func(c *Check) { c.ThawedAt = ago(ago_) }) }
	decide := func(options ...option) Decision { return usual(options...).plan().Decisions[0] }
	g.Expect(decide(requested(started(time.Hour)), thawed(time.Minute)).Action).To(Equal(Wait))
	g.Expect(decide(requested(started(time.Hour)), thawed(time.Minute)).Until).To(Equal(ago(-9 * time.Minute)))
	g.Expect(decide(requested(started(time.Hour)), thawed(10*time.Minute)).Action).To(Equal(GiveUp), "to the moment")
	g.Expect(decide(requested(started(time.Hour)), thawed(-time.Hour)).Action).To(Equal(GiveUp), "a clock that was ahead is not believed")
	g.Expect(decide(requested(started(5*time.Minute)), thawed(20*time.Minute)).Until).To(Equal(ago(-5*time.Minute)), "a pause before it began plays no role")

	deletes := usual(stray(Stray{Gone: true, Request: lost(expected, started(time.Hour))}), thawed(time.Minute)).plan().Strays[0]
	g.Expect(deletes.Action).To(Equal(Wait), "nor does who deletes the Node lose time by a pause")
}

func TestACheckWithoutAClusterWaitsForNoNodeToGo(t *testing.T) {
	x := usual(stray(Stray{Gone: true, Request: lost(expected)}), timeout(0), check(func(c *Check) { c.Cluster = ClusterIsMissing }))
	NewWithT(t).Expect(x.plan().Strays[0].Action).To(Equal(Withdraw))
}

func TestAStrayTakesUpOnePlace(t *testing.T) {
	x := usual(is(well), slots(3), stray(Stray{Name: "s", Request: lost()}))
	x.situation.Replacing = []Replacement{{Target: "s", Owner: owner}}
	x.situation.Owners = []Owner{{Name: owner, Desired: 2, WithNode: 1}}
	x.policy.ReplacementTimeout = time.Hour
	NewWithT(t).Expect(x.plan().Counts.InFlight).To(Equal(1))
}

func TestAStrayOfTheControlPlaneKeepsItBusy(t *testing.T) {
	x := usual(ofControlPlane, stray(Stray{Name: "cp-2", ControlPlane: true, Request: lost()}))
	NewWithT(t).Expect(x.plan().Decisions[0].Hold).To(Equal(Hold{Reason: ControlPlaneBusy, Seen: Seen{Who: "cp-2"}}))
}

func TestNobodyIsGivenToItsOwnerWhileARemediatorIsAtWork(t *testing.T) {
	x := usual(byOwner)
	plan := x.plan()
	look := &Look{Verdict: x.verdicts[0], Requested: true}
	got := Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], look, noon)
	NewWithT(t).Expect(got.Hold.Reason).To(Equal(NotConfirmed))
}

func TestTheSameOneOfSeveralIsNamed(t *testing.T) {
	g := NewWithT(t)
	for _, busy := range [][]string{{"cp-2", "cp-3"}, {"cp-3", "cp-2"}} {
		x := usual(ofControlPlane)
		for _, name := range busy {
			x.situation.Strays = append(x.situation.Strays, Stray{Name: name, ControlPlane: true, Request: lost()})
		}
		g.Expect(x.plan().Decisions[0].Hold.Seen.Who).To(Equal("cp-2"))
	}
}
