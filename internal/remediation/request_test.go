// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func started(d time.Duration) func(*Request) { return func(r *Request) { r.Started = ago(d) } }

func beingDeleted(d time.Duration) func(*Request) {
	return func(r *Request) { r.DeletingSince = ago(d) }
}

func healthySince(at time.Time) func(*Request) { return func(r *Request) { r.HealthySince = at } }
func ofStep(id StepID) func(*Request)          { return func(r *Request) { r.Step = id } }
func attempt(n int) func(*Request)             { return func(r *Request) { r.Attempt = n } }

func unpaused(d time.Duration) option { return target(func(t *Target) { t.UnpausedAt = ago(d) }) }
func timeout(d time.Duration) option  { return policy(func(p *Policy) { p.Steps[0].Timeout = d }) }

func healthyDelay(d time.Duration) option { return policy(func(p *Policy) { p.HealthyDelay = d }) }
func failed(r *Request)                   { r.Failed = true }
func succeeded(r *Request)                { r.Succeeded = true }
func toldToStop(r *Request)               { r.TimedOut = true }
func confirmed(x *scene)                  { x.situation.Targets[0].Confirmed = true }
func recoveryConfirmed(x *scene)          { x.policy.RecoveryConfirmed = true }

// underWay completes what is decided about a target whose request for the first step is there.
func underWay(d Decision) Decision {
	d.InFlight, d.Budgeted, d.Attempt = true, true, max(1, d.Attempt)
	if d.Step == (StepID{}) {
		d.Step = stepA
	}
	return d
}

// never is the time of a decision that nothing but an event changes.
var never time.Time

func waits(until time.Time) Decision { return underWay(Decision{Action: Wait, Until: until}) }
func withdraws(why Reason) Decision  { return Decision{Action: Withdraw, Why: why} }
func givesUp(why Reason) Decision {
	return underWay(Decision{Action: GiveUp, Why: why, History: History{Tried: stepA}})
}

