// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// seenAgain is a preflight check that bears out everything about a scene.
func (x *scene) seenAgain() *PreflightCheck {
	return &PreflightCheck{Verdict: x.verdicts[0], Target: x.situation.Targets[0], ControlPlane: x.situation.ControlPlane}
}

func notConfirmed(why string) Block {
	return Block{Reason: PreflightFailed, Details: Details{Cause: why}}
}

// renewed is a Lease of the Node that its kubelet has renewed since.
func renewed(at time.Time) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.LeaseRenewed = at }
}

func finding(change func(*health.Finding)) option {
	return func(x *scene) { change(&x.verdicts[0].Findings[0]) }
}

// onlyWished: what else was wrong is over.
func onlyWished(l *PreflightCheck) { l.Verdict = wished }

func leaves(l *PreflightCheck) { l.Target.Terminating = Departure{Sign: "a taint"} }

// takes is the Lease of a Node with another holder, and turnOf a control-plane Lease.
func takes(until time.Time) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.Target.Lease = Lease{Used: true, Holder: "other", Until: until} }
}

func turnOf(holder string, until time.Time) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.ControlPlane.Lease = Lease{Used: true, Holder: holder, Until: until} }
}

// lookRow is a scene, and a preflight check that confirms or rejects what is planned for it.
type lookRow struct {
	why     string
	options []option
	look    func(*PreflightCheck)
	hold    Block
}

func confirms(why string, look func(*PreflightCheck), options ...option) lookRow {
	return lookRow{why, options, look, Block{}}
}

func rejects(why string, look func(*PreflightCheck), hold Block, options ...option) lookRow {
	return lookRow{why, options, look, hold}
}

func unchanged(*PreflightCheck)     {}
func unreadFacts(l *PreflightCheck) { l.Failed = true }

func busy(names ...string) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.ControlPlane.Busy = names }
}

