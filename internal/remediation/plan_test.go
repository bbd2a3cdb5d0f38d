// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestPlan_UnhealthyTarget_StartsStep(t *testing.T) {
	makes := underWay(Decision{Action: StartRequest})
	withLease := func(d time.Duration) Decision { m := makes; m.LeaseUntil = noon.Add(d); return m }
	decide(t, []row{
		decides("a remediator is asked for help", makes),
		decides("after the Lease of the Node was taken, for as long as the step may take and a minute", withLease(11*time.Minute),
			lease(Lease{Used: true})),
		decides("a longer step has a longer Lease", withLease(61*time.Minute), lease(Lease{Used: true}), timeout(time.Hour)),
		decides("a step without a timeout is taken for ten minutes", withLease(11*time.Minute), lease(Lease{Used: true}), timeout(0)),
		decides("owner remediation of a worker takes a place",
			Decision{Action: RequestOwnerRemediation, Step: stepO, InFlight: true, Budgeted: true}, byOwner),
		decides("a Machine of the control plane takes up none", Decision{Action: RequestOwnerRemediation, Step: stepO, InFlight: true}, byOwner,
			ofControlPlane),
		decides("a request for one does", makes, ofControlPlane),
		decides("no Lease is taken for an owner", Decision{Action: RequestOwnerRemediation, Step: stepO, InFlight: true, Budgeted: true}, byOwner,
			lease(Lease{Used: true})),
		decides("a suspect has time", Decision{Until: time.Time{}}, is(suspect)),
		decides("what cannot be read is left alone", Decision{}, is(unreadable)),
		decides("and so is what people want to be left alone", Decision{}, is(leftAlone)),
	})
}

// actions are those of a plan, one after the other.
func actions(plan *Planned) []Action {
	all := make([]Action, 0, len(plan.Decisions))
	for i := range plan.Decisions {
		all = append(all, plan.Decisions[i].Action)
	}
	return all
}

func TestPlan_MaxInFlight_GivesEachPlaceOnce(t *testing.T) {
	g := NewWithT(t)
	three := func(x *scene) {
		also(Target{Name: "m2", Node: "n2", Owner: owner}, sickFor(time.Hour))(x)
		also(Target{Name: "m3", Node: "n3", Owner: owner}, sickFor(time.Hour))(x)
	}
	plan := usual(three, slots(2)).plan()
	g.Expect(actions(&plan)).To(Equal([]Action{StartRequest, StartRequest, None}))
	g.Expect(plan.Counts).To(Equal(Counts{Remediating: 2, InFlight: 2, Blocked: 1}))
	g.Expect([]any{plan.Slots, plan.Limited}).To(Equal([]any{2, true}))
	g.Expect(plan.Replacing).To(BeNil(), "a request is seen by itself")

	plan = usual(three, slots(2), byOwner).plan()
	g.Expect(actions(&plan)).To(Equal([]Action{RequestOwnerRemediation, RequestOwnerRemediation, None}))
	g.Expect(plan.Replacing).To(Equal([]Replacement{{Target: "m1", Owner: owner}, {Target: "m2", Owner: owner}}))

	plan = usual(three, byOwner).plan()
	g.Expect(actions(&plan)).To(Equal([]Action{RequestOwnerRemediation, RequestOwnerRemediation, RequestOwnerRemediation}))
	g.Expect([]any{plan.Slots, plan.Limited}).To(Equal([]any{0, false}))
	g.Expect(plan.Replacing).To(BeNil(), "nothing is counted without a limit")

	plan = usual(three, func(x *scene) { x.policy.MaxInFlight = percent("34%") }, is(leftAlone)).plan()
	g.Expect([]any{plan.Slots, plan.Limited}).To(Equal([]any{1, true}), "of those that are expected: 34% of 2")
}

// What holds a place already lets it be known before anything new is started.
func TestPlan_ControlPlane_GoesOneByOne(t *testing.T) {
	g := NewWithT(t)
	ofThree := func(x *scene) {
		ofControlPlane(x)
		external(x)
		also(Target{Name: "m2", Node: "n2", Owner: owner, ControlPlane: true}, sickFor(time.Hour))(x)
		also(Target{Name: "m3", Node: "n3", Owner: owner, ControlPlane: true}, sickFor(time.Hour))(x)
	}
	plan := usual(ofThree).plan()
	g.Expect(actions(&plan)).To(Equal([]Action{StartRequest, None, None}))
	g.Expect(plan.Decisions[1].Block).To(Equal(Block{Reason: ControlPlaneBusy, Details: Details{Cause: "m1"}}))
	g.Expect(plan.Decisions[2].Block).To(Equal(Block{Reason: ControlPlaneBusy, Details: Details{Cause: "m1"}}))

	plan = usual(ofThree, byOwner, slots(1)).plan()
	g.Expect(actions(&plan)).To(
		Equal([]Action{RequestOwnerRemediation, RequestOwnerRemediation, RequestOwnerRemediation}), "KubeadmControlPlane has to see them all, and serialises by itself",
	)
	g.Expect(plan.Replacing).To(BeNil())
	g.Expect(plan.Counts.InFlight).To(BeZero())

	last := steps(Step{ID: stepA}, Step{ID: stepO, Owner: true})
	plan = usual(ofThree, last, hasTried(stepA)).plan()
	g.Expect(actions(&plan)).To(Equal([]Action{RequestOwnerRemediation, None, None}), "owner remediation is in flight, too")
	g.Expect(plan.Decisions[1].Block.Details.Cause).To(Equal("m1"))
}

