// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
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

func ownerWaits(until time.Time) Decision {
	return Decision{Action: Wait, Until: until, Step: stepO, InFlight: true, Budgeted: true}
}

func cancels(why Reason) Decision {
	return Decision{Action: CancelOwnerRemediation, Why: why, Step: stepO, InFlight: true, Budgeted: true}
}

// The annotation for the owner is written shortly before its condition, and removed if the suspect recovers.
func TestPlan_SuspectBeforeDeadline_IsAnnotated(t *testing.T) {
	for _, test := range []struct {
		why     string
		left    time.Duration
		options []option
		writes  []Write
	}{
		{"there is time", announceTime + moment, []option{byOwner}, nil},
		{"shortly before", announceTime, []option{byOwner}, []Write{SetMarkedBy}},
		{"once", announceTime, []option{byOwner, markedByThis}, nil},
		{"the deadline moved", time.Minute, []option{byOwner, markedByThis}, []Write{RemoveMarkedBy}},
		{"it recovered", 0, []option{byOwner, markedByThis, is(well)}, []Write{RemoveMarkedBy}},
		{"a remediator comes first", announceTime, nil, nil},
		{"no owner", announceTime, []option{byOwner, noOwner}, nil},
		{"an observing check writes nothing", announceTime, []option{byOwner, observes}, nil},
		{"Nodes have no owner", announceTime, []option{byOwner, policy(func(p *Policy) { p.ReportsHealth = false })}, nil},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			v := suspect
			v.Until = noon.Add(test.left)
			x := usual(append([]option{is(v)}, test.options...)...)
			plan := x.plan()
			d := &plan.Decisions[0]
			g.Expect(d.Writes(&x.situation.Targets[0])).To(Equal(test.writes))
			if slices.Contains(test.writes, SetMarkedBy) {
				g.Expect(d.OwnerRequestAt).To(Equal(v.Until))
			}
		})
	}
}

var marksGiven = []row{
	decides("an owner has half an hour", ownerWaits(ago(-29*time.Minute)), marked()),
	decides("almost all of it", ownerWaits(ago(-moment)), marked(markedFor(30*time.Minute-moment))),
	decides("owner not acting for exactly 30 minutes: reported, still in flight",
		Decision{Block: Block{Reason: OwnerNotActing, Details: Details{Cause: owner, Since: ago(30 * time.Minute)}}, Step: stepO, InFlight: true, Budgeted: true},
		marked(markedFor(30*time.Minute))),
	decides("with the reason of the owner",
		Decision{Block: Block{Reason: OwnerNotActing, Details: Details{Cause: owner + ": MachineDeleting", Since: ago(time.Hour)}}, Step: stepO, InFlight: true, Budgeted: true},
		marked(markedFor(time.Hour), answered)),
	decides("owner refuses: blocked, no place", Decision{Block: Block{Reason: OwnerRefuses, Details: Details{Cause: owner}}, Step: stepO},
		marked(refused)),
	decides("at once, and for as long as it stands", Decision{Block: Block{Reason: OwnerRefuses, Details: Details{Cause: owner}}, Step: stepO},
		marked(refused, markedFor(time.Hour))),
	decides("what the owner is replacing has its time", ownerWaits(ago(-moment)), marked(answered, markedFor(time.Hour)),
		deletingFor(30*time.Minute-moment)),
	decides("to the moment: then its deletion hangs",
		Decision{Block: Block{Reason: StuckDeleting, Details: Details{Since: ago(30 * time.Minute)}}, Step: stepO, InFlight: true, Budgeted: true},
		marked(answered), deletingFor(30*time.Minute)),
	decides("the marks of a control plane take up no place",
		Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true}, ofControlPlane, marked()),

	decides("who asks for a pause gets back what the owner has not answered", cancels(PauseRequested), pauseRequested, marked()),
	decides("but nothing that it has begun with", ownerWaits(ago(-29*time.Minute)), pauseRequested, inStorm, marked(answered)),
	decides("and nothing that another has asked for", ownerWaits(ago(-29*time.Minute)), pauseRequested, inStorm, marked(byOther)),
	decides("requested by a remediator, on a Machine that this check reports: kept", ownerWaits(ago(-29*time.Minute)), pauseRequested,
		inStorm, marked(requestedByOther)),
	decides("requested by a remediator, the check has a template: kept",
		Decision{Action: Wait, Until: ago(-29 * time.Minute), InFlight: true, Budgeted: true}, twoSteps, marked(requestedByOther)),
	decides("a storm cancels, too", cancels(InStorm), inStorm, marked()),
	decides("a closed gate leaves the marks that were given", ownerWaits(ago(-29*time.Minute)), limited(0), marked()),
	decides("so does a cluster that cannot be read", ownerWaits(ago(-29*time.Minute)), unreachable, marked()),
	decides("without an owner: kept, blocked, not in flight", Decision{Block: Block{Reason: NoRemediatingOwner}, Step: stepO}, noOwner,
		marked()),
	decides("without an owner, suspect: kept", Decision{Step: stepO}, noOwner, is(suspect), marked()),
	decides("without an owner, suspect, pause requested: canceled", Decision{Action: CancelOwnerRemediation, Why: PauseRequested, Step: stepO},
		pauseRequested, noOwner, is(suspect), marked()),
	decides("without an owner, deletion takes too long",
		Decision{Block: Block{Reason: StuckDeleting, Details: Details{Since: ago(30 * time.Minute)}}, Step: stepO}, noOwner, marked(),
		deletingFor(30*time.Minute)),
	decides("a mark of a check that has a template now",
		Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true}, twoSteps, marked()),
	decides("a mark of a check that has nothing more to try",
		Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true, History: History{Tried: stepO}}, marked(),
		hasTried(stepO)),
	decides("the owner as the last resort is in its place",
		Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true, History: History{Tried: stepA}},
		steps(Step{ID: stepA}, Step{ID: stepO, Owner: true}), marked(), hasTried(stepA)),
	decides("but not before its turn", Decision{Action: CancelOwnerRemediation, Why: StepChanged, InFlight: true, Budgeted: true},
		steps(Step{ID: stepA}, Step{ID: stepO, Owner: true}), marked()),
	decides("a pause is reported before a storm", cancels(PauseRequested), pauseRequested, inStorm, marked()),
	decides("without an owner, storm: canceled", Decision{Action: CancelOwnerRemediation, Why: InStorm, Step: stepO}, inStorm, noOwner,
		marked()),
	decides("without an owner, the check has a template now: canceled", Decision{Action: CancelOwnerRemediation, Why: StepChanged}, noOwner,
		twoSteps, marked()),
	decides("a request comes first: at most one thing is done about a target", waits(never), steps(Step{ID: stepA}), requested(), marked(),
		pauseRequested),
	decides("a pause takes it back from a suspect, too", cancels(PauseRequested), pauseRequested, is(suspect), marked()),
	decides("storm, Node unreadable: canceled", cancels(InStorm), inStorm, is(unreadable), marked()),
	decides("suspect: not canceled", ownerWaits(never), is(suspect), marked()),
	decides("unreadable: not canceled", ownerWaits(never), is(unreadable), marked()),
	decides("nor that it is only called healthy", ownerWaits(never), is(calledWell), marked()),
	decides("who is well again is not under way", Decision{}, is(well), marked(), remembers(1, ago(-time.Minute))),
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