var looks = []lookRow{
	confirms("what is borne out is done", unchanged),
	confirms("also for an owner", unchanged, byOwner),
	rejects("a pause stops it", func(l *PreflightCheck) { l.Paused = true }, Block{Reason: Paused}),
	rejects("a pause stops whatever would clean up", func(l *PreflightCheck) { l.Paused = true }, Block{Reason: Paused}, is(well),
		requested()),
	rejects("a pause is reported first", func(l *PreflightCheck) { l.Paused, l.Failed = true, true }, Block{Reason: Paused}),
	rejects("what could not be read does not count", unreadFacts, notConfirmed("the facts could not be read again")),
	rejects("nor for what would end", unreadFacts, notConfirmed("the facts could not be read again"), requested(failed)),
	rejects("nor for what would clean up", unreadFacts, notConfirmed("the facts could not be read again"), goes, marked()),
	rejects("a Lease of the kubelet that cannot be read", func(l *PreflightCheck) { l.LeaseUnread, l.Cause = true, "not allowed" },
		notConfirmed("the Lease of its kubelet could not be read: not allowed")),
	rejects("requests that cannot be read", func(l *PreflightCheck) { l.RequestsUnread, l.Cause = true, "not allowed" },
		notConfirmed("other remediations of the target could not be read: not allowed")),
	rejects("also for an owner", func(l *PreflightCheck) { l.RequestsUnread = true },
		notConfirmed("other remediations of the target could not be read"), byOwner),
	confirms("what ends something needs no others", func(l *PreflightCheck) { l.RequestsUnread = true }, requested(failed)),
	rejects("an outage since the plan", func(l *PreflightCheck) { l.KubeletsUntil = ago(-time.Minute) },
		Block{Reason: ReconnectGracePeriod, Until: ago(-time.Minute)}),
	rejects("a step of the clock since the plan", func(l *PreflightCheck) { l.ClockOffset = -time.Minute },
		Block{Reason: ClockSkew, Details: Details{Cause: "1m0s"}}, byOwner),
	confirms("what ends something does not mind the clock", func(l *PreflightCheck) { l.ClockOffset = time.Minute }, requested(failed)),
	rejects("start, reconcile out of time", func(l *PreflightCheck) { l.Late = true }, Block{Reason: PreflightPending}),
	rejects("end, reconcile out of time", func(l *PreflightCheck) { l.Late = true }, Block{Reason: PreflightPending}, requested(failed)),
	rejects("start, limit exceeded",
		func(l *PreflightCheck) {
			l.LimitState = LimitState{Limit: Limit{Field: "maxUnhealthy", Value: "2", Max: 2}, Unhealthy: 3}
		},
		Block{Reason: TooManyUnhealthy, Details: Details{Cause: "maxUnhealthy=2", Count: 3, Max: 2}}),
	rejects("start, fewer than unhealthyRange",
		func(l *PreflightCheck) {
			l.LimitState = LimitState{Limit: Limit{Field: "unhealthyRange", Value: "[3-5]", Min: 3, Max: 5}, Unhealthy: 2}
		},
		Block{Reason: TooFewUnhealthy, Details: Details{Cause: "unhealthyRange=[3-5]", Count: 2, Min: 3, Max: 5}}, byOwner),
	confirms("start, limit reached", func(l *PreflightCheck) { l.LimitState = LimitState{Limit: Limit{Min: 2, Max: 2}, Unhealthy: 2} }),
	confirms("end, limit exceeded", func(l *PreflightCheck) { l.LimitState = LimitState{Unhealthy: 1} }, requested(failed)),
	rejects("what could not be written", func(l *PreflightCheck) { l.Failed, l.Unwritten, l.Cause = true, true, "Lease a/b: not allowed" },
		notConfirmed("a required write failed: Lease a/b: not allowed")),
	rejects("and why they cannot", func(l *PreflightCheck) { l.Failed, l.Cause = true, "not allowed" },
		notConfirmed("the facts could not be read again: not allowed")),
	rejects("a Node that cannot be read again", func(l *PreflightCheck) { l.Verdict.Kind, l.Cause = health.Undetermined, "not allowed" },
		notConfirmed("the Node could not be read again: not allowed")),
	rejects("another check than the one that was planned for", func(l *PreflightCheck) { l.Changed = true },
		notConfirmed("the check or its Cluster has changed")),
	rejects("also for what would end", func(l *PreflightCheck) { l.Changed = true }, notConfirmed("the check or its Cluster has changed"),
		requested(failed)),
	rejects("who is healthy again is not given up", func(l *PreflightCheck) { l.Verdict = well }, notConfirmed("the target is healthy again"),
		requested(failed)),
	rejects("who is not healthy any more keeps its request", func(l *PreflightCheck) { l.Verdict = suspect },
		notConfirmed("the target is no longer healthy"), is(well), requested()),
	rejects("who has become unhealthy in between has to be healthy for long enough again",
		func(l *PreflightCheck) { l.Target.Request = lost(healthySince(noon.Add(moment))) },
		notConfirmed("the target was unhealthy in between"), is(well), requested(healthySince(noon))),
	confirms("request deleted since the plan", func(l *PreflightCheck) { l.Target.Request = nil }, is(well), requested(healthySince(noon))),
	confirms("unless it goes for another cause", func(l *PreflightCheck) { l.Verdict = suspect }, is(well), goes, requested()),
	rejects("nor one that is only called healthy, as others are to blame", func(l *PreflightCheck) { l.Verdict = calledWell },
		notConfirmed("the target is no longer healthy"), is(well), requested()),
	confirms("who is only called healthy is given up all the same", func(l *PreflightCheck) { l.Verdict = calledWell }, requested(failed)),
	confirms("who is unhealthy in another way is still given up", func(l *PreflightCheck) { l.Verdict = wished }, requested(failed)),
	rejects("who is healthy again is not remediated", func(l *PreflightCheck) { l.Verdict.Kind = health.Healthy },
		notConfirmed("its health has changed")),
	rejects("nor who is only suspect", func(l *PreflightCheck) { l.Verdict.Kind = health.Suspect }, notConfirmed("its health has changed"),
		byOwner),
	rejects("nor who is unhealthy for another reason", func(l *PreflightCheck) { l.Verdict.Reason = health.NodeDeleted },
		notConfirmed("its health has changed")),
	rejects("nor who was healthy in between", func(l *PreflightCheck) { l.Verdict.Since = ago(6*time.Minute - moment) },
		notConfirmed("its health has changed")),
	confirms("the same moment is the same",
		func(l *PreflightCheck) { l.Verdict.Since = l.Verdict.Since.In(time.FixedZone("elsewhere", 3600)) }),
	rejects("who is being deleted", func(l *PreflightCheck) { l.Target.DeletingSince = noon }, notConfirmed("the target is being deleted")),
	rejects("whose Node is being deleted", func(l *PreflightCheck) { l.Target.NodeDeletingSince = noon },
		notConfirmed("the target is being deleted")),
	confirms("which an owner does not need", func(l *PreflightCheck) { l.Target.NodeDeletingSince = noon }, byOwner),
	rejects("neither for its owner", func(l *PreflightCheck) { l.Target.DeletingSince = noon }, notConfirmed("the target is being deleted"),
		byOwner),
	rejects("a request that no cache has seen", func(l *PreflightCheck) { l.Target.Request = &Request{} },
		notConfirmed("the target has a remediation request already")),
	rejects("attempts that no cache has seen: a failure", func(l *PreflightCheck) { l.Target.History.Failures = 1 },
		notConfirmed("the remediation history has changed")),
	rejects("a wait", func(l *PreflightCheck) { l.Target.History.NotBefore = noon }, notConfirmed("the remediation history has changed")),
	rejects("a step", func(l *PreflightCheck) { l.Target.History.Tried = stepA }, notConfirmed("the remediation history has changed")),
	rejects("another check has something for it now", func(l *PreflightCheck) { l.Target.CoveredBy = "MachineHealthCheck/other" },
		notConfirmed("MachineHealthCheck/other is responsible for the target")),
	rejects("something announces that it goes", leaves, Block{Reason: Terminating, Details: Details{Cause: "a taint"}}),
	confirms("owner remediation, Machine being deleted", leaves, byOwner),
	rejects("a label keeps it from being remediated now", func(l *PreflightCheck) { l.Target.Excluded = true }, Block{Reason: Excluded}),
	rejects("also by its owner", func(l *PreflightCheck) { l.Target.Excluded = true }, Block{Reason: Excluded}, byOwner),
	confirms("what ends something does not mind a label", func(l *PreflightCheck) { l.Target.Excluded = true }, requested(failed)),
	rejects("its owner refuses by now", func(l *PreflightCheck) { l.Target.OwnerRemediation.Refused = true },
		Block{Reason: OwnerRefuses, Details: Details{Cause: owner}}, byOwner),
	confirms("a remediator is not asked about its owner", func(l *PreflightCheck) { l.Target.OwnerRemediation.Refused = true }),
	confirms("who is unhealthy besides is tried again, whatever was wished", unchanged, is(wished), remembers(1, time.Time{}), alsoSick),
	rejects("a wish that was granted is all that is left", onlyWished, Block{Reason: AnnotationNotRemoved, Details: Details{Count: 1}},
		is(wished), remembers(1, time.Time{}), alsoSick),
	confirms("and all that there was, but it was not granted yet", onlyWished, is(wished), alsoSick),
	confirms("or is being granted", onlyWished, is(wished), alsoSick, twoSteps,
		target(func(t *Target) { t.History = History{Failures: 1, Tried: stepA} })),
	rejects("something else bears the name of its request by now", func(l *PreflightCheck) { l.Target.RequestNameConflict = "other" },
		Block{Reason: RequestNameConflict, Details: Details{Cause: "other"}}),
	rejects("Lease acquired by another holder since the plan", takes(ago(LeaseMargin-moment)),
		Block{Reason: NodeLeaseHeld, Until: noon.Add(moment), Details: Details{Cause: "other"}}),
	confirms("and has finished", takes(ago(LeaseMargin))),
	confirms("a place is free, to the last one", func(l *PreflightCheck) { l.Others = 1 }, slots(2)),
	rejects("places that others have taken since", func(l *PreflightCheck) { l.Others = 2 },
		Block{Reason: PreflightFailed, Details: Details{Cause: "maxInFlight is reached", Count: 2, Max: 2}}, slots(2)),
	confirms("who needs no place does not mind", func(l *PreflightCheck) { l.Others = 9 }, slots(1), byOwner, ofControlPlane),
	confirms("no limit", func(l *PreflightCheck) { l.Others = 9 }),
	confirms("who cleans up does not mind, either", func(l *PreflightCheck) {
		l.Others = 9
		l.Target = Target{Request: &Request{}, DeletingSince: noon, CoveredBy: "o"}
	}, slots(1), requested(failed)),

	rejects("the request that was just created is missing", func(*PreflightCheck) {},
		notConfirmed("the last request cannot be read: another client may have deleted it"),
		target(func(t *Target) { t.DeletedRequests.Unread = true })),

	confirms("a remediator keeps the earlier request of an owner's Machine", func(l *PreflightCheck) {
		l.Target.Request = &Request{DeletingSince: ago(ReleaseTimeout)}
	}, byOwner),
	rejects("but it may not have had the time to release it", func(l *PreflightCheck) {
		l.Target.Request = &Request{DeletingSince: ago(ReleaseTimeout - moment)}
	}, notConfirmed("the target has a remediation request already"), byOwner),
	rejects("another remediator waits for it", func(l *PreflightCheck) { l.Target.Request = &Request{DeletingSince: ago(time.Hour)} },
		notConfirmed("the target has a remediation request already")),
	rejects("a remediator has handed the Machine over since", func(l *PreflightCheck) { l.Target.OwnerRemediation.HandedOverAt = noon },
		notConfirmed("owner remediation was requested meanwhile")),
	confirms("or long before", func(l *PreflightCheck) { l.Target.OwnerRemediation.HandedOverAt = ago(time.Hour) }),

	confirms("control plane, no other member is busy", busy("n1", "m1"), ofControlPlane),
	rejects("control plane, another member is busy", busy("n2"), Block{Reason: ControlPlaneBusy, Details: Details{Cause: "n2"}},
		ofControlPlane),
	rejects("another check has its turn", turnOf("other", noon.Add(moment)),
		Block{Reason: ControlPlaneBusy, Until: noon.Add(moment), Details: Details{Cause: "other"}}, ofControlPlane),
	confirms("and has let it run out", turnOf("other", noon), ofControlPlane),
	confirms("its owner serialises by itself", busy("n2"), ofControlPlane, byOwner),
	confirms("a worker is no part of it", busy("n2")),
	rejects("its members cannot be found out any more", func(l *PreflightCheck) { l.ControlPlane.Etcd = Etcd{} }, Block{Reason: QuorumUnknown},
		ofControlPlane),
	rejects("it is the only one left", func(l *PreflightCheck) { l.ControlPlane.Etcd = members(1) },
		Block{Reason: SingleControlPlane, Details: Details{Count: 1}}, ofControlPlane),
	rejects("label of the control plane removed since the plan",
		func(l *PreflightCheck) { l.Target.ControlPlane, l.ControlPlane.Etcd = false, members(1) },
		Block{Reason: SingleControlPlane, Details: Details{Count: 1}}, ofControlPlane),
	rejects("one of the others has become unhealthy", func(l *PreflightCheck) { l.ControlPlane.Etcd = members(3, "n2") },
		Block{Reason: QuorumAtRisk, Details: Details{Count: 1, Min: 2, Max: 3}}, ofControlPlane),
	confirms("who ends something takes nothing away", func(l *PreflightCheck) { l.ControlPlane = ControlPlane{} }, ofControlPlane,
		requested(failed)),
	rejects("what is busy is reported before what is at risk", func(l *PreflightCheck) { l.ControlPlane = ControlPlane{Busy: []string{"n2"}} },
		Block{Reason: ControlPlaneBusy, Details: Details{Cause: "n2"}}, ofControlPlane),
	rejects("health is reported before all of that", func(l *PreflightCheck) { l.ControlPlane, l.Target.DeletingSince = ControlPlane{}, noon },
		notConfirmed("the target is being deleted"), ofControlPlane),
	rejects("and that before a Lease", func(l *PreflightCheck) { l.ControlPlane, l.LeaseRenewed = ControlPlane{}, noon },
		Block{Reason: QuorumUnknown}, ofControlPlane, is(sickFor(6*time.Minute))),
}

