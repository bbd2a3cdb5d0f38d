// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// What was wrong once stays right.

func TestPlan_Arguments_AreNotChanged(t *testing.T) {
	g := NewWithT(t)
	x := usual(slots(1), pausedCheck)
	x.situation.Replacing = []Replacement{{Target: "b"}, {Target: "a"}}
	g.Expect(x.plan().Replacing).To(HaveLen(2))
	g.Expect(x.situation.Replacing[0].Target).To(Equal("b"))
}

func TestPlan_CoveredTarget_KeepsItsHistory(t *testing.T) {
	x := usual(coveredBy("MachineHealthCheck/other"), remembers(1, noon.Add(time.Hour)))
	d := x.plan().Decisions[0]
	NewWithT(t).Expect(d.Writes(&x.situation.Targets[0])).To(BeEmpty(), "two checks with different limits would correct each other for ever")
	x = usual(coveredBy("MachineHealthCheck/other"), target(func(t *Target) { t.History.Tried = StepID{Order: 7, Template: "Z/z"} }))
	d = x.plan().Decisions[0]
	NewWithT(t).Expect(d.Writes(&x.situation.Targets[0])).To(BeEmpty(), "its steps are those of the other check")
}

func TestStepTimeout_AfterPause_StartsAgain(t *testing.T) {
	g := NewWithT(t)
	thawed := func(ago_ time.Duration) option { return unpausedAt(ago(ago_)) }
	decide := func(options ...option) Decision { return usual(options...).plan().Decisions[0] }
	g.Expect(decide(requested(started(time.Hour)), thawed(time.Minute)).Action).To(Equal(Wait))
	g.Expect(decide(requested(started(time.Hour)), thawed(time.Minute)).Until).To(Equal(ago(-9 * time.Minute)))
	g.Expect(decide(requested(started(time.Hour)), thawed(10*time.Minute)).Action).To(Equal(GiveUp), "to the moment")
	g.Expect(decide(requested(started(time.Hour)), thawed(-time.Hour)).Action).To(Equal(GiveUp), "a clock that was ahead is not believed")
	g.Expect(decide(requested(started(5*time.Minute)), thawed(20*time.Minute)).Until).To(
		Equal(ago(-5*time.Minute)), "a pause before it began plays no role",
	)

	deletes := usual(orphan(Orphan{Gone: true, Request: lost(expected, started(time.Hour))}), thawed(time.Minute)).plan().Orphans[0]
	g.Expect(deletes.Action).To(Equal(Wait), "nor does who deletes the Node lose time by a pause")
}

func TestOrphan_ClusterNotFound_IsWithdrawn(t *testing.T) {
	x := usual(orphan(Orphan{Gone: true, Request: lost(expected)}), timeout(0), clusterIs(ClusterIsMissing))
	NewWithT(t).Expect(x.plan().Orphans[0].Action).To(Equal(Withdraw))
}

func TestOrphan_InReplacing_CountsOnce(t *testing.T) {
	x := usual(is(well), slots(3), orphan(Orphan{Name: "s", Request: lost()}))
	x.situation.Replacing = []Replacement{{Target: "s", Owner: owner}}
	x.situation.Owners = []Owner{{Name: owner, Desired: 2, WithNode: 1}}
	x.policy.ReplacementTimeout = time.Hour
	NewWithT(t).Expect(x.plan().Counts.InFlight).To(Equal(1))
}

func TestOrphan_ControlPlane_KeepsItBusy(t *testing.T) {
	x := usual(ofControlPlane, orphan(Orphan{Name: "cp-2", ControlPlane: true, Request: lost()}))
	NewWithT(t).Expect(x.plan().Decisions[0].Block).To(Equal(Block{Reason: ControlPlaneBusy, Details: Details{Cause: "cp-2"}}))
}

// A request that a finalizer keeps is reported after five minutes, whatever its target needs now.
func TestPlan_FinalizerKeepsRequest_IsReported(t *testing.T) {
	g := NewWithT(t)
	late, early := requested(beingDeleted(5*time.Minute)), requested(beingDeleted(5*time.Minute-moment))
	for _, options := range [][]option{{}, {is(well)}, {is(leftAlone)}, {observes}} {
		plan := usual(append(options, late)...).plan()
		g.Expect(plan.Kept).To(HaveLen(1))
		plan = usual(append(options, early)...).plan()
		g.Expect(plan.Kept).To(BeEmpty())
		g.Expect(plan.WakeUp).To(Equal(ago(-moment)))
	}
	lostNode := func(paused bool) option {
		return orphan(Orphan{Name: "m-2", Paused: paused, Request: lost(beingDeleted(5 * time.Minute))})
	}
	g.Expect(usual(lostNode(false)).plan().Kept).To(Equal([]string{"m-2"}))
	g.Expect(usual(lostNode(true)).plan().Kept).To(BeEmpty())
	g.Expect(usual(is(paused), late).plan().Kept).To(BeEmpty())
	g.Expect(usual(late, pausedCheck).plan().Kept).To(BeEmpty())
}