var remediators = []row{
	decides("a remediator has the time of its step", waits(ago(-9*time.Minute)), requested()),
	decides("almost all of it", waits(ago(-moment)), requested(started(10*time.Minute-moment))),
	decides("to the moment: then the next step's turn has come", givesUp(StepTimedOut), requested(started(10*time.Minute))),
	decides("a clock that is ahead ends no step", waits(never), requested(started(time.Hour)), clockIsAhead(time.Hour)),
	decides("and one that was corrected does", givesUp(StepTimedOut), requested(started(time.Hour)), clockIsAhead(30*time.Second)),
	decides("a step without a timeout takes as long as it likes", waits(never), timeout(0), requested(started(1000*time.Hour))),
	decides("the time of a pause does not count", waits(ago(-moment)), requested(started(time.Hour)),
		unpausedAt(ago(10*time.Minute-moment))),
	decides("to the moment after that", givesUp(StepTimedOut), requested(started(time.Hour)), unpausedAt(ago(10*time.Minute))),
	decides("a pause that was over before it began plays no role", waits(ago(-9*time.Minute)), requested(), unpausedAt(ago(time.Hour))),
	decides("also if it was begun by a clock that was ahead", waits(never), timeout(0), requested(started(-time.Hour))),
	decides("an explicit failure is not waited for", givesUp(StepFailed), requested(failed)),
	decides("failed and timed out: reported as failed", givesUp(StepFailed), requested(failed, started(time.Hour))),
	decides("interrupted after the failure was recorded: continued", givesUp(StepTimedOut), requested(toldToStop), hasTried(stepA)),
	decides("stopped without a recorded failure: withdrawn, no next step", underWay(withdraws(NotSelected)),
		requested(toldToStop, failed, started(time.Hour))),
	decides("also where the step has no timeout", givesUp(StepTimedOut), timeout(0), requested(toldToStop), hasTried(stepA)),
	decides("a success is waited for until the target is healthy", waits(ago(-9*time.Minute)), requested(succeeded)),
	decides("and if it does not become healthy in time, the next step comes all the same", givesUp(StepTimedOut),
		requested(succeeded, started(10*time.Minute))),
	decides("a template that the check does not name any more", underWay(Decision{Action: Withdraw, Why: StepChanged, Step: StepID{1, "Z/z"}}),
		requested(ofStep(StepID{1, "Z/z"}))),
	decides("the same template in another place is another step",
		underWay(Decision{Action: Withdraw, Why: StepChanged, Step: StepID{3, "A/a"}}), requested(ofStep(StepID{3, "A/a"}), failed)),
	decides("a step of the owner is none that has requests", underWay(Decision{Action: Withdraw, Why: StepChanged, Step: stepO}), byOwner,
		requested(ofStep(stepO))),
	decides("a step that is not the first has its own time", underWay(Decision{Action: Wait, Step: stepB, Until: ago(-59 * time.Minute)}),
		policy(func(p *Policy) { p.Steps[1].Timeout = time.Hour }), requested(ofStep(stepB))),
	decides("once the last step has failed all of them begin again, after a wait",
		underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
		hasTried(stepA), requested(ofStep(stepB), failed)),
	decides("each time after a longer one",
		underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, Attempt: 2, History: History{Failures: 2, NotBefore: ago(-2 * time.Minute)}}),
		target(func(t *Target) { t.History = History{Failures: 1, NotBefore: ago(time.Hour), Tried: stepA} }),
		requested(ofStep(stepB), attempt(2), failed)),
	decides("what has been noted already counts once: the step", givesUp(StepFailed), hasTried(stepA), requested(failed)),
	decides("and the attempt, with the wait that was noted first",
		underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, History: History{Failures: 1, NotBefore: ago(-30 * time.Second)}}),
		remembers(1, ago(-30*time.Second)), requested(ofStep(stepB), failed)),
	decides("a relapse: the next recovery counts again", waits(ago(-9*time.Minute)), requested(healthySince(ago(time.Minute)))),
	decides("a suspect is not well, either", waits(never), is(suspect), requested(healthySince(ago(time.Minute)), started(time.Hour))),
	decides("unreadable: not unhealthy again", underWay(Decision{Action: Wait, HealthySince: ago(time.Minute)}), is(unreadable),
		requested(healthySince(ago(time.Minute)), started(time.Hour))),
	decides("and its time goes on", givesUp(StepTimedOut), unreachable, is(unreadable), requested(started(10*time.Minute))),
	decides("no pause that was asked for stops it", givesUp(StepFailed), pauseRequested, requested(failed)),
	decides("nor a storm, nor a closed gate", givesUp(StepTimedOut), cooldown, limited(0), requested(started(10*time.Minute))),
	decides("nor a Cluster that is being taken down", waits(ago(-9*time.Minute)), clusterIs(ClusterIsDeleting), requested()),
	decides("a label that came later does not end what is under way", waits(ago(-9*time.Minute)), excluded, requested()),
	decides("a step of an excluded target times out", givesUp(StepTimedOut), excluded, requested(started(10*time.Minute))),
}

func TestRequest_Remediator_IsAwaitedUntilTimeout(t *testing.T) { decide(t, remediators, twoSteps) }

var releases = []row{
	decides("a request that is going is waited for", waits(ago(-4*time.Minute)), requested(beingDeleted(time.Minute))),
	decides("for five minutes", waits(ago(-moment)), requested(beingDeleted(5*time.Minute-moment))),
	decides("deletion takes exactly 5 minutes: reported",
		underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(5 * time.Minute)}}, Until: time.Time{}}),
		requested(beingDeleted(5*time.Minute))),
	decides("and nothing else is",
		underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(20 * time.Minute)}}}),
		requested(beingDeleted(20*time.Minute)), excluded),
	decides("healthy target: not reported", waits(never), is(well), requested(beingDeleted(20*time.Minute))),
	decides("nor of a suspect", waits(never), is(suspect), requested(beingDeleted(20*time.Minute))),
	decides("however it ended: it is going", underWay(Decision{Action: Wait, Step: StepID{7, "Z/z"}, Until: ago(-4 * time.Minute)}),
		requested(beingDeleted(time.Minute), failed, toldToStop, started(time.Hour), ofStep(StepID{7, "Z/z"}))),
}

