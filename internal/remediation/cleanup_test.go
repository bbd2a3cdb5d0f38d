// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func goes(x *scene)     { x.situation.Check.Deleting = true }
func observes(x *scene) { x.policy.Observe = true }
func clusterIs(s ClusterState) option {
	return check(func(c *Check) { c.Cluster = s })
}

// everything is what a check can have at a target.
func everything(x *scene) {
	requested()(x)
	marked()(x)
	remembers(2, ago(-time.Minute))(x)
}

var lettingGo = []row{
	decides("a check that goes takes its requests with it", underWay(withdraws(CheckDeleting)), goes, everything),
	decides("so does one that only observes from now on", underWay(withdraws(ObserveMode)), observes, everything),
	decides("and one whose Cluster does not exist", underWay(withdraws(ClusterNotFound)), clusterIs(ClusterIsMissing), everything),
	decides("but not one whose Cluster is still there", waits(ago(-9*time.Minute)), clusterIs(ClusterIsDeleting), requested()),
	decides("another check is responsible: the history stays",
		underWay(Decision{Action: Withdraw, Why: ManagedByOtherCheck, History: History{Failures: 2, NotBefore: ago(-time.Minute)}}),
		coveredBy("MachineHealthCheck/other"), everything),
	decides("what people want to be left alone is", underWay(withdraws(NotSelected)), is(leftAlone), everything),
	decides("a check that goes is reported first", underWay(withdraws(CheckDeleting)), goes, observes, clusterIs(ClusterIsMissing),
		coveredBy("o"), is(leftAlone), requested()),
	decides("then one that observes", underWay(withdraws(ObserveMode)), observes, clusterIs(ClusterIsMissing), coveredBy("o"), is(leftAlone),
		requested()),
	decides("then the Cluster", underWay(withdraws(ClusterNotFound)), clusterIs(ClusterIsMissing), coveredBy("o"), is(leftAlone), requested()),
	decides("then the other check", underWay(withdraws(ManagedByOtherCheck)), coveredBy("o"), is(leftAlone), requested()),
	decides("a request that is going is waited for, and the marks with it", waits(never), goes, everything,
		requested(beingDeleted(4*time.Minute))),
	decides("but not if its remediator keeps it", underWay(Decision{Action: RemoveConditions, Why: CheckDeleting, Step: StepID{}}), goes,
		marked(), requested(beingDeleted(20*time.Minute))),
	decides("health does not matter", underWay(Decision{Action: Withdraw, Why: CheckDeleting, HealthySince: ago(time.Minute)}), goes, is(well),
		requested(healthySince(ago(time.Minute)))),
	decides("then the marks go", Decision{Action: RemoveConditions, Why: CheckDeleting, InFlight: true, Budgeted: true}, goes, marked()),
	decides("answered by the owner, set by this check", Decision{Action: RemoveConditions, Why: ObserveMode}, observes, marked(refused)),
	decides("healthy, with a condition of this check", Decision{Action: RemoveConditions, Why: CheckDeleting}, is(well), goes, markedByThis),
	decides("another check is responsible: the conditions of this one are removed",
		Decision{Action: RemoveConditions, Why: ManagedByOtherCheck}, coveredBy("MachineHealthCheck/other"), is(well), markedByThis),
	decides("conditions of another check stay", Decision{Block: Block{Reason: CheckDeleting}, Step: stepA, InFlight: true, Budgeted: true},
		goes, marked(byOther)),
	decides("what has nothing needs nothing, and is forgotten", Decision{}, is(leftAlone), remembers(2, ago(-time.Minute))),
	decides("unless another check needs the memory", Decision{History: History{Failures: 2, NotBefore: ago(-time.Minute)}}, is(well),
		coveredBy("MachineHealthCheck/other"), remembers(2, ago(-time.Minute))),
}

func TestPlan_UnwantedTarget_IsCleanedUp(t *testing.T) { decide(t, lettingGo) }