func TestPlan_RequestExists_RequestsNoOwnerRemediation(t *testing.T) {
	x := usual(byOwner)
	plan := x.plan()
	look := &PreflightCheck{Verdict: x.verdicts[0], Target: Target{Request: &Request{}}}
	got := Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], look, noon)
	NewWithT(t).Expect(got.Block.Reason).To(Equal(PreflightFailed))
}

// A remediator that has failed requests owner remediation, and the cache does not show it yet. What was there before is a remnant.
func TestPreflight_OwnerAskedSincePlan_StartsNoRequest(t *testing.T) {
	g := NewWithT(t)
	x := usual()
	plan := x.plan()
	g.Expect(plan.Decisions[0].Action).To(Equal(StartRequest))
	look := &PreflightCheck{Verdict: x.verdicts[0], Target: x.situation.Targets[0]}
	confirm := func(requested bool) Decision {
		look.Target.OwnerRemediation = OwnerRemediation{Unhealthy: true, Requested: requested, Waiting: true, Since: ago(time.Second)}
		return Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], look, noon)
	}
	g.Expect(confirm(true).Block.Reason).To(Equal(PreflightFailed))
	g.Expect(confirm(false).Action).To(Equal(StartRequest), "no owner acts without HealthCheckSucceeded=False")
	x.situation.Targets[0].OwnerRemediation.Since = ago(time.Second)
	g.Expect(confirm(true).Action).To(Equal(StartRequest))
}

func TestPlan_SeveralBlock_NamesTheSameOne(t *testing.T) {
	g := NewWithT(t)
	for _, busy := range [][]string{{"cp-2", "cp-3"}, {"cp-3", "cp-2"}} {
		x := usual(ofControlPlane)
		for _, name := range busy {
			x.situation.Orphans = append(x.situation.Orphans, Orphan{Name: name, ControlPlane: true, Request: lost()})
		}
		g.Expect(x.plan().Decisions[0].Block.Details.Cause).To(Equal("cp-2"))
	}
}

func TestConfirmation_Used_IsRemoved(t *testing.T) {
	g := NewWithT(t)
	drops := func(options ...option) bool {
		return usual(append(options, confirmed)...).plan().Decisions[0].DropConfirmation
	}
	g.Expect(drops(is(well))).To(BeTrue(), "otherwise the next failure would end without a remediation")
	g.Expect(drops()).To(BeTrue(), "also before the next request is made")
	g.Expect(drops(is(well), requested())).To(BeFalse(), "it is for this request")
	g.Expect(drops(is(well), coveredBy("MachineHealthCheck/other"))).To(BeFalse(), "it is for another check")
	g.Expect(drops(is(well), observes)).To(BeFalse())
	g.Expect(drops(is(well), byOwner)).To(BeFalse(), "without a template, it is for another controller")
	x := usual(is(well), confirmed)
	d := x.plan().Decisions[0]
	g.Expect(d.Writes(&x.situation.Targets[0])).To(Equal([]Write{RemoveConfirmation}))
	x = usual(confirmed)
	d = x.plan().Decisions[0]
	g.Expect(d.Writes(&x.situation.Targets[0])).To(HaveExactElements(RemoveConfirmation, CreateRequest),
		"a remediation does not start while the confirmation of an earlier one exists")
}

func TestConclude_ReadFailed_RetriesSoon(t *testing.T) {
	g := NewWithT(t)
	for _, look := range []*PreflightCheck{{Failed: true}, nil} {
		x := usual()
		plan := x.plan()
		if look == nil {
			plan.Decisions[0] = Rejected(&plan.Decisions[0], &x.situation.Targets[0], "denied")
		} else {
			plan.Decisions[0] = Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], look, noon)
		}
		a := assessed(x.verdicts)
		plan.Conclude(&a, noon)
		g.Expect(plan.WakeUp).To(Equal(noon.Add(RetryTime)), "no watch reports when it can be read")
		g.Expect(plan.Counts).To(Equal(Counts{Blocked: 1}))
	}
}

