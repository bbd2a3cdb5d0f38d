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

var remediators = []row{
	{
		why: "a remediator has the time of its step", options: []option{requested()},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "almost all of it", options: []option{requested(started(10*time.Minute - moment))},
		want: underWay(Decision{Action: Wait, Until: ago(-moment)}),
	},
	{
		why: "to the moment: then the next step's turn has come", options: []option{requested(started(10 * time.Minute))},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "a step without a timeout takes as long as it likes", options: []option{timeout(0), requested(started(1000 * time.Hour))},
		want: underWay(Decision{Action: Wait}),
	},
	{
		why: "the time of a pause does not count", options: []option{
			requested(started(time.Hour)), check(func(c *Check) { c.UnpausedAt = ago(10*time.Minute - moment) }),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-moment)}),
	},
	{
		why: "to the moment after that", options: []option{
			requested(started(time.Hour)), check(func(c *Check) { c.UnpausedAt = ago(10 * time.Minute) }),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "a pause that was over before it began plays no role", options: []option{
			requested(), check(func(c *Check) { c.UnpausedAt = ago(time.Hour) }),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "also if it was begun by a clock that was ahead", options: []option{timeout(0), requested(started(-time.Hour))},
		want: underWay(Decision{Action: Wait}),
	},
	{
		why: "an explicit failure is not waited for", options: []option{requested(failed)},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}}),
	},
	{
		why: "failed and timed out: reported as failed", options: []option{requested(failed, started(time.Hour))},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}}),
	},
	{
		why: "interrupted after the failure was recorded: continued", options: []option{
			requested(toldToStop), target(func(t *Target) { t.History.Tried = stepA }),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "stopped without a recorded failure: withdrawn, no next step", options: []option{requested(toldToStop, failed, started(time.Hour))},
		want: underWay(Decision{Action: Withdraw, Why: NotSelected}),
	},
	{
		why: "also where the step has no timeout", options: []option{
			timeout(0), requested(toldToStop), target(func(t *Target) { t.History.Tried = stepA }),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "a success is waited for until the target is healthy", options: []option{requested(succeeded)},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "and if it does not become healthy in time, the next step comes all the same", options: []option{requested(succeeded, started(10*time.Minute))},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "a template that the check does not name any more", options: []option{requested(ofStep(StepID{1, "Z/z"}))},
		want: underWay(Decision{Action: Withdraw, Why: StepChanged, Step: StepID{1, "Z/z"}}),
	},
	{
		why: "the same template in another place is another step", options: []option{requested(ofStep(StepID{3, "A/a"}), failed)},
		want: underWay(Decision{Action: Withdraw, Why: StepChanged, Step: StepID{3, "A/a"}}),
	},
	{
		why: "a step of the owner is none that has requests", options: []option{byOwner, requested(ofStep(stepO))},
		want: underWay(Decision{Action: Withdraw, Why: StepChanged, Step: stepO}),
	},
	{
		why: "a step that is not the first has its own time", options: []option{
			policy(func(p *Policy) { p.Steps[1].Timeout = time.Hour }), requested(ofStep(stepB)),
		},
		want: underWay(Decision{Action: Wait, Step: stepB, Until: ago(-59 * time.Minute)}),
	},
	{
		why: "once the last step has failed all of them begin again, after a wait", options: []option{
			target(func(t *Target) { t.History.Tried = stepA }), requested(ofStep(stepB), failed),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
	},
	{
		why: "each time after a longer one", options: []option{
			target(func(t *Target) { t.History = History{Failures: 1, NotBefore: ago(time.Hour), Tried: stepA} }),
			requested(ofStep(stepB), attempt(2), failed),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, Attempt: 2, History: History{Failures: 2, NotBefore: ago(-2 * time.Minute)}}),
	},
	{
		why: "what has been noted already counts once: the step", options: []option{
			target(func(t *Target) { t.History = History{Tried: stepA} }), requested(failed),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}}),
	},
	{
		why: "and the attempt, with the wait that was noted first", options: []option{
			remembers(1, ago(-30*time.Second)), requested(ofStep(stepB), failed),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, Step: stepB, History: History{Failures: 1, NotBefore: ago(-30 * time.Second)}}),
	},
	{
		why: "a relapse: the next recovery counts again", options: []option{requested(healthySince(ago(time.Minute)))},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "a suspect is not well, either", options: []option{is(suspect), requested(healthySince(ago(time.Minute)), started(time.Hour))},
		want: underWay(Decision{Action: Wait}),
	},
	{
		why: "unreadable: not unhealthy again", options: []option{
			is(unreadable), requested(healthySince(ago(time.Minute)), started(time.Hour)),
		},
		want: underWay(Decision{Action: Wait, HealthySince: ago(time.Minute)}),
	},
	{
		why: "and its time goes on", options: []option{unreachable, is(unreadable), requested(started(10 * time.Minute))},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "no pause that was asked for stops it", options: []option{
			check(func(c *Check) { c.PauseRequests = []string{"an upgrade"} }), requested(failed),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, History: History{Tried: stepA}}),
	},
	{
		why: "nor a storm, nor a closed gate", options: []option{cooldown, limited(0), requested(started(10 * time.Minute))},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
	{
		why: "nor a Cluster that is being taken down", options: []option{check(func(c *Check) { c.Cluster = ClusterIsDeleting }), requested()},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "a label that came later does not end what is under way", options: []option{
			target(func(t *Target) { t.Excluded = true }), requested(),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "a step of an excluded target times out", options: []option{
			target(func(t *Target) { t.Excluded = true }), requested(started(10 * time.Minute)),
		},
		want: underWay(Decision{Action: GiveUp, Why: StepTimedOut, History: History{Tried: stepA}}),
	},
}

func TestRequest_Remediator_IsAwaitedUntilTimeout(t *testing.T) { decide(t, remediators, twoSteps) }

var releases = []row{
	{
		why: "a request that is going is waited for", options: []option{requested(beingDeleted(time.Minute))},
		want: underWay(Decision{Action: Wait, Until: ago(-4 * time.Minute)}),
	},
	{
		why: "for five minutes", options: []option{requested(beingDeleted(5*time.Minute - moment))},
		want: underWay(Decision{Action: Wait, Until: ago(-moment)}),
	},
	{
		why: "deletion takes exactly 5 minutes: reported", options: []option{requested(beingDeleted(5 * time.Minute))},
		want: underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(5 * time.Minute)}}, Until: time.Time{}}),
	},
	{
		why: "and nothing else is", options: []option{requested(beingDeleted(20 * time.Minute)), target(func(t *Target) { t.Excluded = true })},
		want: underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(20 * time.Minute)}}}),
	},
	{
		why: "healthy target: not reported", options: []option{is(well), requested(beingDeleted(20 * time.Minute))},
		want: underWay(Decision{Action: Wait}),
	},
	{why: "nor of a suspect", options: []option{is(suspect), requested(beingDeleted(20 * time.Minute))}, want: underWay(Decision{Action: Wait})},
	{
		why: "however it ended: it is going", options: []option{requested(beingDeleted(time.Minute), failed, toldToStop, started(time.Hour), ofStep(StepID{7, "Z/z"}))},
		want: underWay(Decision{Action: Wait, Step: StepID{7, "Z/z"}, Until: ago(-4 * time.Minute)}),
	},
}

