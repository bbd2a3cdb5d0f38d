// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// writeRow is a decision, and the writes that carry it out.
type writeRow struct {
	why      string
	decision Decision
	target   Target
	want     []Write
}

func writes(why string, decision Decision, target Target, want ...Write) writeRow {
	return writeRow{why, decision, target, want}
}

func TestWrites_Decision_AreInOrder(t *testing.T) {
	tests := []writeRow{
		writes("nothing for nothing", Decision{}, Target{}),
		writes("nothing for waiting", Decision{Action: Wait, InFlight: true}, Target{Request: lost()}),
		writes("a request is made", Decision{Action: StartRequest}, Target{}, CreateRequest),
		writes("once the Lease is held", Decision{Action: StartRequest, LeaseUntil: ago(-time.Minute)}, Target{}, AcquireLease, CreateRequest),
		writes("and what is remembered was noted, and the marks were signed",
			Decision{Action: StartRequest, LeaseUntil: ago(-time.Minute), MarkedBy: true, History: History{Failures: 1}}, Target{}, WriteHistory,
			AcquireLease, SetMarkedBy, CreateRequest),
		writes("a mark is signed before it is set", Decision{Action: RequestOwnerRemediation, MarkedBy: true}, Target{}, SetMarkedBy,
			SetOwnerRemediated),
		writes("its time is recorded, too", Decision{Action: RequestOwnerRemediation, MarkedBy: true}, Target{OwnerRemediation: signed},
			SetMarkedBy, SetOwnerRemediated),
		writes("annotated already", Decision{MarkedBy: true}, Target{OwnerRemediation: signed}),
		writes("reported target is annotated", Decision{MarkedBy: true}, Target{}, SetMarkedBy),
		writes("a name that nothing stands by goes", Decision{}, Target{OwnerRemediation: signed}, RemoveMarkedBy),
		writes("a step that failed: the note first, then the word to stop, then the deletion",
			Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}}, Target{Request: lost()}, WriteHistory, StopRemediator,
			DeleteRequest),
		writes("interrupted after the note", Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}},
			Target{Request: lost(), History: History{Tried: stepA}}, StopRemediator, DeleteRequest),
		writes("and after the word", Decision{Action: GiveUp, Why: StepTimedOut}, Target{Request: lost(toldToStop)}, DeleteRequest),
		writes("succeeded request: no timed-out annotation", Decision{Action: GiveUp, Why: StepTimedOut}, Target{Request: lost(succeeded)},
			DeleteRequest),
		writes("nor is what has come to a good end", Decision{Action: Withdraw, Why: Recovered}, Target{Request: lost()}, DeleteRequest),
		writes("but what is withdrawn for any other cause", Decision{Action: Withdraw, Why: StepChanged}, Target{Request: lost()}, StopRemediator,
			DeleteRequest),
		writes("request being deleted: only annotated", Decision{Action: Withdraw, Why: CheckDeleting},
			Target{Request: lost(beingDeleted(time.Minute))}, StopRemediator),
		writes("a mark is canceled, and the name stays", Decision{Action: CancelOwnerRemediation, MarkedBy: true},
			Target{OwnerRemediation: signed}, RemoveOwnerRemediated),
		writes("conditions and annotation are removed", Decision{Action: RemoveConditions}, Target{OwnerRemediation: signed}, ClearConditions),
		writes("a recovery is noted", Decision{Action: Wait, HealthySince: noon}, Target{Request: lost()}, WriteRecovery),
		writes("and so is a relapse", Decision{Action: Wait}, Target{Request: lost(healthySince(noon))}, WriteRecovery),
		writes("once", Decision{Action: Wait, HealthySince: noon.In(time.FixedZone("elsewhere", 3600))},
			Target{Request: lost(healthySince(noon))}),
		writes("without a request there is nowhere to note it", Decision{HealthySince: noon}, Target{}),
		writes("a failure is noted", Decision{History: History{Failures: 1}}, Target{}, WriteHistory),
		writes("and so is a wait", Decision{History: History{NotBefore: noon}}, Target{}, WriteHistory),
		writes("and a step", Decision{History: History{Tried: stepB}}, Target{History: History{Tried: stepA}}, WriteHistory),
		writes("the same moment is no change", Decision{History: History{NotBefore: noon.In(time.FixedZone("elsewhere", 3600))}},
			Target{History: History{NotBefore: noon}}),
		writes("a Lease is renewed", Decision{Action: Wait, LeaseUntil: ago(-moment)}, Target{Request: lost(), Lease: heldByThis(noon)},
			AcquireLease),
		writes("but not without need", Decision{Action: Wait, LeaseUntil: noon}, Target{Request: lost(), Lease: heldByThis(noon)}),
		writes("expired Lease of another holder: acquired", Decision{Action: StartRequest, LeaseUntil: noon},
			Target{Lease: Lease{Until: noon}}, AcquireLease, CreateRequest),
		writes("what is not needed any more is released, at last", Decision{Action: RemoveConditions},
			Target{OwnerRemediation: signed, Lease: heldByThis(noon)}, ClearConditions, ReleaseLease),
		writes("unread Node: keeps its history", Decision{DropConfirmation: true}, Target{Unread: true, History: History{Failures: 1}}),
		writes("a failed step is recorded before it ends", Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}},
			Target{Unread: true, Request: lost()}, WriteHistory, StopRemediator, DeleteRequest),
		writes("Lease of another holder: not released", Decision{}, Target{Lease: Lease{Until: noon}}),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(test.decision.Writes(&test.target)).To(Equal(test.want))
		})
	}
}

