// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

var (
	nobodysTurn = Lease{Used: true}
	ourTurn     = Lease{Used: true, HeldByThis: true, Holder: "this", Until: ago(-10 * time.Minute)}
	halfOver    = Lease{Used: true, HeldByThis: true, Holder: "this", Until: ago(-330 * time.Second)}
)

// The control-plane Lease is acquired before the request is created, and released when the last request of a member is deleted.
func TestControlPlaneLease_Request_IsHeldUntilDeleted(t *testing.T) {
	ofCP := lost()
	tests := []struct {
		why      string
		options  []option
		writes   []Write
		released bool
	}{
		{
			why: "it is taken before the request is made", options: []option{ofControlPlane, turn(nobodysTurn)},
			writes: []Write{AcquireControlPlaneLease, CreateRequest},
		},
		{
			why: "after that at the Node", options: []option{ofControlPlane, turn(nobodysTurn), lease(Lease{Used: true})},
			writes: []Write{AcquireLease, AcquireControlPlaneLease, CreateRequest},
		},
		{
			why: "held by this check after an interrupted reconcile", options: []option{ofControlPlane, turn(ourTurn)},
			writes: []Write{AcquireControlPlaneLease, CreateRequest},
		},
		{why: "not for a worker", options: []option{turn(nobodysTurn)}, writes: []Write{CreateRequest}},
		{why: "no control-plane Lease in use", options: []option{ofControlPlane}, writes: []Write{CreateRequest}},
		{
			why: "nor by owners, who serialise by themselves", options: []option{ofControlPlane, byOwner, turn(nobodysTurn)},
			writes: []Write{SetMarkedBy, SetOwnerRemediated},
		},
		{why: "it is kept while the request is there", options: []option{ofControlPlane, turn(ourTurn), requested()}},
		{
			why: "and renewed when half of its time is over", options: []option{ofControlPlane, turn(halfOver), requested()},
			writes: []Write{AcquireControlPlaneLease},
		},
		{why: "also at a target that is paused", options: []option{ofControlPlane, turn(halfOver), requested(), is(paused)}},
		{why: "also with a check that is paused", options: []option{ofControlPlane, turn(halfOver), requested(), pausedCheck}},
		{why: "a worker's request does not renew it", options: []option{turn(halfOver), requested()}, released: true},
		{
			why: "also while it is being withdrawn", options: []option{ofControlPlane, turn(ourTurn), requested(), is(well)},
			writes: []Write{DeleteRequest},
		},
		{
			why:     "orphan with a request",
			options: []option{is(well), turn(ourTurn), orphan(Orphan{Name: "cp-2", ControlPlane: true, Request: ofCP})},
		},
		{why: "a worker's request does not need it", options: []option{requested(), turn(ourTurn)}, released: true},
		{why: "nor does an orphaned target one", options: []option{is(well), turn(ourTurn), orphan(Orphan{Name: "m2", Request: ofCP})}, released: true},
		{
			why:     "nor an orphaned target mark",
			options: []option{is(well), turn(ourTurn), orphan(Orphan{Name: "cp-2", ControlPlane: true, Marked: true})}, released: true,
		},
		{why: "it is released when there is nothing left", options: []option{ofControlPlane, is(well), turn(ourTurn)}, released: true},
		{why: "also by an observer", options: []option{ofControlPlane, turn(ourTurn), observes}, released: true},
		{why: "Lease of another holder", options: []option{ofControlPlane, is(well), turn(Lease{Used: true, Holder: "other", Until: noon})}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			x := usual(test.options...)
			plan := x.plan()
			g.Expect(plan.Decisions[0].Writes(&x.situation.Targets[0])).To(Equal(test.writes))
			writes := plan.CheckWrites(&x.situation, true)
			g.Expect(slices.Contains(writes, ReleaseControlPlaneLease)).To(Equal(test.released))
		})
	}
}