// Who only observes sees what it would do: it would begin with one, and the others would have to wait for that.
func TestPlan_Observing_ReportsWhatWouldBlock(t *testing.T) {
	for _, test := range []struct {
		why     string
		options []option
		held    []Reason
	}{
		{why: "two want one place", options: []option{slots(1)}, held: []Reason{ObserveMode, MaxInFlight}},
		{why: "two want two", options: []option{slots(2)}, held: []Reason{ObserveMode, ObserveMode}},
		{
			why:     "one after the other, of a control plane",
			options: []option{ofControlPlane, external, func(x *scene) { x.situation.Targets[1].ControlPlane = true }},
			held:    []Reason{ObserveMode, ControlPlaneBusy},
		},
		{
			why:     "their owner is asked for all of them",
			options: []option{byOwner, slots(1), ofControlPlane, func(x *scene) { x.situation.Targets[1].ControlPlane = true }},
			held:    []Reason{ObserveMode, ObserveMode},
		},
		{why: "a place that is taken", options: []option{slots(1), requested(beingDeleted(time.Minute))}, held: []Reason{"", MaxInFlight}},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			plan := usual(append([]option{observes, also(Target{Name: "m2", Node: "n2", Owner: owner}, sickFor(time.Hour))}, test.options...)...).plan()
			g.Expect([]Reason{plan.Decisions[0].Block.Reason, plan.Decisions[1].Block.Reason}).To(Equal(test.held))
			inFlight := 0
			for _, d := range plan.Decisions {
				g.Expect(d.Starts()).To(BeFalse())
				if d.InFlight {
					inFlight++
				}
			}
			g.Expect(plan.Counts.InFlight).To(Equal(inFlight), "it has begun with none")
			g.Expect(plan.Replacing).To(BeNil())
		})
	}
}

func TestPlan_WakeUp_IsEarliestChange(t *testing.T) {
	tests := []struct {
		why     string
		options []option
		wakeUp  time.Time
	}{
		{why: "nothing changes by itself", options: []option{is(well)}},
		{why: "a verdict does", options: []option{is(suspect)}, wakeUp: ago(-4 * time.Minute)},
		{why: "also where everything is held", options: []option{limited(0), also(Target{Name: "m2"}, suspect)}, wakeUp: ago(-4 * time.Minute)},
		{why: "a step's time", options: []option{requested()}, wakeUp: ago(-9 * time.Minute)},
		{why: "a hold's time", options: []option{leaving(ago(time.Minute))}, wakeUp: ago(-29 * time.Minute)},
		{why: "the earliest of all", options: []option{requested(), also(Target{Name: "m2"}, suspect), also(Target{Name: "m3", History: History{Failures: 1, NotBefore: ago(-time.Minute)}}, sickFor(time.Hour))}, wakeUp: ago(-time.Minute)},
		{why: "what is over is no reason, nor is what is now", options: []option{is(well), requested(beingDeleted(5 * time.Minute))}},
		{why: "a Lease that is to be renewed", options: []option{requested(), ours(ago(-6 * time.Minute))}, wakeUp: ago(-30 * time.Second)},
		{why: "the end of a storm", options: []option{is(well), cooldown, stormy(time.Minute)}, wakeUp: ago(-4 * time.Minute)},
		{
			why: "the end of an orphaned target's step", options: []option{is(well), orphan(Orphan{Gone: true, Request: lost(expected, acted)})},
			wakeUp: ago(-9 * time.Minute),
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(usual(test.options...).plan().WakeUp).To(Equal(test.wakeUp))
		})
	}
}

func TestPlan_Counts_AddUp(t *testing.T) {
	g := NewWithT(t)
	g.Expect(usual(is(well)).plan().Counts).To(Equal(Counts{Healthy: 1}))
	g.Expect(usual(is(well), recoveryConfirmed, requested()).plan().Counts).To(
		Equal(Counts{Blocked: 1, InFlight: 1}), "a person has to confirm it",
	)
	g.Expect(usual(is(suspect)).plan().Counts).To(BeZero())
	g.Expect(usual().plan().Counts).To(Equal(Counts{Remediating: 1, InFlight: 1}))
	g.Expect(usual(byOwner, ofControlPlane).plan().Counts).To(Equal(Counts{Remediating: 1}))
	g.Expect(usual(pauseRequested).plan().Counts).To(Equal(Counts{Blocked: 1}))
	g.Expect(usual(is(leftAlone), requested()).plan().Counts).To(Equal(Counts{Remediating: 1, InFlight: 1}))
}