func TestRequest_Deleting_IsAwaited(t *testing.T) { decide(t, releases, twoSteps) }

var recoveries = []row{
	{why: "who is well again needs no request", options: []option{requested()}, want: underWay(Decision{Action: Withdraw, Why: Recovered})},
	{
		why: "nor a memory of what failed", options: []option{remembers(3, ago(-time.Minute)), requested(attempt(4))},
		want: underWay(Decision{Action: Withdraw, Why: Recovered, Attempt: 4}),
	},
	{
		why: "healthyDelay: not before it has been well for a while", options: []option{healthyDelay(5 * time.Minute), requested()},
		want: underWay(Decision{Action: Wait, Until: ago(-5 * time.Minute), HealthySince: noon}),
	},
	{
		why: "that runs from when it was first seen to be well", options: []option{
			healthyDelay(5 * time.Minute), requested(healthySince(ago(5*time.Minute - moment))),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-moment), HealthySince: ago(5*time.Minute - moment)}),
	},
	{
		why: "to the moment", options: []option{healthyDelay(5 * time.Minute), requested(healthySince(ago(5 * time.Minute)))},
		want: underWay(Decision{Action: Withdraw, Why: Recovered, HealthySince: ago(5 * time.Minute)}),
	},
	{
		why: "a note from a clock that was ahead counts from now", options: []option{
			healthyDelay(5 * time.Minute), requested(healthySince(ago(-time.Hour))),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-5 * time.Minute), HealthySince: noon}),
	},
	{
		why: "recovery confirmed by a person: no delay", options: []option{healthyDelay(5 * time.Minute), confirmed, requested()},
		want: underWay(Decision{Action: Withdraw, Why: Recovered}),
	},
	{
		why: "recovery: Confirmed waits for that person, however long", options: []option{
			recoveryConfirmed, healthyDelay(5 * time.Minute), requested(healthySince(ago(time.Hour))),
		},
		want: underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: ago(time.Hour)}}, HealthySince: ago(time.Hour)}),
	},
	{
		why: "from when it was first seen to be well", options: []option{recoveryConfirmed, requested()},
		want: underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: noon}}, HealthySince: noon}),
	},
	{
		why: "and for nothing else", options: []option{recoveryConfirmed, confirmed, requested()},
		want: underWay(Decision{Action: Withdraw, Why: Recovered}),
	},
	{
		why: "who is only called healthy, as others are to blame, keeps its request", options: []option{
			is(calledWell), confirmed, requested(healthySince(ago(time.Minute))),
		},
		want: underWay(Decision{Action: Wait, HealthySince: ago(time.Minute)}),
	},
	{
		why: "a confirmation of who is not well means nothing", options: []option{is(sickFor(time.Hour)), confirmed, requested()},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "a failure does not matter any more", options: []option{requested(failed, started(time.Hour))},
		want: underWay(Decision{Action: Withdraw, Why: Recovered}),
	},
	{
		why: "a step that the check does not name any more ends as any other", options: []option{requested(ofStep(StepID{1, "Z/z"}))},
		want: underWay(Decision{Action: Withdraw, Why: Recovered, Step: StepID{1, "Z/z"}}),
	},
}