// The Lease is also renewed for an orphaned target. A preflight check that fails writes nothing.
func TestControlPlaneLease_HalfOver_IsRenewed(t *testing.T) {
	g := NewWithT(t)
	left := Orphan{Name: "cp-2", ControlPlane: true, Request: lost()}
	x := usual(is(well), turn(halfOver), orphan(left))
	plan := x.plan()
	g.Expect(plan.Orphans[0].OrphanWrites(&left)).To(ContainElement(AcquireControlPlaneLease))
	g.Expect(plan.Orphans[0].ControlPlaneLeaseUntil).To(Equal(ago(-11 * time.Minute)))
	g.Expect(plan.WakeUp).To(Equal(ago(-330 * time.Second)))
	left.Paused = true
	x = usual(is(well), turn(halfOver), orphan(left))
	plan = x.plan()
	g.Expect(plan.Orphans[0].OrphanWrites(&left)).To(BeEmpty(), "a pause leaves it")

	x = usual(ofControlPlane, turn(halfOver), requested())
	plan = x.plan()
	d := Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], &PreflightCheck{Failed: true}, noon)
	g.Expect(d.Writes(&x.situation.Targets[0])).To(BeEmpty())
	x = usual(ofControlPlane, turn(ourTurn), requested())
	g.Expect(x.plan().WakeUp).To(Equal(ago(-270*time.Second)), "before it expires")
}

// A target that the preflight check blocks does not acquire the control-plane Lease, and releases one that it held.
func TestControlPlaneLease_PreflightBlocks_IsReleased(t *testing.T) {
	g := NewWithT(t)
	x := usual(ofControlPlane, turn(ourTurn))
	plan := x.plan()
	g.Expect(plan.ReleaseControlPlaneLease).To(BeFalse())
	g.Expect(plan.Decisions[0].ControlPlaneLeaseUntil).To(Equal(ago(-11*time.Minute)), "its timeout and a margin")
	plan.Decisions[0] = Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], &PreflightCheck{Failed: true}, noon)
	a := assessed(x.verdicts)
	plan.Conclude(&a, noon)
	g.Expect(plan.ReleaseControlPlaneLease).To(BeTrue())
	g.Expect(plan.CheckWrites(&x.situation, true)).To(Equal([]CheckWrite{ReleaseControlPlaneLease}))
	well := usual(ofControlPlane, is(well), turn(ourTurn))
	cleaned := well.plan()
	g.Expect(cleaned.CheckWrites(&well.situation, true)).To(
		Equal([]CheckWrite{ReleaseControlPlaneLease, RemoveFinalizer}), "the turn goes before the finalizer",
	)
	x.situation.Check.Paused = true
	g.Expect(plan.CheckWrites(&x.situation, true)).To(BeEmpty(), "a paused check releases nothing")
}

// The Machine records since when its Node does not exist, because no other object has that time.
func TestNodeGoneSince_MissingNode_IsRecorded(t *testing.T) {
	gone := sickFor(time.Hour)
	gone.NodeGoneSince = ago(time.Minute)
	noted := target(func(t *Target) { t.NodeGoneSince = ago(time.Minute) })
	tests := []struct {
		why       string
		options   []option
		want      []Write
		finalizer bool
	}{
		{why: "it is noted", options: []option{is(gone), byOwner}, want: []Write{WriteNodeGone, SetMarkedBy, SetOwnerRemediated}, finalizer: true},
		{why: "once", options: []option{is(gone), noted, requested()}, finalizer: true},
		{why: "it goes when the Node is back", options: []option{is(well), noted}, want: []Write{WriteNodeGone}},
		{why: "a pause leaves it", options: []option{is(paused), noted}, finalizer: true},
		{why: "who observes notes nothing", options: []option{is(gone), observes}},
		{why: "and takes away what was noted before", options: []option{is(gone), noted, observes}, want: []Write{WriteNodeGone}},
		{why: "a check that goes takes it away", options: []option{is(gone), noted, goes}, want: []Write{WriteNodeGone}},
		{why: "another check that is responsible for it needs it", options: []option{is(gone), noted, coveredBy("other")}},
		{why: "another check is responsible", options: []option{is(gone), coveredBy("other")}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			x := usual(test.options...)
			plan := x.plan()
			g.Expect(plan.Decisions[0].Writes(&x.situation.Targets[0])).To(Equal(test.want))
			g.Expect(plan.Finalizer).To(Equal(test.finalizer))
		})
	}
}

