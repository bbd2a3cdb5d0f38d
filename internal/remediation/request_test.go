// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"
)

func started(d time.Duration) func(*Request) { return func(r *Request) { r.Started = ago(d) } }

func beingDeleted(d time.Duration) func(*Request) {
	return func(r *Request) { r.DeletingSince = ago(d) }
}

func healthySince(at time.Time) func(*Request) { return func(r *Request) { r.HealthySince = at } }
func ofStep(id StepID) func(*Request)          { return func(r *Request) { r.Step = id } }
func attempt(n int) func(*Request)             { return func(r *Request) { r.Attempt = n } }
func timeout(d time.Duration) option           { return policy(func(p *Policy) { p.Steps[0].Timeout = d }) }

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
