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
	{
		why: "a check that goes takes its requests with it", options: []option{goes, everything},
		want: underWay(Decision{Action: Withdraw, Why: CheckDeleting}),
	},
	{
		why: "so does one that only observes from now on", options: []option{observes, everything},
		want: underWay(Decision{Action: Withdraw, Why: ObserveMode}),
	},
	{
		why: "and one whose Cluster does not exist", options: []option{clusterIs(ClusterIsMissing), everything},
		want: underWay(Decision{Action: Withdraw, Why: ClusterNotFound}),
	},
	{
		why: "but not one whose Cluster is still there", options: []option{clusterIs(ClusterIsDeleting), requested()},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "another check is responsible: the history stays", options: []option{coveredBy("MachineHealthCheck/other"), everything},
		want: underWay(Decision{Action: Withdraw, Why: ManagedByOtherCheck, History: History{Failures: 2, NotBefore: ago(-time.Minute)}}),
	},
	{
		why: "what people want to be left alone is", options: []option{is(leftAlone), everything},
		want: underWay(Decision{Action: Withdraw, Why: NotSelected}),
	},
	{
		why:     "a check that goes is reported first",
		options: []option{goes, observes, clusterIs(ClusterIsMissing), coveredBy("o"), is(leftAlone), requested()},
		want:    underWay(Decision{Action: Withdraw, Why: CheckDeleting}),
	},
	{
		why: "then one that observes", options: []option{observes, clusterIs(ClusterIsMissing), coveredBy("o"), is(leftAlone), requested()},
		want: underWay(Decision{Action: Withdraw, Why: ObserveMode}),
	},
	{
		why: "then the Cluster", options: []option{clusterIs(ClusterIsMissing), coveredBy("o"), is(leftAlone), requested()},
		want: underWay(Decision{Action: Withdraw, Why: ClusterNotFound}),
	},
	{
		why: "then the other check", options: []option{coveredBy("o"), is(leftAlone), requested()},
		want: underWay(Decision{Action: Withdraw, Why: ManagedByOtherCheck}),
	},
	{
		why:     "a request that is going is waited for, and the marks with it",
		options: []option{goes, everything, requested(beingDeleted(20 * time.Minute))}, want: underWay(Decision{Action: Wait}),
	},
	{
		why: "health does not matter", options: []option{goes, is(well), requested(healthySince(ago(time.Minute)))},
		want: underWay(Decision{Action: Withdraw, Why: CheckDeleting, HealthySince: ago(time.Minute)}),
	},
	{
		why: "then the marks go", options: []option{goes, marked()},
		want: Decision{Action: RemoveConditions, Why: CheckDeleting, InFlight: true, Budgeted: true},
	},
	{
		why: "answered by the owner, set by this check", options: []option{observes, marked(refused)},
		want: Decision{Action: RemoveConditions, Why: ObserveMode},
	},
	{
		why: "healthy, with a condition of this check", options: []option{
			is(well), goes, target(func(t *Target) { t.OwnerRemediation.MarkedByThis = true }),
		},
		want: Decision{Action: RemoveConditions, Why: CheckDeleting},
	},
	{
		why: "another check is responsible: the conditions of this one are removed", options: []option{
			coveredBy("MachineHealthCheck/other"), is(well), target(func(t *Target) { t.OwnerRemediation.MarkedByThis = true }),
		},
		want: Decision{Action: RemoveConditions, Why: ManagedByOtherCheck},
	},
	{
		why: "conditions of another check stay", options: []option{goes, marked(byOther)},
		want: Decision{Block: Block{Reason: CheckDeleting}, Step: stepA, InFlight: true, Budgeted: true},
	},
	{
		why: "what has nothing needs nothing, and is forgotten", options: []option{is(leftAlone), remembers(2, ago(-time.Minute))},
		want: Decision{},
	},
	{
		why: "unless another check needs the memory", options: []option{
			is(well), coveredBy("MachineHealthCheck/other"), remembers(2, ago(-time.Minute)),
		},
		want: Decision{History: History{Failures: 2, NotBefore: ago(-time.Minute)}},
	},
}

