// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestInFlight_RequestsAndConditions_AreCounted(t *testing.T) {
	given := OwnerRemediation{Requested: true}
	tests := []struct {
		why                string
		target             Target
		verdict            health.Verdict
		inFlight, budgeted bool
		noOwner            bool
	}{
		{why: "nothing has been done about it", verdict: sickFor(time.Hour)},
		{why: "request exists", target: Target{Request: &Request{}}, verdict: well, inFlight: true, budgeted: true},
		{
			why: "also of the control plane", target: Target{ControlPlane: true, Request: &Request{}}, verdict: sickFor(time.Hour), inFlight: true,
			budgeted: true,
		},
		{why: "owner remediation requested, by any check", target: Target{OwnerRemediation: given}, verdict: sickFor(time.Hour), inFlight: true, budgeted: true},
		{why: "without an owner", target: Target{OwnerRemediation: given}, verdict: sickFor(time.Hour), noOwner: true},
		{why: "until it is healthy again", target: Target{OwnerRemediation: given}, verdict: well},
		{why: "and not only called so", target: Target{OwnerRemediation: given}, verdict: calledWell, inFlight: true, budgeted: true},
		{why: "a suspect is not healthy", target: Target{OwnerRemediation: given}, verdict: suspect, inFlight: true, budgeted: true},
		{
			why: "what is being deleted for it is not, either", target: Target{OwnerRemediation: given},
			verdict: health.Verdict{Reason: health.Deleting}, inFlight: true, budgeted: true,
		},
		{why: "an owner that cannot frees the place", target: Target{OwnerRemediation: OwnerRemediation{Requested: true, Refused: true}}, verdict: sickFor(time.Hour)},
		{
			why: "the marks of a control plane take up no place", target: Target{ControlPlane: true, OwnerRemediation: given},
			verdict: sickFor(time.Hour), inFlight: true,
		},
		{
			why: "a target of another check counts there", target: Target{CoveredBy: "MachineHealthCheck/other", OwnerRemediation: given},
			verdict: sickFor(time.Hour),
		},
		{
			why: "request of this check, target of another one", target: Target{CoveredBy: "MachineHealthCheck/other", Request: &Request{}},
			verdict: sickFor(time.Hour), inFlight: true, budgeted: true,
		},
		{
			why: "request that is being deleted", target: Target{Request: &Request{DeletingSince: noon.Add(time.Second - DeletionTimeout)}},
			verdict: sickFor(time.Hour), inFlight: true, budgeted: true,
		},
		{
			why: "request whose deletion is stuck", target: Target{Request: &Request{DeletingSince: noon.Add(-DeletionTimeout)}},
			verdict: sickFor(time.Hour), inFlight: true,
		},
		{why: "a mark that was never given is none", target: Target{OwnerRemediation: OwnerRemediation{MarkedByThis: true, Waiting: true}}, verdict: sickFor(time.Hour)},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			if !test.noOwner {
				test.target.Owner = owner
			}
			got, budgeted := (&planner{now: noon}).inFlight(&test.target, &test.verdict, false)
			g.Expect([]bool{got, budgeted}).To(Equal([]bool{test.inFlight, test.budgeted}))
		})
	}
}

func replacing(all ...Replacement) option {
	return func(x *scene) { x.situation.Replacing = all }
}

func owners(all ...Owner) option { return func(x *scene) { x.situation.Owners = all } }