func TestPreflight_Facts_ConfirmOrBlock(t *testing.T) {
	for _, test := range append(append([]lookRow{}, looks...), leasesRenewed...) {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			x := usual(append([]option{is(sickFor(6 * time.Minute))}, test.options...)...)
			plan := x.plan()
			d := plan.Decisions[0]
			look := x.seenAgain()
			test.look(look)
			got := Confirm(&plan, &x.situation.Targets[0], &d, &x.verdicts[0], look, noon)
			g.Expect(got.Block).To(Equal(test.hold))
			if test.hold.Reason == "" {
				again := 4
				switch d.Action { //nolint:exhaustive // the others start nothing
				case StartRequest:
					again = 17
				case RequestOwnerRemediation:
					again = 10
				}
				g.Expect(got.Answers).To(HaveLen(len(d.Answers) + again))
				got.Answers = d.Answers
				g.Expect(got).To(Equal(d))
				return
			}
			g.Expect([]any{got.Action, got.Why, got.Until}).To(Equal([]any{None, Reason(""), test.hold.Until}))
			writes := slices.DeleteFunc(got.Writes(&x.situation.Targets[0]), func(w Write) bool { return w == SetMarkedBy })
			g.Expect(writes).To(BeEmpty(), "what is held is not written")
			last := got.Answers[len(got.Answers)-1]
			g.Expect(last).To(Equal(Answer{Guard: test.hold.Reason, Blocks: true, Preflight: true, Until: test.hold.Until, Details: test.hold.Details}))
			g.Expect(got.Answers[:len(d.Answers)]).To(Equal(append([]Answer{}, d.Answers...)))
		})
	}
}