func TestCheckWrites_Plan_AreInOrder(t *testing.T) {
	storm := Storm{Since: ago(time.Hour), CooldownSince: ago(time.Minute)}
	one := []Replacement{{Target: "m1", Owner: owner, GoneSince: noon}}
	type checkRow struct {
		why       string
		plan      Planned
		check     Check
		replacing []Replacement
		finalizer bool
		want      []CheckWrite
	}
	writesToCheck := func(why string, plan Planned, check Check, replacing []Replacement, finalizer bool, want ...CheckWrite) checkRow {
		return checkRow{why, plan, check, replacing, finalizer, want}
	}
	tests := []checkRow{
		writesToCheck("nothing for nothing", Planned{}, Check{}, nil, false),
		writesToCheck("a finalizer comes before everything else", Planned{Finalizer: true, Storm: storm, Replacing: one}, Check{}, nil, false,
			AddFinalizer, WriteStorm, WriteReplacing),
		writesToCheck("once", Planned{Finalizer: true}, Check{}, nil, true),
		writesToCheck("who is about to go cannot be given one", Planned{Finalizer: true}, Check{Deleting: true}, nil, false),
		writesToCheck("and goes when there is nothing left, at last", Planned{Storm: storm, Replacing: one}, Check{Deleting: true}, nil, true,
			WriteStorm, WriteReplacing, RemoveFinalizer),
		writesToCheck("who has nothing needs none", Planned{}, Check{}, nil, true, RemoveFinalizer),
		writesToCheck("a storm is noted", Planned{Storm: Storm{Since: noon}}, Check{}, nil, false, WriteStorm),
		writesToCheck("and its end", Planned{}, Check{Storm: storm}, nil, false, WriteStorm),
		writesToCheck("and its cooling down", Planned{Storm: storm}, Check{Storm: Storm{Since: ago(time.Hour)}}, nil, false, WriteStorm),
		writesToCheck("once", Planned{Storm: Storm{storm.Since.Local(), storm.CooldownSince.Local()}}, Check{Storm: storm}, nil, false),
		writesToCheck("owner remediation is recorded", Planned{Replacing: one}, Check{}, nil, false, WriteReplacing),
		writesToCheck("once", Planned{Replacing: []Replacement{{Target: "m1", Owner: owner, GoneSince: noon.Local()}}}, Check{}, one, false),
		writesToCheck("deleted Machine is recorded", Planned{Replacing: one}, Check{}, []Replacement{{Target: "m1", Owner: owner}}, false,
			WriteReplacing),
		writesToCheck("and another owner", Planned{Replacing: one}, Check{},
			[]Replacement{{Target: "m1", Owner: "MachineSet/b", GoneSince: noon}}, false, WriteReplacing),
		writesToCheck("and another target", Planned{Replacing: one}, Check{}, []Replacement{{Target: "m2", Owner: owner, GoneSince: noon}}, false,
			WriteReplacing),
		writesToCheck("and its end", Planned{}, Check{}, one, false, WriteReplacing),
		writesToCheck("a frozen check is not written to", Planned{Finalizer: true, Storm: storm, Replacing: one}, Check{Paused: true}, nil,
			false),
		writesToCheck("not even to let it go", Planned{}, Check{Paused: true, Deleting: true}, nil, true),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			got := test.plan.CheckWrites(&Situation{Check: test.check, Replacing: test.replacing}, test.finalizer)
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}
