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

type lookRow struct {
	why     string
	options []option
	look    func(*PreflightCheck)
	hold    Block
}

func busy(names ...string) func(*PreflightCheck) {
	return func(l *PreflightCheck) { l.ControlPlane.Busy = names }
}

var looks = []lookRow{
	{why: "what is borne out is done", look: func(*PreflightCheck) {}},
	{why: "also for an owner", options: []option{byOwner}, look: func(*PreflightCheck) {}},
	{why: "a pause stops it", look: func(l *PreflightCheck) { l.Paused = true }, hold: Block{Reason: Paused}},
	{
		why: "a pause stops whatever would clean up", options: []option{is(well), requested()}, look: func(l *PreflightCheck) { l.Paused = true },
		hold: Block{Reason: Paused},
	},
	{why: "a pause is reported first", look: func(l *PreflightCheck) { l.Paused, l.Failed = true, true }, hold: Block{Reason: Paused}},
	{
		why: "what could not be read does not count", look: func(l *PreflightCheck) { l.Failed = true },
		hold: notConfirmed("the facts could not be read again"),
	},
	{
		why: "nor for what would end", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.Failed = true },
		hold: notConfirmed("the facts could not be read again"),
	},
	{
		why: "nor for what would clean up", options: []option{goes, marked()}, look: func(l *PreflightCheck) { l.Failed = true },
		hold: notConfirmed("the facts could not be read again"),
	},
	{why: "facts that cannot be read again", look: func(l *PreflightCheck) { l.Failed = true }, hold: notConfirmed("the facts could not be read again")},
	{
		why: "a Lease of the kubelet that cannot be read", look: func(l *PreflightCheck) { l.LeaseUnread, l.Cause = true, "not allowed" },
		hold: notConfirmed("the Lease of its kubelet could not be read: not allowed"),
	},
	{
		why: "requests that cannot be read", look: func(l *PreflightCheck) { l.RequestsUnread, l.Cause = true, "not allowed" },
		hold: notConfirmed("other remediations of the target could not be read: not allowed"),
	},
	{
		why: "also for an owner", options: []option{byOwner}, look: func(l *PreflightCheck) { l.RequestsUnread = true },
		hold: notConfirmed("other remediations of the target could not be read"),
	},
	{why: "what ends something needs no others", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.RequestsUnread = true }},
	{
		why: "start, reconcile out of time", look: func(l *PreflightCheck) { l.Late = true },
		hold: Block{Reason: PreflightPending},
	},
	{
		why: "end, reconcile out of time", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.Late = true },
		hold: Block{Reason: PreflightPending},
	},
	{
		why: "start, limit exceeded", look: func(l *PreflightCheck) {
			l.LimitState = LimitState{Limit: Limit{Field: "maxUnhealthy", Value: "2", Max: 2}, Unhealthy: 3}
		},
		hold: Block{Reason: TooManyUnhealthy, Details: Details{Cause: "maxUnhealthy=2", Count: 3, Max: 2}},
	},
	{
		why: "start, fewer than unhealthyRange", options: []option{byOwner},
		look: func(l *PreflightCheck) {
			l.LimitState = LimitState{Limit: Limit{Field: "unhealthyRange", Value: "[3-5]", Min: 3, Max: 5}, Unhealthy: 2}
		},
		hold: Block{Reason: TooFewUnhealthy, Details: Details{Cause: "unhealthyRange=[3-5]", Count: 2, Min: 3, Max: 5}},
	},
	{
		why: "start, limit reached", look: func(l *PreflightCheck) { l.LimitState = LimitState{Limit: Limit{Min: 2, Max: 2}, Unhealthy: 2} },
	},
	{
		why: "end, limit exceeded", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.LimitState = LimitState{Unhealthy: 1} },
	},
	{
		why: "what could not be written", look: func(l *PreflightCheck) { l.Failed, l.Unwritten, l.Cause = true, true, "Lease a/b: not allowed" },
		hold: notConfirmed("a required write failed: Lease a/b: not allowed"),
	},
	{
		why: "and why they cannot", look: func(l *PreflightCheck) { l.Failed, l.Cause = true, "not allowed" },
		hold: notConfirmed("the facts could not be read again: not allowed"),
	},
	{
		why: "a Node that cannot be read again", look: func(l *PreflightCheck) { l.Verdict.Kind, l.Cause = health.Undetermined, "not allowed" },
		hold: notConfirmed("the Node could not be read again: not allowed"),
	},
	{
		why: "another check than the one that was planned for", look: func(l *PreflightCheck) { l.Changed = true },
		hold: notConfirmed("the check or its Cluster has changed"),
	},
	{
		why: "also for what would end", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.Changed = true },
		hold: notConfirmed("the check or its Cluster has changed"),
	},
	{
		why: "who is healthy again is not given up", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.Verdict = well },
		hold: notConfirmed("the target is healthy again"),
	},
	{
		why: "who is not healthy any more keeps its request", options: []option{is(well), requested()},
		look: func(l *PreflightCheck) { l.Verdict = suspect }, hold: notConfirmed("the target is no longer healthy"),
	},
	{
		why:     "who has become unhealthy in between has to be healthy for long enough again",
		options: []option{is(well), requested(healthySince(noon))},
		look:    func(l *PreflightCheck) { l.Target.Request = lost(healthySince(noon.Add(moment))) },
		hold:    notConfirmed("the target was unhealthy in between"),
	},
	{
		why: "request deleted since the plan", options: []option{is(well), requested(healthySince(noon))},
		look: func(l *PreflightCheck) { l.Target.Request = nil },
	},
	{why: "unless it goes for another cause", options: []option{is(well), goes, requested()}, look: func(l *PreflightCheck) { l.Verdict = suspect }},
	{
		why: "nor one that is only called healthy, as others are to blame", options: []option{is(well), requested()},
		look: func(l *PreflightCheck) { l.Verdict = calledWell }, hold: notConfirmed("the target is no longer healthy"),
	},
	{
		why: "who is only called healthy is given up all the same", options: []option{requested(failed)},
		look: func(l *PreflightCheck) { l.Verdict = calledWell },
	},
	{
		why: "who is unhealthy in another way is still given up", options: []option{requested(failed)},
		look: func(l *PreflightCheck) { l.Verdict = wished },
	},
	{
		why: "who is healthy again is not remediated", look: func(l *PreflightCheck) { l.Verdict.Kind = health.Healthy },
		hold: notConfirmed("its health has changed"),
	},
	{
		why: "nor who is only suspect", options: []option{byOwner}, look: func(l *PreflightCheck) { l.Verdict.Kind = health.Suspect },
		hold: notConfirmed("its health has changed"),
	},
	{
		why: "nor who is unhealthy for another reason", look: func(l *PreflightCheck) { l.Verdict.Reason = health.NodeDeleted },
		hold: notConfirmed("its health has changed"),
	},
	{
		why: "nor who was healthy in between", look: func(l *PreflightCheck) { l.Verdict.Since = ago(6*time.Minute - moment) },
		hold: notConfirmed("its health has changed"),
	},
	{why: "the same moment is the same", look: func(l *PreflightCheck) { l.Verdict.Since = l.Verdict.Since.In(time.FixedZone("elsewhere", 3600)) }},
	{why: "who is being deleted", look: func(l *PreflightCheck) { l.Target.DeletingSince = noon }, hold: notConfirmed("the target is being deleted")},
	{
		why: "whose Node is being deleted", look: func(l *PreflightCheck) { l.Target.NodeDeletingSince = noon },
		hold: notConfirmed("the target is being deleted"),
	},
	{why: "which an owner does not need", options: []option{byOwner}, look: func(l *PreflightCheck) { l.Target.NodeDeletingSince = noon }},
	{
		why: "neither for its owner", options: []option{byOwner}, look: func(l *PreflightCheck) { l.Target.DeletingSince = noon },
		hold: notConfirmed("the target is being deleted"),
	},
	{
		why: "a request that no cache has seen", look: func(l *PreflightCheck) { l.Target.Request = &Request{} },
		hold: notConfirmed("the target has a remediation request already"),
	},
	{
		why: "attempts that no cache has seen: a failure", look: func(l *PreflightCheck) { l.Target.History.Failures = 1 },
		hold: notConfirmed("the remediation history has changed"),
	},
	{why: "a wait", look: func(l *PreflightCheck) { l.Target.History.NotBefore = noon }, hold: notConfirmed("the remediation history has changed")},
	{why: "a step", look: func(l *PreflightCheck) { l.Target.History.Tried = stepA }, hold: notConfirmed("the remediation history has changed")},
	{
		why: "another check has something for it now", look: func(l *PreflightCheck) { l.Target.CoveredBy = "MachineHealthCheck/other" },
		hold: notConfirmed("MachineHealthCheck/other is responsible for the target"),
	},
	{why: "something announces that it goes", look: leaves, hold: Block{Reason: Terminating, Details: Details{Cause: "a taint"}}},
	{why: "owner remediation, Machine being deleted", options: []option{byOwner}, look: leaves},
	{why: "a label keeps it from being remediated now", look: func(l *PreflightCheck) { l.Target.Excluded = true }, hold: Block{Reason: Excluded}},
	{why: "also by its owner", options: []option{byOwner}, look: func(l *PreflightCheck) { l.Target.Excluded = true }, hold: Block{Reason: Excluded}},
	{why: "what ends something does not mind a label", options: []option{requested(failed)}, look: func(l *PreflightCheck) { l.Target.Excluded = true }},
	{
		why: "its owner refuses by now", options: []option{byOwner}, look: func(l *PreflightCheck) { l.Target.OwnerRemediation.Refused = true },
		hold: Block{Reason: OwnerRefuses, Details: Details{Cause: owner}},
	},
	{why: "a remediator is not asked about its owner", look: func(l *PreflightCheck) { l.Target.OwnerRemediation.Refused = true }},
	{
		why: "who is unhealthy besides is tried again, whatever was wished", options: []option{is(wished), remembers(1, time.Time{}), alsoSick},
		look: func(*PreflightCheck) {},
	},
	{
		why: "a wish that was granted is all that is left", options: []option{is(wished), remembers(1, time.Time{}), alsoSick},
		look: onlyWished, hold: Block{Reason: AnnotationNotRemoved, Details: Details{Count: 1}},
	},
	{why: "and all that there was, but it was not granted yet", options: []option{is(wished), alsoSick}, look: onlyWished},
	{
		why:     "or is being granted",
		options: []option{is(wished), alsoSick, twoSteps, target(func(t *Target) { t.History = History{Failures: 1, Tried: stepA} })},
		look:    onlyWished,
	},
	{
		why: "something else bears the name of its request by now", look: func(l *PreflightCheck) { l.Target.RequestNameConflict = "other" },
		hold: Block{Reason: RequestNameConflict, Details: Details{Cause: "other"}},
	},
	{
		why: "Lease acquired by another holder since the plan", look: takes(ago(LeaseMargin - moment)),
		hold: Block{Reason: NodeLeaseHeld, Until: noon.Add(moment), Details: Details{Cause: "other"}},
	},
	{why: "and has finished", look: takes(ago(LeaseMargin))},
	{why: "a place is free, to the last one", options: []option{slots(2)}, look: func(l *PreflightCheck) { l.Others = 1 }},
	{
		why: "places that others have taken since", options: []option{slots(2)}, look: func(l *PreflightCheck) { l.Others = 2 },
		hold: Block{Reason: PreflightFailed, Details: Details{Cause: "maxInFlight is reached", Count: 2, Max: 2}},
	},
	{why: "who needs no place does not mind", options: []option{slots(1), byOwner, ofControlPlane}, look: func(l *PreflightCheck) { l.Others = 9 }},
	{why: "no limit", look: func(l *PreflightCheck) { l.Others = 9 }},
	{why: "who cleans up does not mind, either", options: []option{slots(1), requested(failed)}, look: func(l *PreflightCheck) {
		l.Others = 9
		l.Target = Target{Request: &Request{}, DeletingSince: noon, CoveredBy: "o"}
	}},

	{why: "control plane, no other member is busy", options: []option{ofControlPlane}, look: busy("n1", "m1")},
	{
		why: "control plane, another member is busy", options: []option{ofControlPlane}, look: busy("n2"),
		hold: Block{Reason: ControlPlaneBusy, Details: Details{Cause: "n2"}},
	},
	{
		why: "another check has its turn", options: []option{ofControlPlane}, look: turnOf("other", noon.Add(moment)),
		hold: Block{Reason: ControlPlaneBusy, Until: noon.Add(moment), Details: Details{Cause: "other"}},
	},
	{why: "and has let it run out", options: []option{ofControlPlane}, look: turnOf("other", noon)},
	{why: "its owner serialises by itself", options: []option{ofControlPlane, byOwner}, look: busy("n2")},
	{why: "a worker is no part of it", look: busy("n2")},
	{
		why: "its members cannot be found out any more", options: []option{ofControlPlane},
		look: func(l *PreflightCheck) { l.ControlPlane.Etcd = Etcd{} }, hold: Block{Reason: QuorumUnknown},
	},
	{
		why: "it is the only one left", options: []option{ofControlPlane}, look: func(l *PreflightCheck) { l.ControlPlane.Etcd = members(1) },
		hold: Block{Reason: SingleControlPlane, Details: Details{Count: 1}},
	},
	{
		why: "label of the control plane removed since the plan", options: []option{ofControlPlane},
		look: func(l *PreflightCheck) { l.Target.ControlPlane, l.ControlPlane.Etcd = false, members(1) },
		hold: Block{Reason: SingleControlPlane, Details: Details{Count: 1}},
	},
	{
		why: "one of the others has become unhealthy", options: []option{ofControlPlane},
		look: func(l *PreflightCheck) { l.ControlPlane.Etcd = members(3, "n2") },
		hold: Block{Reason: QuorumAtRisk, Details: Details{Count: 1, Min: 2, Max: 3}},
	},
	{
		why: "who ends something takes nothing away", options: []option{ofControlPlane, requested(failed)},
		look: func(l *PreflightCheck) { l.ControlPlane = ControlPlane{} },
	},
	{
		why: "what is busy is reported before what is at risk", options: []option{ofControlPlane},
		look: func(l *PreflightCheck) { l.ControlPlane = ControlPlane{Busy: []string{"n2"}} },
		hold: Block{Reason: ControlPlaneBusy, Details: Details{Cause: "n2"}},
	},
	{
		why: "health is reported before all of that", options: []option{ofControlPlane},
		look: func(l *PreflightCheck) { l.ControlPlane, l.Target.DeletingSince = ControlPlane{}, noon },
		hold: notConfirmed("the target is being deleted"),
	},
	{
		why: "and that before a Lease", options: []option{ofControlPlane, is(sickFor(6 * time.Minute))},
		look: func(l *PreflightCheck) { l.ControlPlane, l.LeaseRenewed = ControlPlane{}, noon }, hold: Block{Reason: QuorumUnknown},
	},
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
					again = 15
				case RequestOwnerRemediation:
					again = 8
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

	x = usual(requested(failed, healthySince(ago(time.Minute))), ours(ago(-time.Minute)), target(func(t *Target) { t.OwnerRemediation.MarkedByThis = true }))
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
		{why: "what could not be read is not", look: func(l *PreflightCheck) { l.Failed = true }},
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