// A move is under way: whatever there is, and whatever would have to go, stays as it is.
var frozenRows = []row{
	decides("a paused check",
		underWay(Decision{Block: Block{Reason: Paused}, LeaseUntil: ago(time.Hour), History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
		pausedCheck, requested(failed), marked(), ours(ago(time.Hour)), remembers(1, ago(-time.Minute))),
	decides("also what is not the first step", underWay(Decision{Block: Block{Reason: Paused}, Step: stepB}), twoSteps, pausedCheck,
		requested(ofStep(stepB))),
	decides("also one that is about to go", underWay(Decision{Block: Block{Reason: Paused}}),
		check(func(c *Check) { c.Paused, c.Deleting = true, true }), requested(started(time.Hour))),
	decides("and a paused target, of a check that goes",
		underWay(Decision{HealthySince: ago(time.Hour), LeaseUntil: ago(time.Hour), History: History{Failures: 1, NotBefore: ago(-24 * time.Hour)}}),
		is(paused), goes, requested(healthySince(ago(time.Hour))), marked(), ours(ago(time.Hour)), remembers(1, ago(-24*time.Hour))),
	decides("what has come to its end is not ended, either", Decision{Block: Block{Reason: Paused}, History: History{Tried: stepB}},
		pausedCheck, hasTried(stepB)),
}

func TestPlan_Paused_KeepsEverything(t *testing.T) { decide(t, frozenRows) }

// orphanRow is an orphaned target, and what is decided about it.
type orphanRow struct {
	why     string
	orphan  Orphan
	options []option
	want    Decision
	writes  []Write
}

func orphaned(why string, o Orphan, want Decision, writes []Write, options ...option) orphanRow {
	return orphanRow{why, o, options, want, writes}
}

// inTheWay completes what is decided about an orphaned target with a request.
func inTheWay(d Decision) Decision {
	d.Step, d.Attempt, d.InFlight = stepA, 1, true
	return d
}

func expected(r *Request) { r.NodeDeletionExpected = true }

var orphans = []orphanRow{
	orphaned("a request for what is not selected any more", Orphan{Request: lost()}, inTheWay(withdraws(NotSelected)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("is deleted once", Orphan{Request: lost(beingDeleted(time.Minute))}, inTheWay(Decision{Action: Wait}), nil),
	orphaned("a request for a Node that does not exist any more is stopped first, or its remediator may keep it for ever",
		Orphan{Gone: true, Request: lost()}, inTheWay(withdraws(NodeNotFound)), []Write{StopRemediator, DeleteRequest}),
	orphaned("also if it is being deleted already", Orphan{Gone: true, Request: lost(beingDeleted(time.Minute))},
		inTheWay(withdraws(NodeNotFound)), []Write{StopRemediator}),
	orphaned("once", Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), toldToStop)}, inTheWay(Decision{Action: Wait}), nil),
	orphaned("also after a success", Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), succeeded)},
		inTheWay(withdraws(NodeNotFound)), []Write{StopRemediator}),
	orphaned("once", Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), succeeded, toldToStop)}, inTheWay(Decision{Action: Wait}),
		nil),
	orphaned("a remediator that deletes the Node on its way is waited for", Orphan{Gone: true, Request: lost(expected)},
		inTheWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}), nil),
	orphaned("as long as its step may take", Orphan{Gone: true, Request: lost(expected, started(10*time.Minute-moment))},
		inTheWay(Decision{Action: Wait, Until: ago(-moment)}), nil),
	orphaned("to the moment", Orphan{Gone: true, Request: lost(expected, started(10*time.Minute))}, inTheWay(withdraws(StepTimedOut)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("or for an hour without a timeout", Orphan{Gone: true, Request: lost(expected, started(time.Hour-moment))},
		inTheWay(Decision{Action: Wait, Until: ago(-moment)}), nil, timeout(0)),
	orphaned("and no longer", Orphan{Gone: true, Request: lost(expected, started(time.Hour))}, inTheWay(withdraws(StepTimedOut)),
		[]Write{StopRemediator, DeleteRequest}, timeout(0)),
	orphaned("a Machine does not come back", Orphan{Gone: true, Request: lost(expected)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator, DeleteRequest}, policy(func(p *Policy) { p.ReportsHealth = true })),
	orphaned("until it has succeeded", Orphan{Gone: true, Request: lost(expected, succeeded)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("or failed", Orphan{Gone: true, Request: lost(expected, failed)}, inTheWay(withdraws(StepFailed)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("or was stopped", Orphan{Gone: true, Request: lost(expected, toldToStop)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{DeleteRequest}),
	orphaned("or is being deleted", Orphan{Gone: true, Request: lost(expected, beingDeleted(time.Minute))}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator}),
	orphaned("a check that goes does not wait for it", Orphan{Gone: true, Request: lost(expected)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator, DeleteRequest}, goes),
	orphaned("nor does one that observes", Orphan{Gone: true, Request: lost(expected)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator, DeleteRequest}, observes),
	orphaned("nor one that does not name the step any more", Orphan{Gone: true, Request: lost(expected)}, inTheWay(withdraws(NodeNotFound)),
		[]Write{StopRemediator, DeleteRequest}, steps(Step{ID: stepB})),
	orphaned("a Node that is still there is not waited to go", Orphan{Request: lost(expected)}, inTheWay(withdraws(NotSelected)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("marks on what is not selected any more", Orphan{Marked: true}, Decision{Action: RemoveConditions, Why: NotSelected},
		[]Write{ClearConditions}),
	orphaned("Node does not exist", Orphan{Marked: true, Gone: true}, Decision{Action: RemoveConditions, Why: NodeNotFound},
		[]Write{ClearConditions}),
	orphaned("the request is deleted before the conditions", Orphan{Marked: true, Request: lost()}, inTheWay(withdraws(NotSelected)),
		[]Write{StopRemediator, DeleteRequest}),
	orphaned("paused orphan is not changed", Orphan{Paused: true, Gone: true, Marked: true, Request: lost()}, inTheWay(Decision{}), nil),
	orphaned("and all of them if the check is paused", Orphan{Gone: true, Marked: true, Request: lost()}, inTheWay(Decision{}), nil,
		pausedCheck),
	orphaned("the Lease is kept as long as the request is there",
		Orphan{Lease: heldByThis(ago(-time.Minute)), Request: lost(beingDeleted(time.Minute))},
		inTheWay(Decision{Action: Wait, LeaseUntil: ago(-time.Minute)}), nil),
	orphaned("also while that is withdrawn", Orphan{Lease: heldByThis(ago(-time.Minute)), Request: lost()},
		inTheWay(Decision{Action: Withdraw, Why: NotSelected, LeaseUntil: ago(-time.Minute)}), []Write{StopRemediator, DeleteRequest}),
	orphaned("then it is released", Orphan{Lease: heldByThis(ago(-time.Minute))}, Decision{}, []Write{ReleaseLease}),
	orphaned("after the marks are cleared", Orphan{Marked: true, Lease: heldByThis(noon)},
		Decision{Action: RemoveConditions, Why: NotSelected}, []Write{ClearConditions, ReleaseLease}),
	orphaned("Lease of another holder is not released", Orphan{Lease: Lease{Until: ago(-time.Minute)}}, Decision{}, nil),
	orphaned("nor is it kept", Orphan{Lease: Lease{Until: ago(-time.Minute)}, Request: lost(beingDeleted(time.Minute))},
		inTheWay(Decision{Action: Wait}), nil),
	orphaned("nor is any while it is paused", Orphan{Paused: true, Lease: heldByThis(ago(-time.Minute))},
		Decision{LeaseUntil: ago(-time.Minute)}, nil),
	orphaned("or while the check is", Orphan{Lease: heldByThis(ago(-time.Minute))}, Decision{LeaseUntil: ago(-time.Minute)}, nil, pausedCheck),
	orphaned("what was noted about its health stays", Orphan{Request: lost(healthySince(ago(time.Minute)))},
		inTheWay(Decision{Action: Withdraw, Why: NotSelected, HealthySince: ago(time.Minute)}), []Write{StopRemediator, DeleteRequest}),
}

func TestPlan_OrphanedTarget_IsCleanedUp(t *testing.T) {
	for _, test := range orphans {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			plan := usual(append(test.options, orphan(test.orphan))...).plan()
			g.Expect(plan.Orphans).To(Equal([]Decision{test.want}))
			g.Expect(plan.Orphans[0].OrphanWrites(&test.orphan)).To(Equal(test.writes))
		})
	}
	NewWithT(t).Expect(usual().plan().Orphans).To(BeNil())
}

// The order of causes is that of the verdict gates: what people asked for is no matter of health.
func TestPlan_OnlySkippedTarget_IsNotSelected(t *testing.T) {
	for kind, unwanted := range map[health.Kind]bool{
		health.Healthy: false, health.Suspect: false, health.Unhealthy: false, health.Undetermined: false, health.Skipped: true,
	} {
		got := usual(is(health.Verdict{Kind: kind}), requested()).plan().Decisions[0]
		NewWithT(t).Expect(got.Why == NotSelected).To(Equal(unwanted), "%d", kind)
	}
}