// What is held at last was never started, and changes nothing of what is remembered.
func TestPreflight_Blocked_ChangesNoRecord(t *testing.T) {
	g := NewWithT(t)
	x := usual(
		lease(Lease{Used: true}), func(x *scene) { x.policy.ReportsHealth = true },
		target(func(t *Target) { t.History = History{Failures: 1, NotBefore: noon} }),
	)
	t1 := &x.situation.Targets[0]
	plan := x.plan()
	g.Expect(plan.Decisions[0].Writes(t1)).To(Equal([]Write{AcquireLease, SetMarkedBy, CreateRequest}))
	refused := Rejected(&plan.Decisions[0], t1, "no agent of that name")
	asked := plan.Decisions[0].Answers
	g.Expect(refused).To(Equal(Decision{
		Block: Block{Reason: RequestFailed, Details: Details{Cause: "no agent of that name"}}, Step: stepA, History: History{Failures: 1, NotBefore: noon}, Answers: asked,
	}))
	g.Expect(refused.Writes(t1)).To(BeEmpty())

	x = usual(requested(failed, healthySince(ago(time.Minute))), ours(ago(-time.Minute)), markedByThis)
	t1 = &x.situation.Targets[0]
	plan = x.plan()
	g.Expect(plan.Decisions[0].Writes(t1)).To(Equal([]Write{WriteHistory, WriteRecovery, StopRemediator, DeleteRequest, RemoveMarkedBy}))
	held := Confirm(&plan, t1, &plan.Decisions[0], &x.verdicts[0], &PreflightCheck{Paused: true, Verdict: x.verdicts[0]}, noon)
	held.Answers = nil
	g.Expect(held).To(
		Equal(underWay(Decision{Block: Block{Reason: Paused}, HealthySince: ago(time.Minute), LeaseUntil: ago(-time.Minute), MarkedBy: true})),
		"it is in flight as before",
	)
	g.Expect(held.Writes(t1)).To(BeEmpty())
}