// Leases and the members of etcd are in the cluster of the Nodes. The manager does not watch them there.
func TestConclude_NoWatch_Polls(t *testing.T) {
	g := NewWithT(t)
	reasons := make([]Reason, 0, 7)
	for _, x := range []*scene{
		usual(ofControlPlane, turn(Lease{Used: true, Holder: "other", Until: noon.Add(time.Hour)})),
		usual(ofControlPlane, func(x *scene) { x.situation.ControlPlane.Busy = []string{"n2"} }),
		usual(ofControlPlane, etcd(Etcd{})),
		usual(ofControlPlane, etcd(members(1))),
		usual(ofControlPlane, etcd(members(3, "n2"))),
		usual(lease(heldUntil(noon.Add(time.Hour)))),
		usual(clockIsAhead(time.Hour)),
	} {
		plan := x.plan()
		reasons = append(reasons, plan.Decisions[0].Block.Reason)
		g.Expect(plan.WakeUp).To(Equal(noon.Add(RetryTime)))
	}
	g.Expect(reasons).To(Equal([]Reason{
		ControlPlaneBusy, ControlPlaneBusy, QuorumUnknown, SingleControlPlane, QuorumAtRisk, NodeLeaseHeld, ClockSkew,
	}))
}

func TestPlanAgain_BlockedTarget_LeavesItsPlace(t *testing.T) {
	g := NewWithT(t)
	x := usual(slots(1), also(Target{Name: "m2", Owner: owner}, sickFor(6*time.Minute)))
	a := assessed(x.verdicts)
	plan := x.plan()
	g.Expect(plan.Decisions[0].Action).To(Equal(StartRequest))
	g.Expect(plan.Decisions[1].Block.Reason).To(Equal(MaxInFlight))
	g.Expect(PlanAgain(&plan, &x.situation, &a, &x.policy, noon)).To(BeEmpty(), "no target was blocked")
	plan.Decisions[0] = Rejected(&plan.Decisions[0], &x.situation.Targets[0], "denied")
	g.Expect(PlanAgain(&plan, &x.situation, &a, &x.policy, noon)).To(Equal([]int{1}))
	g.Expect(plan.Decisions[0].Block.Reason).To(Equal(RequestFailed))
	g.Expect(plan.Decisions[1].Action).To(Equal(StartRequest))
	g.Expect(PlanAgain(&plan, &x.situation, &a, &x.policy, noon)).To(BeEmpty(), "once is enough")
}

// What was blocked after it was planned comes after the others, also if it is unhealthy for longer or has more priority.
func TestPlan_BlockedBefore_ComesAfterOthers(t *testing.T) {
	g := NewWithT(t)
	x := usual(slots(1), also(Target{Name: "m2", Owner: owner}, sickFor(6*time.Minute)), also(Target{Name: "m3", Owner: owner}, sickFor(6*time.Minute)))
	x.situation.Targets[0].BlockedAt, x.situation.Targets[0].History.Tried = ago(time.Minute), x.policy.Steps[0].ID
	x.situation.Targets[1].BlockedAt = ago(2 * time.Minute)
	plan := x.plan()
	g.Expect(plan.Decisions[2].Action).To(Equal(StartRequest))
	x.situation.Targets[2].BlockedAt = noon
	plan = x.plan()
	g.Expect(plan.Decisions[1].Action).To(Equal(StartRequest), "the one that was blocked first is next")
}

func TestPlanAgain_NewTarget_IsRecorded(t *testing.T) {
	g := NewWithT(t)
	x := usual(byOwner, slots(1), also(Target{Name: "m2", Owner: owner}, sickFor(6*time.Minute)))
	a := assessed(x.verdicts)
	plan := x.plan()
	g.Expect(plan.Replacing).To(Equal([]Replacement{{Target: "m1", Owner: owner}}))
	plan.Decisions[0] = Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], &PreflightCheck{Failed: true}, noon)
	g.Expect(PlanAgain(&plan, &x.situation, &a, &x.policy, noon)).To(Equal([]int{1}))
	g.Expect(plan.Replacing).To(Equal([]Replacement{{Target: "m2", Owner: owner}}))
}

// A step that is over by a clock that is wrong is looked at again, and its message has no time that moves.
func TestRequest_WrongClock_IsPolled(t *testing.T) {
	g := NewWithT(t)
	plan := usual(requested(started(time.Hour)), clockIsAhead(time.Hour)).plan()
	g.Expect(plan.WakeUp).To(Equal(noon.Add(RetryTime)))
}