// Annotations on a Machine that no check selects are removed, too.
func TestOrphan_Records_AreRemoved(t *testing.T) {
	g := NewWithT(t)
	left := Orphan{Name: "m2", History: History{Failures: 1}, NodeGoneSince: noon}
	x := usual(orphan(left))
	plan := x.plan()
	g.Expect(plan.Orphans[0].OrphanWrites(&left)).To(Equal([]Write{WriteNodeGone, WriteHistory}))
	g.Expect(plan.Finalizer).To(BeTrue())
	left.Paused = true
	x = usual(orphan(left))
	plan = x.plan()
	g.Expect(plan.Orphans[0].OrphanWrites(&left)).To(BeEmpty(), "a pause leaves them")
}

// A remediator needs time to stop. No other remediation begins meanwhile.
func TestLease_Withdrawn_IsRenewedUntilDeleted(t *testing.T) {
	g := NewWithT(t)
	old := Lease{Used: true, HeldByThis: true, Holder: "this", Until: ago(-time.Minute)}
	for _, options := range [][]option{{goes, requested(), lease(old)}, {goes, requested(beingDeleted(time.Minute)), lease(old)}} {
		x := usual(options...)
		plan := x.plan()
		g.Expect(plan.Decisions[0].LeaseUntil).To(Equal(ago(-11 * time.Minute)))
		g.Expect(plan.Decisions[0].RenewAt).To(Equal(ago(-5*time.Minute - 30*time.Second)))
	}
	left := Orphan{Name: "m2", Request: lost(), Lease: old}
	x := usual(is(well), orphan(left))
	plan := x.plan()
	g.Expect(plan.Orphans[0].LeaseUntil).To(Equal(ago(-11 * time.Minute)))
	g.Expect(plan.Orphans[0].OrphanWrites(&left)).To(Equal([]Write{StopRemediator, DeleteRequest, AcquireLease}))
	g.Expect(plan.WakeUp).To(Equal(ago(-5*time.Minute - 30*time.Second)))
}

// What a person asked for is done once, and its request stays as the proof until the wish is withdrawn.
func TestRemediateAnnotation_Remediated_IsNotRepeated(t *testing.T) {
	g := NewWithT(t)
	done := func(options ...option) Decision {
		d := usual(append([]option{is(wished), requested(succeeded, func(r *Request) { r.Started = ago(time.Hour) })}, options...)...).plan().Decisions[0]
		return Decision{Action: d.Action, Why: d.Why, Block: d.Block}
	}
	held := Decision{Block: Block{Reason: AnnotationNotRemoved, Details: Details{Cause: stepA.Template}}}
	g.Expect(done()).To(Equal(held), "however long ago that was")
	g.Expect(done(twoSteps)).To(Equal(held), "no further step is needed")
	g.Expect(done(steps(Step{ID: stepB}))).To(Equal(held), "nor another one")
	unfinished := usual(is(wished), requested()).plan().Decisions[0]
	g.Expect(unfinished.Action).To(Equal(Wait), "it has to be done first")
	g.Expect(done(alsoSick)).To(Equal(Decision{Action: GiveUp, Why: StepTimedOut}), "who is unhealthy besides was not helped")
	d := usual(is(wished), requested(succeeded), ours(ago(-time.Minute))).plan().Decisions[0]
	g.Expect(d.LeaseUntil).To(Equal(ago(-time.Minute)), "the expired Lease blocks no other holder")
}

// A pause of the target gives a step its time back, as one of the check does.
func TestStepTimeout_AfterPauseOfTarget_StartsAgain(t *testing.T) {
	g := NewWithT(t)
	old := requested(func(r *Request) { r.Started = ago(time.Hour) })
	g.Expect(usual(old).plan().Decisions[0].Action).To(Equal(GiveUp))
	thawed := func(at time.Time) option { return target(func(t *Target) { t.UnpausedAt = at }) }
	g.Expect(usual(old, thawed(ago(time.Minute))).plan().Decisions[0].Until).To(Equal(ago(-9 * time.Minute)))
	g.Expect(usual(old, thawed(ago(-moment))).plan().Decisions[0].Action).To(
		Equal(GiveUp), "one that is still to come is by a clock that was ahead",
	)
	both := []option{old, thawed(ago(2 * time.Minute)), unpausedAt(ago(time.Minute))}
	g.Expect(usual(both...).plan().Decisions[0].Until).To(Equal(ago(-9*time.Minute)), "the later of both")
}