// Owner remediation takes a place until the Machine is replaced.
func TestInFlight_DeletedMachine_CountsUntilReplaced(t *testing.T) {
	gone, noticed := Replacement{Target: "gone", Owner: owner}, Replacement{Target: "gone", Owner: owner, GoneSince: ago(time.Minute)}
	lacking := owners(Owner{Name: "MachineSet/b", Desired: 5, WithNode: 5}, Owner{Name: owner, Desired: 3, WithNode: 2})
	since := func(d time.Duration) Replacement { return Replacement{Target: "gone", Owner: owner, GoneSince: ago(d)} }
	tests := []struct {
		why       string
		options   []option
		inFlight  int
		replacing []Replacement
		wakeUp    time.Time
	}{
		{
			why: "a Machine that its owner is to replace is remembered before it is asked", options: []option{byOwner, marked()}, inFlight: 1,
			replacing: []Replacement{{Target: "m1", Owner: owner}}, wakeUp: ago(-29 * time.Minute),
		},
		{
			why: "its being gone is noted", options: []option{is(well), replacing(gone), lacking}, inFlight: 1, replacing: []Replacement{since(0)},
			wakeUp: ago(-10 * time.Minute),
		},
		{
			why: "once", options: []option{is(well), replacing(noticed), lacking}, inFlight: 1, replacing: []Replacement{noticed},
			wakeUp: ago(-9 * time.Minute),
		},
		{
			why: "a note from a clock that was ahead counts from now", options: []option{is(well), replacing(since(-time.Hour)), lacking},
			inFlight: 1, replacing: []Replacement{since(0)}, wakeUp: ago(-10 * time.Minute),
		},
		{
			why:     "it is over when the owner has as many with a Node as it wants",
			options: []option{is(well), replacing(noticed), owners(Owner{Name: owner, Desired: 3, WithNode: 3})},
		},
		{why: "or more", options: []option{is(well), replacing(noticed), owners(Owner{Name: owner, Desired: 3, WithNode: 4})}},
		{
			why:     "owner could not be read: the replacement is not confirmed",
			options: []option{is(well), replacing(noticed), owners(Owner{Name: "MachineSet/b", Desired: 3})}, inFlight: 1,
			replacing: []Replacement{noticed}, wakeUp: ago(-9 * time.Minute),
		},
		{
			why: "or when it has had the time", options: []option{is(well), replacing(since(10*time.Minute - moment)), lacking}, inFlight: 1,
			replacing: []Replacement{since(10*time.Minute - moment)}, wakeUp: ago(-moment),
		},
		{why: "to the moment", options: []option{is(well), replacing(since(10 * time.Minute)), lacking}},
		{
			why: "also if a remediator keeps its request", inFlight: 1, replacing: []Replacement{noticed}, wakeUp: ago(-9 * time.Minute),
			options: []option{
				is(well), replacing(noticed), lacking,
				orphan(Orphan{Name: "gone", Gone: true, Request: lost(beingDeleted(20*time.Minute), toldToStop)}),
			},
		},
		{
			why:     "a Machine of that name that is there is not gone",
			options: []option{is(well), replacing(Replacement{Target: "m1", Owner: owner, GoneSince: ago(time.Minute)}), lacking},
		},
		{
			why:      "and is remembered once",
			options:  []option{byOwner, marked(), replacing(Replacement{Target: "m1", Owner: owner, GoneSince: ago(time.Minute)}), lacking},
			inFlight: 1, replacing: []Replacement{{Target: "m1", Owner: owner}}, wakeUp: ago(-29 * time.Minute),
		},
		{
			why:     "an owner may go on with one that is healthy again: it is remembered, and takes up no place",
			options: []option{byOwner, is(well), marked()}, replacing: []Replacement{{Target: "m1", Owner: owner}},
		},
		{why: "or change its mind", options: []option{byOwner, marked(refused)}, replacing: []Replacement{{Target: "m1", Owner: owner}}},
		{why: "but not for another check", options: []option{byOwner, marked(byOther), coveredBy("MachineHealthCheck/other")}},
		{
			why: "nor before it has been asked", options: []option{byOwner, is(suspect), markedByThis},
			wakeUp: ago(-4*time.Minute + announceTime),
		},
		{why: "request exists: no owner remediation", options: []option{requested()}, inFlight: 1, wakeUp: ago(-9 * time.Minute)},
		{why: "nor are those of a control plane counted", options: []option{byOwner, ofControlPlane, marked()}, wakeUp: ago(-29 * time.Minute)},
		{
			why:      "all of them in the order of their names",
			options:  []option{is(well), replacing(Replacement{Target: "z", Owner: owner, GoneSince: ago(time.Minute)}, noticed), lacking},
			inFlight: 2, replacing: []Replacement{noticed, {Target: "z", Owner: owner, GoneSince: ago(time.Minute)}}, wakeUp: ago(-9 * time.Minute),
		},
		{
			why:     "an orphaned target whose request is still there takes up a place, too",
			options: []option{is(well), orphan(Orphan{Name: "s", Request: lost(acted)}), orphan(Orphan{Name: "t", Marked: true})}, inFlight: 1,
		},
		{why: "until its deletion is stuck", options: []option{is(well), orphan(Orphan{Name: "s", Request: lost(beingDeleted(DeletionTimeout))})}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			plan := usual(append([]option{slots(5)}, test.options...)...).plan()
			g.Expect(plan.Counts.InFlight).To(Equal(test.inFlight))
			g.Expect(plan.Replacing).To(Equal(test.replacing))
			g.Expect(plan.WakeUp).To(Equal(test.wakeUp))
		})
	}
}

