// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWrites_Decision_AreInOrder(t *testing.T) {
	tests := []struct {
		why      string
		decision Decision
		target   Target
		want     []Write
	}{
		{why: "nothing for nothing"},
		{why: "nothing for waiting", decision: Decision{Action: Wait, InFlight: true}, target: Target{Request: lost()}},
		{why: "a request is made", decision: Decision{Action: StartRequest}, want: []Write{CreateRequest}},
		{
			why: "once the Lease is held", decision: Decision{Action: StartRequest, LeaseUntil: ago(-time.Minute)},
			want: []Write{AcquireLease, CreateRequest},
		},
		{
			why: "and what is remembered was noted, and the marks were signed", decision: Decision{
				Action: StartRequest, LeaseUntil: ago(-time.Minute), MarkedBy: true, History: History{Failures: 1},
			},
			want: []Write{WriteHistory, AcquireLease, SetMarkedBy, CreateRequest},
		},
		{why: "a mark is signed before it is set", decision: Decision{Action: RequestOwnerRemediation, MarkedBy: true}, want: []Write{SetMarkedBy, SetOwnerRemediated}},
		{why: "its time is recorded, too", decision: Decision{Action: RequestOwnerRemediation, MarkedBy: true}, target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}}, want: []Write{SetMarkedBy, SetOwnerRemediated}},
		{why: "annotated already", decision: Decision{MarkedBy: true}, target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}}},
		{why: "reported target is annotated", decision: Decision{MarkedBy: true}, want: []Write{SetMarkedBy}},
		{why: "a name that nothing stands by goes", target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}}, want: []Write{RemoveMarkedBy}},
		{
			why: "a step that failed: the note first, then the word to stop, then the deletion", decision: Decision{
				Action: GiveUp, Why: StepFailed, History: History{Tried: stepA},
			},
			target: Target{Request: lost()}, want: []Write{WriteHistory, StopRemediator, DeleteRequest},
		},
		{
			why: "interrupted after the note", decision: Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}},
			target: Target{Request: lost(), History: History{Tried: stepA}}, want: []Write{StopRemediator, DeleteRequest},
		},
		{
			why: "and after the word", decision: Decision{Action: GiveUp, Why: StepTimedOut}, target: Target{Request: lost(toldToStop)},
			want: []Write{DeleteRequest},
		},
		{
			why: "succeeded request: no timed-out annotation", decision: Decision{Action: GiveUp, Why: StepTimedOut},
			target: Target{Request: lost(succeeded)}, want: []Write{DeleteRequest},
		},
		{
			why: "nor is what has come to a good end", decision: Decision{Action: Withdraw, Why: Recovered}, target: Target{Request: lost()},
			want: []Write{DeleteRequest},
		},
		{
			why: "but what is withdrawn for any other cause", decision: Decision{Action: Withdraw, Why: StepChanged},
			target: Target{Request: lost()}, want: []Write{StopRemediator, DeleteRequest},
		},
		{
			why: "request being deleted: only annotated", decision: Decision{Action: Withdraw, Why: CheckDeleting},
			target: Target{Request: lost(beingDeleted(time.Minute))}, want: []Write{StopRemediator},
		},
		{
			why: "a mark is canceled, and the name stays", decision: Decision{Action: CancelOwnerRemediation, MarkedBy: true},
			target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}}, want: []Write{RemoveOwnerRemediated},
		},
		{
			why: "conditions and annotation are removed", decision: Decision{Action: RemoveConditions}, target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}},
			want: []Write{ClearConditions},
		},
		{
			why: "a recovery is noted", decision: Decision{Action: Wait, HealthySince: noon}, target: Target{Request: lost()},
			want: []Write{WriteRecovery},
		},
		{
			why: "and so is a relapse", decision: Decision{Action: Wait}, target: Target{Request: lost(healthySince(noon))},
			want: []Write{WriteRecovery},
		},
		{
			why: "once", decision: Decision{Action: Wait, HealthySince: noon.In(time.FixedZone("elsewhere", 3600))},
			target: Target{Request: lost(healthySince(noon))},
		},
		{why: "without a request there is nowhere to note it", decision: Decision{HealthySince: noon}},
		{why: "a failure is noted", decision: Decision{History: History{Failures: 1}}, want: []Write{WriteHistory}},
		{why: "and so is a wait", decision: Decision{History: History{NotBefore: noon}}, want: []Write{WriteHistory}},
		{
			why: "and a step", decision: Decision{History: History{Tried: stepB}}, target: Target{History: History{Tried: stepA}},
			want: []Write{WriteHistory},
		},
		{
			why: "the same moment is no change", decision: Decision{History: History{NotBefore: noon.In(time.FixedZone("elsewhere", 3600))}},
			target: Target{History: History{NotBefore: noon}},
		},
		{
			why: "a Lease is renewed", decision: Decision{Action: Wait, LeaseUntil: ago(-moment)},
			target: Target{Request: lost(), Lease: Lease{HeldByThis: true, Until: noon}}, want: []Write{AcquireLease},
		},
		{
			why: "but not without need", decision: Decision{Action: Wait, LeaseUntil: noon},
			target: Target{Request: lost(), Lease: Lease{HeldByThis: true, Until: noon}},
		},
		{
			why:      "expired Lease of another holder: acquired",
			decision: Decision{Action: StartRequest, LeaseUntil: noon}, target: Target{Lease: Lease{Until: noon}},
			want: []Write{AcquireLease, CreateRequest},
		},
		{
			why: "what is not needed any more is released, at last", decision: Decision{Action: RemoveConditions},
			target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true}, Lease: Lease{HeldByThis: true, Until: noon}}, want: []Write{ClearConditions, ReleaseLease},
		},
		{why: "unread Node: keeps its history", decision: Decision{DropConfirmation: true}, target: Target{Unread: true, History: History{Failures: 1}}},
		{
			why: "a failed step is recorded before it ends", decision: Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}},
			target: Target{Unread: true, Request: lost()}, want: []Write{WriteHistory, StopRemediator, DeleteRequest},
		},
		{why: "Lease of another holder: not released", target: Target{Lease: Lease{Until: noon}}},
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
	tests := []struct {
		why       string
		plan      Planned
		check     Check
		replacing []Replacement
		finalizer bool
		want      []CheckWrite
	}{
		{why: "nothing for nothing"},
		{
			why: "a finalizer comes before everything else", plan: Planned{Finalizer: true, Storm: storm, Replacing: one},
			want: []CheckWrite{AddFinalizer, WriteStorm, WriteReplacing},
		},
		{why: "once", plan: Planned{Finalizer: true}, finalizer: true},
		{why: "who is about to go cannot be given one", plan: Planned{Finalizer: true}, check: Check{Deleting: true}},
		{
			why: "and goes when there is nothing left, at last", plan: Planned{Storm: storm, Replacing: one}, check: Check{Deleting: true},
			finalizer: true, want: []CheckWrite{WriteStorm, WriteReplacing, RemoveFinalizer},
		},
		{why: "who has nothing needs none", finalizer: true, want: []CheckWrite{RemoveFinalizer}},
		{why: "a storm is noted", plan: Planned{Storm: Storm{Since: noon}}, want: []CheckWrite{WriteStorm}},
		{why: "and its end", check: Check{Storm: storm}, want: []CheckWrite{WriteStorm}},
		{
			why: "and its cooling down", plan: Planned{Storm: storm}, check: Check{Storm: Storm{Since: ago(time.Hour)}},
			want: []CheckWrite{WriteStorm},
		},
		{why: "once", plan: Planned{Storm: Storm{storm.Since.Local(), storm.CooldownSince.Local()}}, check: Check{Storm: storm}},
		{why: "owner remediation is recorded", plan: Planned{Replacing: one}, want: []CheckWrite{WriteReplacing}},
		{why: "once", plan: Planned{Replacing: []Replacement{{Target: "m1", Owner: owner, GoneSince: noon.Local()}}}, replacing: one},
		{
			why: "deleted Machine is recorded", plan: Planned{Replacing: one}, replacing: []Replacement{{Target: "m1", Owner: owner}},
			want: []CheckWrite{WriteReplacing},
		},
		{
			why: "and another owner", plan: Planned{Replacing: one},
			replacing: []Replacement{{Target: "m1", Owner: "MachineSet/b", GoneSince: noon}}, want: []CheckWrite{WriteReplacing},
		},
		{
			why: "and another target", plan: Planned{Replacing: one}, replacing: []Replacement{{Target: "m2", Owner: owner, GoneSince: noon}},
			want: []CheckWrite{WriteReplacing},
		},
		{why: "and its end", replacing: one, want: []CheckWrite{WriteReplacing}},
		{why: "a frozen check is not written to", plan: Planned{Finalizer: true, Storm: storm, Replacing: one}, check: Check{Paused: true}},
		{why: "not even to let it go", check: Check{Paused: true, Deleting: true}, finalizer: true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			got := test.plan.CheckWrites(&Situation{Check: test.check, Replacing: test.replacing}, test.finalizer)
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}