// A time that a clock ahead has recorded changes the plan when it comes, so the check is reconciled then.
func TestUnpauseTime_InFuture_WakesThen(t *testing.T) {
	soon := ago(-moment)
	for _, ahead := range []option{
		target(func(t *Target) { t.UnpausedAt = soon }),
		unpausedAt(soon),
	} {
		x := usual(requested(func(r *Request) { r.Started = ago(time.Hour) }), ahead)
		NewWithT(t).Expect(x.plan().WakeUp).To(Equal(soon))
	}
}

// A target without a known start is not reported as unhealthy for the longest time.
func TestCandidates_UnknownSince_ComeLast(t *testing.T) {
	unknown := sickFor(time.Hour)
	unknown.Since = time.Time{}
	x := usual(is(unknown), also(Target{Name: "m2", Owner: owner}, sickFor(time.Minute)), slots(1))
	NewWithT(t).Expect(x.plan().Decisions[1].Action).To(Equal(StartRequest))
}

// A check that holds only the Lease of a target gives it up when it expires, also of an unhealthy target.
func TestCoveredByOther_Until_IsReported(t *testing.T) {
	// The status reports the overlap until then, also that of a paused target.
	paused := health.Verdict{Kind: health.Undetermined, Reason: health.Paused}
	for _, verdict := range []health.Verdict{sickFor(time.Hour), well, unreadable, paused} {
		x := usual(is(verdict), coveredBy("other"), target(func(t *Target) { t.CoveredUntil = ago(-time.Minute) }))
		plan := x.plan()
		NewWithT(t).Expect(plan.WakeUp).To(Equal(ago(-time.Minute)))
		if hold := plan.Decisions[0].Block; hold.Reason != "" {
			NewWithT(t).Expect(hold.Until).To(Equal(ago(-time.Minute)))
		}
	}
}

// A Node that cannot be written to is no reason to let a remediator go on: what is only wiped or renewed comes last.
func TestWrites_RemovedHistory_ComesLast(t *testing.T) {
	g := NewWithT(t)
	known := target(func(t *Target) { t.History = History{Failures: 1, Tried: stepA} })
	writes := func(options ...option) []Write {
		x := usual(append([]option{requested(), known}, options...)...)
		return x.plan().Decisions[0].Writes(&x.situation.Targets[0])
	}
	g.Expect(writes(goes)).To(Equal([]Write{StopRemediator, DeleteRequest, WriteHistory}))
	g.Expect(writes(goes, ours(ago(-time.Minute)))).To(Equal([]Write{StopRemediator, DeleteRequest, WriteHistory, AcquireLease}))
	g.Expect(writes(is(well))).To(Equal([]Write{DeleteRequest, WriteHistory}))
	g.Expect(writes(requested(failed), target(func(t *Target) { t.History = History{} }))).To(
		Equal([]Write{WriteHistory, StopRemediator, DeleteRequest}), "but a failure is remembered before",
	)
}

// A check of the other kind continues from the annotations of the other object. Those of this object are removed.
func TestCoveredElsewhere_Records_AreRemoved(t *testing.T) {
	g := NewWithT(t)
	for _, elsewhere := range []bool{false, true} {
		x := usual(coveredBy("other"), target(func(t *Target) {
			t.History, t.NodeGoneSince, t.CoveredElsewhere = History{Failures: 1}, noon, elsewhere
		}))
		plan := x.plan()
		g.Expect(plan.Decisions[0].History == History{}).To(Equal(elsewhere))
		g.Expect(plan.Decisions[0].NodeGoneSince.IsZero()).To(Equal(elsewhere))
	}
}

