// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func markedFor(d time.Duration) func(*OwnerRemediation) {
	return func(m *OwnerRemediation) { m.Since = ago(d) }
}

func answered(m *OwnerRemediation) { m.Waiting, m.OwnerReason = false, "MachineDeleting" }

func refused(m *OwnerRemediation) {
	m.Waiting, m.Refused, m.OwnerReason = false, true, "CannotBeRemediated"
}
func byOther(m *OwnerRemediation) { m.MarkedByThis, m.RequestedByThis = false, false }

func requestedByOther(m *OwnerRemediation) { m.RequestedByThis = false }

func pauseRequested(x *scene) { x.situation.Check.PauseRequests = []string{"an upgrade"} }
func inStorm(x *scene)        { cooldown(x); stormy(time.Minute)(x) }
func noOwner(x *scene)        { x.situation.Targets[0].Owner = "" }

var marksGiven = []row{
	{
		why: "an owner has half an hour", options: []option{marked()},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "almost all of it", options: []option{marked(markedFor(30*time.Minute - moment))},
		want: Decision{Action: Wait, Until: ago(-moment), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "owner not acting for exactly 30 minutes: reported, still in flight", options: []option{marked(markedFor(30 * time.Minute))},
		want: Decision{
			Block: Block{Reason: OwnerNotActing, Details: Details{Cause: owner, Since: ago(30 * time.Minute)}}, Step: stepO, InFlight: true, Budgeted: true,
		},
	},
	{
		why: "with the reason of the owner", options: []option{marked(markedFor(time.Hour), answered)},
		want: Decision{
			Block: Block{Reason: OwnerNotActing, Details: Details{Cause: owner + ": MachineDeleting", Since: ago(time.Hour)}}, Step: stepO,
			InFlight: true, Budgeted: true,
		},
	},
	{
		why: "owner refuses: blocked, no place", options: []option{marked(refused)},
		want: Decision{Block: Block{Reason: OwnerRefuses, Details: Details{Cause: owner}}, Step: stepO},
	},
	{
		why: "at once, and for as long as it stands", options: []option{marked(refused, markedFor(time.Hour))},
		want: Decision{Block: Block{Reason: OwnerRefuses, Details: Details{Cause: owner}}, Step: stepO},
	},
	{
		why: "what the owner is replacing has its time", options: []option{
			marked(answered, markedFor(time.Hour)), deletingFor(30*time.Minute - moment),
		},
		want: Decision{Action: Wait, Until: ago(-moment), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "to the moment: then its deletion hangs", options: []option{marked(answered), deletingFor(30 * time.Minute)},
		want: Decision{Block: Block{Reason: StuckDeleting, Details: Details{Since: ago(30 * time.Minute)}}, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "the marks of a control plane take up no place", options: []option{ofControlPlane, marked()},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true},
	},

	{
		why: "who asks for a pause gets back what the owner has not answered", options: []option{pauseRequested, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: PauseRequested, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "but nothing that it has begun with", options: []option{pauseRequested, inStorm, marked(answered)},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "and nothing that another has asked for", options: []option{pauseRequested, inStorm, marked(byOther)},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why:     "requested by a remediator, on a Machine that this check reports: kept",
		options: []option{pauseRequested, inStorm, marked(requestedByOther)},
		want:    Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "requested by a remediator, the check has a template: kept", options: []option{twoSteps, marked(requestedByOther)},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), InFlight: true, Budgeted: true},
	},
	{
		why: "a storm cancels, too", options: []option{inStorm, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: InStorm, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "a closed gate leaves the marks that were given", options: []option{limited(0), marked()},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "so does a cluster that cannot be read", options: []option{unreachable, marked()},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "without an owner: kept, blocked, not in flight", options: []option{noOwner, marked()},
		want: Decision{Block: Block{Reason: NoRemediatingOwner}, Step: stepO},
	},
	{
		why: "without an owner, suspect: kept", options: []option{noOwner, is(suspect), marked()}, want: Decision{Step: stepO},
	},
	{
		why: "without an owner, suspect, pause requested: canceled", options: []option{pauseRequested, noOwner, is(suspect), marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: PauseRequested, Step: stepO},
	},
	{
		why: "without an owner, deletion takes too long", options: []option{noOwner, marked(), deletingFor(30 * time.Minute)},
		want: Decision{Block: Block{Reason: StuckDeleting, Details: Details{Since: ago(30 * time.Minute)}}, Step: stepO},
	},
	{
		why: "a mark of a check that has a template now", options: []option{twoSteps, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true},
	},
	{
		why: "a mark of a check that has nothing more to try", options: []option{marked(), target(func(t *Target) { t.History.Tried = stepO })},
		want: Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true, History: History{Tried: stepO}},
	},
	{
		why: "the owner as the last resort is in its place", options: []option{
			steps(Step{ID: stepA}, Step{ID: stepO, Owner: true}), marked(), target(func(t *Target) { t.History.Tried = stepA }),
		},
		want: Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true, History: History{Tried: stepA}},
	},
	{
		why: "but not before its turn", options: []option{steps(Step{ID: stepA}, Step{ID: stepO, Owner: true}), marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true},
	},
	{
		why: "a pause is reported before a storm", options: []option{pauseRequested, inStorm, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: PauseRequested, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "without an owner, storm: canceled", options: []option{inStorm, noOwner, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: InStorm, Step: stepO},
	},
	{
		why: "without an owner, the check has a template now: canceled", options: []option{noOwner, twoSteps, marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: StepChanged},
	},
	{
		why: "a request comes first: at most one thing is done about a target", options: []option{
			steps(Step{ID: stepA}), requested(), marked(), pauseRequested,
		},
		want: underWay(Decision{Action: Wait}),
	},
	{
		why: "a pause takes it back from a suspect, too", options: []option{pauseRequested, is(suspect), marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: PauseRequested, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "storm, Node unreadable: canceled", options: []option{inStorm, is(unreadable), marked()},
		want: Decision{Action: CancelOwnerRemediation, Why: InStorm, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "suspect: not canceled", options: []option{is(suspect), marked()},
		want: Decision{Action: Wait, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "unreadable: not canceled", options: []option{is(unreadable), marked()},
		want: Decision{Action: Wait, Step: stepO, InFlight: true, Budgeted: true},
	},
	{
		why: "nor that it is only called healthy", options: []option{is(calledWell), marked()},
		want: Decision{Action: Wait, Step: stepO, InFlight: true, Budgeted: true},
	},
	{why: "who is well again is not under way", options: []option{is(well), marked(), remembers(1, ago(-time.Minute))}, want: Decision{}},
}

func TestPlan_OwnerRemediation_WaitsOrCancels(t *testing.T) { decide(t, marksGiven, byOwner) }

// A Machine without an owner gets the conditions that request owner remediation, and is reported as blocked.
func TestPlan_NoOwner_SetsConditions(t *testing.T) {
	tests := []struct {
		why     string
		options []option
		want    Action
	}{
		{why: "allowed", want: RequestOwnerRemediation},
		{why: "maxInFlight is reached", options: []option{slots(1), inFlightToo(false)}, want: RequestOwnerRemediation},
		{why: "limit", options: []option{limited(0)}},
		{why: "pause requested", options: []option{pauseRequested}},
		{why: "storm", options: []option{inStorm}},
		{why: "unreachable", options: []option{unreachable}},
		{why: "Node", options: []option{policy(func(p *Policy) { p.ReportsHealth = false })}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			plan := usual(append([]option{byOwner, noOwner}, test.options...)...).plan()
			got := plan.Decisions[0]
			g.Expect([]any{got.Action, got.Block.Reason, got.InFlight, got.Budgeted}).
				To(Equal([]any{test.want, NoRemediatingOwner, false, false}))
			g.Expect(plan.Replacing).ToNot(ContainElement(HaveField("Target", "n1")))
		})
	}
}