func TestPlan_UnwantedTarget_IsCleanedUp(t *testing.T) { decide(t, lettingGo) }

// A move is under way: whatever there is, and whatever would have to go, stays as it is.
var frozenRows = []row{
	{
		why: "a paused check", options: []option{
			check(func(c *Check) { c.Paused = true }), requested(failed), marked(), ours(ago(time.Hour)), remembers(1, ago(-time.Minute)),
		},
		want: underWay(Decision{Block: Block{Reason: Paused}, LeaseUntil: ago(time.Hour), History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
	},
	{
		why: "also what is not the first step", options: []option{twoSteps, check(func(c *Check) { c.Paused = true }), requested(ofStep(stepB))},
		want: underWay(Decision{Block: Block{Reason: Paused}, Step: stepB}),
	},
	{
		why: "also one that is about to go", options: []option{
			check(func(c *Check) { c.Paused, c.Deleting = true, true }), requested(started(time.Hour)),
		},
		want: underWay(Decision{Block: Block{Reason: Paused}}),
	},
	{
		why: "and a paused target, of a check that goes", options: []option{
			is(paused), goes, requested(healthySince(ago(time.Hour))), marked(), ours(ago(time.Hour)), remembers(1, ago(-24*time.Hour)),
		},
		want: underWay(Decision{HealthySince: ago(time.Hour), LeaseUntil: ago(time.Hour), History: History{Failures: 1, NotBefore: ago(-24 * time.Hour)}}),
	},
	{
		why: "what has come to its end is not ended, either", options: []option{
			check(func(c *Check) { c.Paused = true }), target(func(t *Target) { t.History.Tried = stepB }),
		},
		want: Decision{Block: Block{Reason: Paused}, History: History{Tried: stepB}},
	},
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

// inTheWay completes what is decided about an orphaned target with a request.
func inTheWay(d Decision) Decision {
	d.Step, d.Attempt, d.InFlight = stepA, 1, true
	return d
}

func expected(r *Request) { r.NodeDeletionExpected = true }

var orphans = []orphanRow{
	{
		why: "a request for what is not selected any more", orphan: Orphan{Request: lost()},
		want: inTheWay(Decision{Action: Withdraw, Why: NotSelected}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{why: "is deleted once", orphan: Orphan{Request: lost(beingDeleted(time.Minute))}, want: inTheWay(Decision{Action: Wait})},
	{
		why: "a request for a Node that does not exist any more is stopped first, or its remediator may keep it for ever", orphan: Orphan{
			Gone: true, Request: lost(),
		},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "also if it is being deleted already", orphan: Orphan{Gone: true, Request: lost(beingDeleted(time.Minute))},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator},
	},
	{why: "once", orphan: Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), toldToStop)}, want: inTheWay(Decision{Action: Wait})},
	{
		why: "also after a success", orphan: Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), succeeded)},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator},
	},
	{
		why: "once", orphan: Orphan{Gone: true, Request: lost(beingDeleted(time.Minute), succeeded, toldToStop)},
		want: inTheWay(Decision{Action: Wait}),
	},
	{
		why: "a remediator that deletes the Node on its way is waited for", orphan: Orphan{Gone: true, Request: lost(expected)},
		want: inTheWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "as long as its step may take", orphan: Orphan{Gone: true, Request: lost(expected, started(10*time.Minute-moment))},
		want: inTheWay(Decision{Action: Wait, Until: ago(-moment)}),
	},
	{
		why: "to the moment", orphan: Orphan{Gone: true, Request: lost(expected, started(10*time.Minute))},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "or as it likes", orphan: Orphan{Gone: true, Request: lost(expected, started(1000*time.Hour))}, options: []option{timeout(0)},
		want: inTheWay(Decision{Action: Wait}),
	},
	{
		why: "until it has succeeded", orphan: Orphan{Gone: true, Request: lost(expected, succeeded)},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "or failed", orphan: Orphan{Gone: true, Request: lost(expected, failed)},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "or was stopped", orphan: Orphan{Gone: true, Request: lost(expected, toldToStop)},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{DeleteRequest},
	},
	{
		why: "or is being deleted", orphan: Orphan{Gone: true, Request: lost(expected, beingDeleted(time.Minute))},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator},
	},
	{
		why: "a check that goes does not wait for it", orphan: Orphan{Gone: true, Request: lost(expected)}, options: []option{goes},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "nor does one that observes", orphan: Orphan{Gone: true, Request: lost(expected)}, options: []option{observes},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "nor one that does not name the step any more", orphan: Orphan{Gone: true, Request: lost(expected)}, options: []option{byOwner},
		want: inTheWay(Decision{Action: Withdraw, Why: NodeNotFound}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "a Node that is still there is not waited to go", orphan: Orphan{Request: lost(expected)},
		want: inTheWay(Decision{Action: Withdraw, Why: NotSelected}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "marks on what is not selected any more", orphan: Orphan{Marked: true}, want: Decision{Action: RemoveConditions, Why: NotSelected},
		writes: []Write{ClearConditions},
	},
	{
		why: "Node does not exist", orphan: Orphan{Marked: true, Gone: true}, want: Decision{Action: RemoveConditions, Why: NodeNotFound},
		writes: []Write{ClearConditions},
	},
	{
		why: "the request is deleted before the conditions", orphan: Orphan{Marked: true, Request: lost()},
		want: inTheWay(Decision{Action: Withdraw, Why: NotSelected}), writes: []Write{StopRemediator, DeleteRequest},
	},
	{
		why: "paused orphan is not changed", orphan: Orphan{Paused: true, Gone: true, Marked: true, Request: lost()},
		want: inTheWay(Decision{}),
	},
	{
		why: "and all of them if the check is paused", orphan: Orphan{Gone: true, Marked: true, Request: lost()},
		options: []option{check(func(c *Check) { c.Paused = true })}, want: inTheWay(Decision{}),
	},
	{
		why: "the Lease is kept as long as the request is there", orphan: Orphan{
			Lease: Lease{HeldByThis: true, Until: ago(-time.Minute)}, Request: lost(beingDeleted(time.Minute)),
		},
		want: inTheWay(Decision{Action: Wait, LeaseUntil: ago(-time.Minute)}),
	},
	{
		why: "also while that is withdrawn", orphan: Orphan{Lease: Lease{HeldByThis: true, Until: ago(-time.Minute)}, Request: lost()},
		want: inTheWay(Decision{Action: Withdraw, Why: NotSelected, LeaseUntil: ago(-time.Minute)}), writes: []Write{
			StopRemediator, DeleteRequest,
		},
	},
	{why: "then it is released", orphan: Orphan{Lease: Lease{HeldByThis: true, Until: ago(-time.Minute)}}, writes: []Write{ReleaseLease}},
	{
		why: "after the marks are cleared", orphan: Orphan{Marked: true, Lease: Lease{HeldByThis: true, Until: noon}},
		want: Decision{Action: RemoveConditions, Why: NotSelected}, writes: []Write{ClearConditions, ReleaseLease},
	},
	{why: "Lease of another holder is not released", orphan: Orphan{Lease: Lease{Until: ago(-time.Minute)}}},
	{
		why: "nor is it kept", orphan: Orphan{Lease: Lease{Until: ago(-time.Minute)}, Request: lost(beingDeleted(time.Minute))},
		want: inTheWay(Decision{Action: Wait}),
	},
	{
		why: "nor is any while it is paused", orphan: Orphan{Paused: true, Lease: Lease{HeldByThis: true, Until: ago(-time.Minute)}},
		want: Decision{LeaseUntil: ago(-time.Minute)},
	},
	{
		why: "or while the check is", orphan: Orphan{Lease: Lease{HeldByThis: true, Until: ago(-time.Minute)}}, options: []option{check(func(c *Check) { c.Paused = true })},
		want: Decision{LeaseUntil: ago(-time.Minute)},
	},
	{
		why: "what was noted about its health stays", orphan: Orphan{Request: lost(healthySince(ago(time.Minute)))},
		want: inTheWay(Decision{Action: Withdraw, Why: NotSelected, HealthySince: ago(time.Minute)}), writes: []Write{
			StopRemediator, DeleteRequest,
		},
	},
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