// A storm neither begins nor ends during a first look. When that is over, it can begin to end.
func TestStorm_Reconnecting_WakesAfterGracePeriod(t *testing.T) {
	g := NewWithT(t)
	looking := check(func(c *Check) { c.Reconnecting, c.ReconnectingUntil = true, ago(-time.Minute) })
	x := usual(is(leftAlone), cooldown, stormy(time.Minute), looking)
	g.Expect(x.plan().WakeUp).To(Equal(ago(-time.Minute)))
	x = usual(is(leftAlone), cooldown, looking)
	g.Expect(x.plan().WakeUp).To(Equal(ago(-time.Minute)), "it may begin then, too")
	x = usual(is(leftAlone), looking)
	g.Expect(x.plan().WakeUp).To(Equal(ago(-time.Minute)), "the conditions of the check report the grace period")
}

// Between two steps the Lease of the Node is not needed.
func TestLease_BlockedBetweenSteps_IsReleased(t *testing.T) {
	g := NewWithT(t)
	for _, test := range []struct {
		look PreflightCheck
		want []Write
	}{
		{PreflightCheck{Verdict: well}, []Write{RemoveConfirmation, ReleaseLease}},
		{PreflightCheck{Late: true}, []Write{RemoveConfirmation}},
		{PreflightCheck{Paused: true}, nil},
		{PreflightCheck{Failed: true}, nil},
	} {
		x := usual(confirmed, ours(ago(-time.Minute)))
		t1, plan := &x.situation.Targets[0], x.plan()
		held := Confirm(&plan, t1, &plan.Decisions[0], &x.verdicts[0], &test.look, noon)
		g.Expect(held.Writes(t1)).To(Equal(test.want))
	}
}

// The members are those of the first source with any. A control plane without any has external etcd.
func TestEtcdOf_Sources_FirstWithMembersWins(t *testing.T) {
	g := NewWithT(t)
	byMachines, byNodes := members(3, "n2").Members, members(1).Members
	g.Expect(EtcdOf(byMachines, nil, byNodes)).To(Equal(Etcd{State: EtcdStacked, Members: byMachines}))
	g.Expect(EtcdOf(nil, nil, byNodes)).To(Equal(Etcd{State: EtcdStacked, Members: byNodes}))
	g.Expect(EtcdOf(nil, nil)).To(Equal(Etcd{State: EtcdExternal}))
}

// A reconcile that was interrupted between the deletion of a request and the removal of its history is completed by the next one.
func TestHistory_RecoveredWhileDeleting_IsRemoved(t *testing.T) {
	g := NewWithT(t)
	x := usual(is(well), requested(beingDeleted(time.Minute)), target(func(t *Target) { t.History = History{Failures: 2} }))
	g.Expect(x.plan().Decisions[0].History).To(BeZero())
	is(sickFor(time.Hour))(x)
	g.Expect(x.plan().Decisions[0].History).To(Equal(History{Failures: 2}), "who is not well is remembered")
}

// A target that waited for another one, which the preflight check blocked, reports what it waits for now.
func TestPlanAgain_StillBlocked_ReportsNewReason(t *testing.T) {
	g := NewWithT(t)
	x := usual(ofControlPlane, also(Target{Name: "m2", Node: "n2", ControlPlane: true, Owner: owner}, sickFor(time.Hour)))
	a, plan := assessed(x.verdicts), x.plan()
	g.Expect(plan.Decisions[1].Block).To(Equal(Block{Reason: ControlPlaneBusy, Details: Details{Cause: "m1"}}))
	plan.Decisions[0] = Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], &PreflightCheck{Failed: true}, noon)
	x.situation.Targets[1].Terminating = Departure{Sign: "a taint", Since: noon}
	g.Expect(PlanAgain(&plan, &x.situation, &a, &x.policy, noon)).To(BeEmpty())
	g.Expect(plan.Decisions[0].Block.Reason).To(Equal(PreflightFailed))
	g.Expect(plan.Decisions[0].Answers).ToNot(BeEmpty(), "and what the preflight check saw is not forgotten")
	g.Expect(plan.Decisions[1].Block.Reason).To(Equal(Terminating))
	g.Expect(plan.Decisions[1].Until).To(Equal(noon.Add(DeletionTimeout)))
}