// A block does not hide the health of a target: a confirmed verdict is reported.
func TestPreflight_ConfirmedVerdict_IsReported(t *testing.T) {
	tests := []struct {
		why    string
		look   func(*PreflightCheck)
		signed bool
		told   bool
	}{
		{why: "confirmed verdict, blocked: reported and annotated", look: func(l *PreflightCheck) { l.Target.DeletingSince = noon }, signed: true, told: true},
		{why: "what could not be read is not", look: unreadFacts},
		{why: "nor is another health", look: func(l *PreflightCheck) { l.Verdict.Kind = health.Suspect }},
		{why: "nor another reason", look: func(l *PreflightCheck) { l.Verdict.Reason = health.NodeDeleted }},
		{why: "nor another time", look: func(l *PreflightCheck) { l.Verdict.Since = noon }},
		{why: "a pause signs nothing", look: func(l *PreflightCheck) { l.Paused = true }, told: true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			x := usual(byOwner)
			plan := x.plan()
			look := x.seenAgain()
			test.look(look)
			got := Confirm(&plan, &x.situation.Targets[0], &plan.Decisions[0], &x.verdicts[0], look, noon)
			g.Expect(got.Block.Reason).ToNot(BeEmpty())
			g.Expect([]bool{got.MarkedBy, !got.Unconfirmed}).To(Equal([]bool{test.signed, test.told}))
		})
	}
}