func TestRequest_Deleting_IsAwaited(t *testing.T) { decide(t, releases, twoSteps) }

func thenOwner(x *scene) {
	x.policy.Steps = []Step{{ID: stepA, Timeout: 10 * time.Minute}, {ID: stepO, Owner: true}}
	x.situation.Targets[0].History.Tried = stepA
}

// asksOwner is the decision to request owner remediation, of a target with a request or without one.
func asksOwner(step StepID, attempt int, tried StepID) Decision {
	return Decision{
		Action: RequestOwnerRemediation, Step: step, InFlight: true, Budgeted: true, Attempt: attempt, History: History{Tried: tried},
	}
}

// A Machine that no remediator can fix is replaced, although the remediator keeps its request.
func TestRequest_KeptByRemediator_OwnerFollows(t *testing.T) {
	triedA := func(d Decision) Decision {
		d.History.Tried, d.Attempt = stepA, 1
		return d
	}
	decide(t, []row{
		decides("the owner waits for five minutes", triedA(waits(ago(-moment))), requested(beingDeleted(5*time.Minute-moment))),
		decides("and then follows", asksOwner(stepO, 1, stepA), requested(beingDeleted(5*time.Minute))),
		decides("also if a person has deleted it", asksOwner(stepO, 1, stepA), requested(beingDeleted(5*time.Minute)),
			target(func(t *Target) { t.History = History{} })),
		decides("another remediator waits longer", triedA(underWay(Decision{
			Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(20 * time.Minute)}},
		})), requested(beingDeleted(20*time.Minute)), steps(Step{ID: stepA}, Step{ID: stepB}, Step{ID: stepO, Owner: true})),
		decides("the owner is awaited", triedA(ownerAwaited), requested(beingDeleted(20*time.Minute)), marked()),
		decides("a pause request cancels it", triedA(cancels(PauseRequested)), requested(beingDeleted(20*time.Minute)), marked(), pauseRequested),
		decides("a pause of the Machine does not", triedA(Decision{Step: stepO, InFlight: true, Budgeted: true}),
			requested(beingDeleted(20*time.Minute)), marked(), is(paused)),
		decides("a pause of the check changes no places", triedA(Decision{Block: Block{Reason: Paused}, Step: stepO}),
			requested(beingDeleted(20*time.Minute)), pausedCheck),
		decides("a suspect is not replaced", triedA(waits(never)), requested(beingDeleted(20*time.Minute)), is(suspect)),
	}, thenOwner)
}

var ownerAwaited = Decision{Action: Wait, Until: ago(-29 * time.Minute), Step: stepO, InFlight: true, Budgeted: true, Attempt: 1}

// The request of a target that no longer exists takes no place, and delays no other member of the control plane.
func TestRequest_KeptForGoneTarget_TakesNoPlace(t *testing.T) {
	for lasting, free := range map[time.Duration]bool{5*time.Minute - moment: false, 5 * time.Minute: true} {
		g := NewWithT(t)
		x := usual(slots(1), ofControlPlane)
		x.situation.Orphans = []Orphan{{
			Name: "gone", Gone: true, ControlPlane: true,
			Request: &Request{Step: stepA, Attempt: 1, Started: ago(time.Hour), DeletingSince: ago(lasting), TimedOut: true},
		}}
		plan := x.plan()
		g.Expect(plan.Decisions[0].Starts()).To(Equal(free), "%+v", plan.Decisions[0].Block)
	}
}

// A remediator requests owner remediation where owners do not read it.
func TestRequest_HandedOver_OwnerFollows(t *testing.T) {
	handedOver := func(d time.Duration) option {
		return target(func(t *Target) { t.OwnerRemediation.HandedOverAt = ago(d) })
	}
	asks := asksOwner(StepID{}, 0, StepID{})
	asks.HandsOver = true
	kept, delayed := asks, asks
	kept.Attempt, delayed.History = 1, History{Failures: 1, NotBefore: noon}
	decide(t, []row{
		decides("without a request", asks, handedOver(time.Minute)),
		decides("during its deletion", kept, handedOver(time.Minute), requested(beingDeleted(time.Second))),
		decides("the request is ended first", underWay(Decision{
			Action: GiveUp, Why: StepFailed, History: History{Failures: 1, NotBefore: ago(-time.Minute)},
		}), handedOver(time.Minute), requested(failed)),
		decides("not for an earlier outage", Decision{Action: StartRequest, Step: stepA, InFlight: true, Budgeted: true, Attempt: 1},
			handedOver(2*time.Hour)),
		decides("the condition of the Node has changed since, and a limit delayed the owner", delayed, handedOver(2*time.Hour), remembers(1, noon)),
		decides("not without an owner", Decision{Action: StartRequest, Step: stepA, InFlight: true, Budgeted: true, Attempt: 1},
			handedOver(time.Minute), noOwner),
	})
}