func TestRequest_Recovered_IsWithdrawn(t *testing.T) { decide(t, recoveries, twoSteps, is(well)) }

// The Lease of the first step lasts as long as the step, and a minute: 11m.
func ours(until time.Time) option {
	return lease(Lease{Used: true, Holder: "NodeHealthCheck-a", HeldByThis: true, Until: until})
}

var leases = []row{
	{
		why: "a Lease that lasts is left alone until its half is over", options: []option{requested(), ours(ago(-6 * time.Minute))},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-30 * time.Second), LeaseUntil: ago(-6 * time.Minute)}),
	},
	{
		why: "a moment before", options: []option{requested(), ours(ago(-330*time.Second - moment))},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-moment), LeaseUntil: ago(-330*time.Second - moment)}),
	},
	{
		why: "then it is renewed, to the moment", options: []option{requested(), ours(ago(-330 * time.Second))},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{
		why: "a longer step has a longer Lease", options: []option{timeout(30 * time.Minute), requested(), ours(noon)},
		want: underWay(Decision{Action: Wait, Until: ago(-29 * time.Minute), RenewAt: ago(-930 * time.Second), LeaseUntil: ago(-31 * time.Minute)}),
	},
	{
		why: "a step without a timeout is taken for ten minutes", options: []option{timeout(0), requested(), ours(noon)},
		want: underWay(Decision{Action: Wait, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{
		why: "who waits for a request to go keeps it, too", options: []option{requested(beingDeleted(time.Minute)), ours(noon)},
		want: underWay(Decision{Action: Wait, Until: ago(-4 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{
		why: "or for health to last", options: []option{is(well), healthyDelay(time.Hour), requested(), ours(noon)},
		want: underWay(Decision{Action: Wait, Until: ago(-time.Hour), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute), HealthySince: noon}),
	},
	{
		why: "Lease of another holder: the remediator works already", options: []option{
			requested(), lease(Lease{Used: true, Holder: "node-maintenance", Until: ago(time.Minute)}),
		},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "Lease without holder: acquired again", options: []option{requested(), lease(Lease{Used: true})},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{
		why: "also one with a time that has no meaning", options: []option{requested(), lease(Lease{Used: true, Until: ago(-time.Hour)})},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{
		why: "but not by who does not take part", options: []option{requested(), lease(Lease{})},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute)}),
	},
	{
		why: "who does not take part any more renews nothing", options: []option{requested(), lease(Lease{HeldByThis: true, Until: ago(-time.Minute)})},
		want: underWay(Decision{Action: Wait, Until: ago(-9 * time.Minute), LeaseUntil: ago(-time.Minute)}),
	},
	{
		why: "it is kept as long as a request is there that is given up", options: []option{requested(failed), ours(ago(-time.Minute))},
		want: underWay(Decision{Action: GiveUp, Why: StepFailed, LeaseUntil: ago(-time.Minute), History: History{Failures: 1, NotBefore: ago(-time.Minute)}}),
	},
	{
		why: "waits for confirmation: the Lease stays", options: []option{
			is(well), recoveryConfirmed, requested(), ours(noon),
		},
		want: underWay(Decision{Block: Block{Reason: RecoveryNotConfirmed, Details: Details{Since: noon}}, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute), HealthySince: noon}),
	},
	{
		why: "and who waits for a request that does not go", options: []option{requested(beingDeleted(20 * time.Minute)), ours(noon)},
		want: underWay(Decision{Block: Block{Reason: PreviousStepNotReleased, Details: Details{Since: ago(20 * time.Minute)}}, RenewAt: ago(-330 * time.Second), LeaseUntil: ago(-11 * time.Minute)}),
	},
	{why: "without a request there is no need of it", options: []option{is(suspect), ours(ago(-time.Minute))}, want: Decision{}},
	{
		why: "nor if the target is held", options: []option{ours(ago(-time.Minute)), target(func(t *Target) { t.Excluded = true })},
		want: Decision{Block: Block{Reason: Excluded}, Step: stepA},
	},
}

func TestLease_Request_IsRenewedAndReleased(t *testing.T) { decide(t, leases) }