// A finalizer keeps the check as long as there is anything to clean up.
func TestPlan_SomethingToCleanUp_NeedsFinalizer(t *testing.T) {
	tests := []struct {
		why     string
		options []option
		want    bool
	}{
		{why: "who has nothing needs none", options: []option{is(well)}},
		{why: "nor does who holds everything", options: []option{pauseRequested}},
		{why: "a request that will be made", want: true},
		{why: "a request that is there", options: []option{is(well), requested()}, want: true},
		{why: "a mark that will be given", options: []option{byOwner}, want: true},
		{why: "a mark of its own", options: []option{is(well), markedByThis}, want: true},
		{why: "a mark of another", options: []option{byOwner, is(suspect), marked(byOther)}},
		{why: "a Lease of its own", options: []option{is(well), ours(noon)}, want: true},
		{why: "a Lease of another", options: []option{is(well), lease(Lease{Used: true, Holder: "node-maintenance"})}},
		{why: "health is reported, no remediation is possible", options: []option{byOwner, noOwner}, want: true},
		{why: "what is remembered of a target", options: []option{pauseRequested, remembers(1, noon)}, want: true},
		{why: "who is well has nothing to be remembered", options: []option{is(well), remembers(1, noon)}},
		{why: "who is only called so has", options: []option{is(calledWell), remembers(1, noon)}, want: true},
		{
			why:     "what is remembered for another check is its own",
			options: []option{is(well), coveredBy("MachineHealthCheck/other"), remembers(1, noon)},
		},
		{why: "an orphaned target", options: []option{is(well), orphan(Orphan{Marked: true})}, want: true},
		{why: "an orphaned request", options: []option{is(well), orphan(Orphan{Gone: true, Request: &Request{}})}, want: true},
		{why: "a Lease is released, and also before the finalizer is removed", options: []option{is(well), orphan(Orphan{Lease: Lease{HeldByThis: true}})}},
		{why: "one target is enough", options: []option{is(well), requested(), also(Target{Name: "m2"}, well)}, want: true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(usual(test.options...).plan().Finalizer).To(Equal(test.want))
		})
	}
}

// A check annotates a Machine before it sets conditions, and as long as these exist.
func TestPlan_Conditions_AreRecordedAsOfThisCheck(t *testing.T) {
	tells := policy(func(p *Policy) { p.ReportsHealth = true })
	mark := func(m OwnerRemediation) option { return target(func(t *Target) { t.OwnerRemediation = m }) }
	tests := []struct {
		why     string
		options []option
		want    bool
	}{
		{why: "reports the health of unhealthy targets", options: []option{tells}, want: true},
		{why: "also if they are held", options: []option{tells, limited(0)}, want: true},
		{why: "requests owner remediation", options: []option{steps(Step{ID: stepO, Owner: true})}, want: true},
		{why: "suspect: nothing to report", options: []option{tells, is(suspect)}},
		{why: "does not report health"},
		{
			why:     "condition exists: the annotation stays",
			options: []option{tells, is(suspect), mark(OwnerRemediation{MarkedByThis: true, Unhealthy: true})}, want: true,
		},
		{why: "owner remediation requested, healthy", options: []option{tells, is(well), mark(OwnerRemediation{MarkedByThis: true, RequestedByThis: true})}, want: true},
		{why: "when there is nothing left the name goes", options: []option{tells, is(well), mark(signed)}},
		{why: "conditions of another check", options: []option{tells, is(well), mark(OwnerRemediation{Unhealthy: true, Requested: true})}},
		{why: "observes: no new annotation", options: []option{tells, observes}},
		{
			why:     "observes, request exists: the annotation stays",
			options: []option{tells, observes, requested(), mark(OwnerRemediation{MarkedByThis: true, Unhealthy: true})}, want: true,
		},
		{
			why:     "and while that is going",
			options: []option{tells, observes, requested(beingDeleted(time.Minute)), mark(OwnerRemediation{MarkedByThis: true, Unhealthy: true})}, want: true,
		},
		{why: "then the name goes with the marks", options: []option{tells, observes, mark(OwnerRemediation{MarkedByThis: true, Unhealthy: true})}},
		{why: "who is frozen leaves it as it is", options: []option{tells, is(well), pausedCheck, mark(signed)}, want: true},
		{why: "and signs nothing", options: []option{tells, pausedCheck}},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(usual(test.options...).plan().Decisions[0].MarkedBy).To(Equal(test.want))
		})
	}
}

func TestPlan_NoTargets_IsEmpty(t *testing.T) {
	g := NewWithT(t)
	got := Plan(&Situation{}, &health.Assessment{}, &Policy{}, noon)
	g.Expect(got).To(Equal(Planned{Decisions: []Decision{}, LimitState: LimitState{Limit: Limit{Field: "maxUnhealthy", Value: "0"}, Allowed: true}}))
}