// A request that another client deletes before its target is healthy has failed.
func TestRequest_DeletedByOther_HasFailed(t *testing.T) {
	deleted := func(step StepID, attempt int) option {
		return target(func(t *Target) {
			t.DeletedRequests = DeletedRequests{Times: 1, Last: &Request{Step: step, Attempt: attempt}}
		})
	}
	block := Block{
		Reason: InBackoff, Until: ago(-2 * time.Minute),
		Details: Details{Count: 2, Cause: "another client deleted the last request"},
	}
	waiting := Decision{Block: block, Step: stepA, Until: ago(-2 * time.Minute), History: History{Failures: 2, NotBefore: ago(-2 * time.Minute)}}
	decide(t, []row{
		decides("the backoff follows", waiting, deleted(stepA, 2), remembers(1, ago(time.Hour))),
		decides("it is counted once", Decision{Action: StartRequest, Step: stepA, InFlight: true, Budgeted: true, Attempt: 3, History: History{Failures: 2, NotBefore: noon}},
			deleted(stepA, 2), remembers(2, noon)),
		decides("the next step follows", Decision{Action: StartRequest, Step: stepB, InFlight: true, Budgeted: true, Attempt: 1, History: History{Tried: stepA}},
			deleted(stepA, 1), twoSteps),
		decides("not if the target is healthy", Decision{}, deleted(stepA, 1), is(well)),
	})
}

var recoveries = []row{
	decides("who is well again needs no request", underWay(withdraws(Recovered)), requested()),
	decides("nor a memory of what failed", underWay(Decision{Action: Withdraw, Why: Recovered, Attempt: 4}), remembers(3, ago(-time.Minute)),
		requested(attempt(4))),
	decides("healthyDelay: not before it has been well for a while",
		underWay(Decision{Action: Wait, Until: ago(-5 * time.Minute), HealthySince: noon}), healthyDelay(5*time.Minute), requested()),
	decides("that runs from when it was first seen to be well",
		underWay(Decision{Action: Wait, Until: ago(-moment), HealthySince: ago(5*time.Minute - moment)}), healthyDelay(5*time.Minute),
		requested(healthySince(ago(5*time.Minute-moment)))),
	decides("to the moment", underWay(Decision{Action: Withdraw, Why: Recovered, HealthySince: ago(5 * time.Minute)}),
		healthyDelay(5*time.Minute), requested(healthySince(ago(5*time.Minute)))),
	decides("a note from a clock that was ahead counts from now",
		underWay(Decision{Action: Wait, Until: ago(-5 * time.Minute), HealthySince: noon}), healthyDelay(5*time.Minute),
		requested(healthySince(ago(-time.Hour)))),
	decides("recovery confirmed by a person: no delay", underWay(withdraws(Recovered)), healthyDelay(5*time.Minute), confirmed, requested()),
	decides("recovery: Confirmed waits for that person, however long",
		underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: ago(time.Hour)}}, HealthySince: ago(time.Hour)}),
		recoveryConfirmed, healthyDelay(5*time.Minute), requested(healthySince(ago(time.Hour)))),
	decides("from when it was first seen to be well",
		underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: noon}}, HealthySince: noon}), recoveryConfirmed,
		requested()),
	decides("and for nothing else", underWay(withdraws(Recovered)), recoveryConfirmed, confirmed, requested()),
	decides("who is only called healthy, as others are to blame, keeps its request",
		underWay(Decision{Action: Wait, HealthySince: ago(time.Minute)}), is(calledWell), confirmed, requested(healthySince(ago(time.Minute)))),
	decides("a confirmation of who is not well means nothing", waits(ago(-9*time.Minute)), is(sickFor(time.Hour)), confirmed, requested()),
	decides("a failure does not matter any more", underWay(withdraws(Recovered)), requested(failed, started(time.Hour))),
	decides("a step that the check does not name any more ends as any other",
		underWay(Decision{Action: Withdraw, Why: Recovered, Step: StepID{1, "Z/z"}}), requested(ofStep(StepID{1, "Z/z"}))),
}