// Without a limit nothing needs to be remembered; a frozen check remembers what it did.
func TestReplacing_NoMaxInFlight_IsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	before := []Replacement{{Target: "gone", Owner: owner}}
	lacking := owners(Owner{Name: owner, Desired: 3, WithNode: 2})
	g.Expect(usual(byOwner, marked(), replacing(before...), lacking).plan().Replacing).To(BeEmpty())
	g.Expect(usual(byOwner, slots(1), observes, replacing(before...), lacking).plan().Replacing).To(
		BeEmpty(), "who only observes does not count, either",
	)
	frozen := usual(byOwner, marked(), slots(1), replacing(before...), pausedCheck).plan()
	g.Expect(frozen.Replacing).To(Equal(before))
	g.Expect(frozen.Counts.InFlight).To(Equal(1))
}

// Owner remediation was requested before there was a limit. Machines that no longer exist, and those that take a place, are
// recorded.
func TestReplacing_TooMany_AreTruncated(t *testing.T) {
	g := NewWithT(t)
	names := func(plan *Planned) []string {
		g.Expect(plan.Replacing).To(HaveLen(HighestMaxInFlight))
		all := make([]string, 0, len(plan.Replacing))
		for _, r := range plan.Replacing {
			all = append(all, r.Target)
		}
		g.Expect(slices.IsSorted(all)).To(BeTrue())
		return all
	}
	crowd := func(n int, v health.Verdict) option {
		return func(x *scene) {
			for i := range n {
				also(Target{Name: fmt.Sprintf("a-%04d", i), Owner: owner, OwnerRemediation: OwnerRemediation{Requested: true, MarkedByThis: true, Since: ago(time.Minute)}}, v)(x)
			}
		}
	}
	gone, lacking := replacing(Replacement{Target: "z-gone", Owner: owner, GoneSince: ago(time.Minute)}), owners(
		Owner{Name: owner, Desired: 1000, WithNode: 2},
	)

	free := usual(byOwner, called("m-new"), slots(HighestMaxInFlight), gone, lacking, crowd(2*HighestMaxInFlight, well)).plan()
	g.Expect(free.Decisions[0].Action).To(Equal(RequestOwnerRemediation), "there is a place: those that are well take up none")
	g.Expect(names(&free)).To(ContainElements("m-new", "z-gone"))

	full := usual(byOwner, called("m-new"), slots(HighestMaxInFlight), gone, lacking, crowd(HighestMaxInFlight, sickFor(time.Hour))).plan()
	g.Expect(full.Decisions[0].Block.Reason).To(Equal(MaxInFlight))
	g.Expect(names(&full)).To(ContainElement("z-gone"))
}

// named gives the first target another name.
func called(name string) option { return target(func(t *Target) { t.Name = name }) }

// One place is free, and two want it: who gets it?
func TestCandidates_Order_IsAsListed(t *testing.T) {
	tests := []struct {
		why   string
		one   []option
		other Target
		sick  health.Verdict
	}{
		{
			why: "what is under way before what a person asked for", one: []option{is(sickFor(time.Minute)), called("z"), hasTried(stepA)},
			other: Target{Name: "a"}, sick: wished,
		},
		{
			why: "what a person asked for before the longest unhealthy",
			one: []option{is(wished), func(x *scene) { x.verdicts[0].Since = noon }, called("z")}, other: Target{Name: "a"},
			sick: sickFor(time.Hour),
		},
		{
			why: "the longest unhealthy before the first by name", one: []option{is(sickFor(time.Hour + moment)), called("z")},
			other: Target{Name: "a"}, sick: sickFor(time.Hour),
		},
		{why: "then the first by name", one: []option{is(sickFor(time.Hour)), called("a")}, other: Target{Name: "z"}, sick: sickFor(time.Hour)},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			x := usual(append([]option{twoSteps, slots(1)}, test.one...)...)
			also(test.other, test.sick)(x)
			plan := x.plan()
			g.Expect([]Action{plan.Decisions[0].Action, plan.Decisions[1].Action}).To(Equal([]Action{StartRequest, None}))
			g.Expect(plan.Decisions[1].Block).To(Equal(Block{Reason: MaxInFlight, Details: Details{Cause: x.situation.Targets[0].Name, Count: 1, Max: 1}}))
			// It is not the order in which they are listed.
			x.situation.Targets[0], x.situation.Targets[1] = x.situation.Targets[1], x.situation.Targets[0]
			x.verdicts[0], x.verdicts[1] = x.verdicts[1], x.verdicts[0]
			plan = x.plan()
			g.Expect([]Action{plan.Decisions[0].Action, plan.Decisions[1].Action}).To(Equal([]Action{None, StartRequest}))
		})
	}
}