func TestRequest_Recovered_IsWithdrawn(t *testing.T) { decide(t, recoveries, twoSteps, is(well)) }

func acted(r *Request) { r.Acted = true }

// A remediator that writes nothing to its request for ten minutes is reported. The time of a pause does not count.
func TestRequest_NothingWritten_IsReported(t *testing.T) {
	oneHour := timeout(time.Hour)
	for _, test := range []struct {
		why       string
		options   []option
		notActing []string
		wakeUp    time.Time
	}{
		{"before ten minutes", []option{requested(started(10*time.Minute - moment))}, nil, ago(-moment)},
		{"after ten minutes", []option{requested(started(10 * time.Minute))}, []string{"m1"}, ago(-50 * time.Minute)},
		{"it has written something", []option{requested(started(10*time.Minute), acted)}, nil, ago(-50 * time.Minute)},
		{
			"the target is healthy",
			[]option{is(well), healthyDelay(time.Hour), requested(started(time.Hour), healthySince(ago(time.Minute)))},
			nil,
			ago(-59 * time.Minute),
		},
		{"the target was paused", []option{requested(started(time.Hour)), unpaused(time.Minute)}, nil, ago(-9 * time.Minute)},
		{"the check was paused", []option{requested(started(time.Hour)), unpausedAt(ago(time.Minute))}, nil, ago(-9 * time.Minute)},
		{"the check is paused", []option{requested(started(time.Hour)), pausedCheck}, nil, never},
		{"the target is paused", []option{requested(started(time.Hour)), is(paused)}, nil, never},
		{"the request is being deleted", []option{requested(started(time.Hour), beingDeleted(time.Minute))}, nil, ago(-4 * time.Minute)},
	} {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			plan := usual(append([]option{oneHour}, test.options...)...).plan()
			g.Expect(plan.NotActing).To(Equal(test.notActing))
			g.Expect(plan.WakeUp).To(Equal(test.wakeUp))
		})
	}
}

// The Lease of the first step lasts as long as the step, and a minute: 11m.
func ours(until time.Time) option {
	return lease(Lease{Used: true, Holder: "NodeHealthCheck-a", HeldByThis: true, Until: until})
}

var leases = []row{
	decides("a Lease that lasts is left alone until its half is over",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-30 * time.Second), LeaseUntil: ago(-6 * time.Minute)}),
		requested(), ours(ago(-6*time.Minute))),
	decides("a moment before",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-moment), LeaseUntil: ago(-330*time.Second - moment)}),
		requested(), ours(ago(-330*time.Second-moment))),
	decides("then it is renewed, to the moment",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
		requested(), ours(ago(-330*time.Second))),
	decides("a longer step has a longer Lease",
		underWay(Decision{Action: Wait, Until: ago(-29 * time.Minute), RenewAt: ago(-930 * time.Second), LeaseUntil: ago(-31 * time.Minute)}),
		timeout(30*time.Minute), requested(), ours(noon)),
	decides("a step without a timeout is taken for ten minutes",
		underWay(Decision{Action: Wait, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}), timeout(0), requested(),
		ours(noon)),
	decides("who waits for a request to go keeps it, too",
		underWay(Decision{Action: Wait, Until: ago(-4 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
		requested(beingDeleted(time.Minute)), ours(noon)),
	decides("or for health to last",
		underWay(Decision{Action: Wait, Until: ago(-time.Hour), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute), HealthySince: noon}),
		is(well), healthyDelay(time.Hour), requested(), ours(noon)),
	decides("Lease of another holder: the remediator works already", waits(ago(-9*time.Minute)), requested(),
		lease(heldUntil(ago(time.Minute)))),
	decides("Lease without holder: acquired again",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
		requested(), lease(Lease{Used: true})),
	decides("also one with a time that has no meaning",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
		requested(), lease(Lease{Used: true, Until: ago(-time.Hour)})),
	decides("but not by who does not take part", waits(ago(-9*time.Minute)), requested(), lease(Lease{})),
	decides("who does not take part any more renews nothing",
		underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), LeaseUntil: ago(-time.Minute)}), requested(),
		lease(heldByThis(ago(-time.Minute)))),
	decides("it is kept as long as a request is there that is given up",
		underWay(Decision{Action: GiveUp, Why: StepFailed, LeaseUntil: ago(-time.Minute), History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
		requested(failed), ours(ago(-time.Minute))),
	decides("waits for confirmation: the Lease stays",
		underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: noon}}, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute), HealthySince: noon}),
		is(well), recoveryConfirmed, requested(), ours(noon)),
	decides("and who waits for a request that does not go",
		underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(20 * time.Minute)}}, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
		requested(beingDeleted(20*time.Minute)), ours(noon)),
	decides("without a request there is no need of it", Decision{}, is(suspect), ours(ago(-time.Minute))),
	decides("nor if the target is held", Decision{Block: Block{Reason: Excluded}, Step: stepA}, ours(ago(-time.Minute)), excluded),
}

func TestLease_Request_IsRenewedAndReleased(t *testing.T) { decide(t, leases) }

// The Lease ends a minute after the step, or after a day without a timeout: a remediator that never finishes does not keep others from
// the Node.
func TestLease_StepIsOver_IsReleased(t *testing.T) {
	kept := func(began time.Duration) option { return requested(started(began), beingDeleted(time.Minute)) }
	waiting := func(d Decision) Decision { return underWay(d) }
	const day = 24 * time.Hour
	decide(t, []row{
		decides("it ends before it has to be renewed", waiting(Decision{
			Action: Wait, Until: ago(-4 * time.Minute), LeaseUntil: ago(-11 * time.Minute), RenewAt: ago(-moment),
		}), kept(11*time.Minute-moment), ours(ago(-11*time.Minute))),
		decides("a minute after the step", waiting(Decision{Action: Wait, Until: ago(-4 * time.Minute), LeaseEnd: noon}),
			kept(11*time.Minute), ours(ago(-11*time.Minute))),
		decides("it is not acquired again", waiting(Decision{Action: Wait, Until: ago(-4 * time.Minute), LeaseEnd: noon}),
			kept(11*time.Minute), lease(Lease{Used: true})),
		decides("that of others is left alone", waiting(Decision{Action: Wait, Until: ago(-4 * time.Minute)}),
			kept(11*time.Minute), lease(heldUntil(ago(-time.Minute)))),
		decides("a pause does not count", waiting(Decision{
			Action: Wait, Until: ago(-4 * time.Minute), LeaseUntil: ago(-11 * time.Minute), RenewAt: ago(-330 * time.Second),
		}), kept(time.Hour), unpaused(time.Minute), ours(ago(-11*time.Minute))),
		decides("a day without a timeout", waiting(Decision{Action: Wait, LeaseEnd: noon}), timeout(0),
			requested(started(day+time.Minute)), ours(ago(-11*time.Minute))),
		decides("and a moment before", waiting(Decision{Action: Wait, LeaseUntil: ago(-11 * time.Minute), RenewAt: ago(-moment)}), timeout(0),
			requested(started(day+time.Minute-moment)), ours(ago(-11*time.Minute))),
	})
	orphaned := usual(orphan(Orphan{Name: "gone", Gone: true, Request: lost(started(11*time.Minute), beingDeleted(time.Minute)), Lease: Lease{
		Used: true, Holder: "NodeHealthCheck-a", HeldByThis: true, Until: ago(-11 * time.Minute),
	}}))
	plan := orphaned.plan()
	NewWithT(t).Expect(plan.Orphans[0].OrphanWrites(&orphaned.situation.Orphans[0])).To(ContainElement(ReleaseLease))
}
