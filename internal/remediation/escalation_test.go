// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

func TestNextStep_Tried_ReturnsNextOrder(t *testing.T) {
	a, b, o := Step{ID: stepA, Timeout: time.Minute}, Step{ID: stepB}, Step{ID: stepO, Owner: true}
	other := Step{ID: StepID{1, "C/c"}}
	tests := []struct {
		why   string
		steps []Step
		tried StepID
		next  Step
		none  bool
	}{
		{why: "the lowest order first", steps: []Step{a, b, o}, next: a},
		{why: "however they are listed", steps: []Step{o, b, a}, next: a},
		{why: "then the next one", steps: []Step{o, b, a}, tried: stepA, next: b},
		{why: "then the owner, as the last resort", steps: []Step{a, o, b}, tried: stepB, next: o},
		{why: "then nothing", steps: []Step{a, b, o}, tried: stepO, none: true},
		{why: "a single step has no next one", steps: []Step{a}, tried: stepA, none: true},
		{why: "a step that is not named any more still has its place", steps: []Step{a, o}, tried: stepB, next: o},
		{why: "another template in the same place has not been tried", steps: []Step{other, b}, tried: stepA, next: other},
		{why: "but one in a lower place is not gone back to", steps: []Step{other}, tried: stepB, none: true},
		{why: "an only step needs no number", steps: []Step{{Owner: true}}, next: Step{Owner: true}},
		{why: "no steps", none: true},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			next, found := NextStep(test.steps, test.tried)
			g.Expect(found).To(Equal(!test.none))
			g.Expect(next).To(Equal(test.next))
		})
	}
}

func TestHistory_StepGivenUp_IsRecordedOnce(t *testing.T) {
	p := usual(twoSteps).policy
	type givenUp struct {
		why     string
		before  History
		request Request
		after   History
	}
	records := func(why string, before History, request Request, after History) givenUp {
		return givenUp{why, before, request, after}
	}
	tests := []givenUp{
		records("a step that has a next one", History{}, Request{Step: stepA, Attempt: 1}, History{Tried: stepA}),
		records("in a later attempt, too", History{Failures: 1, NotBefore: ago(time.Hour)}, Request{Step: stepA, Attempt: 2},
			History{Failures: 1, NotBefore: ago(time.Hour), Tried: stepA}),
		records("the last one: the attempt has failed, and nothing of it is tried any more", History{Tried: stepA},
			Request{Step: stepB, Attempt: 1}, History{Failures: 1, NotBefore: ago(-time.Minute)}),
		records("the second time the wait doubles", History{Failures: 1, Tried: stepA}, Request{Step: stepB, Attempt: 2},
			History{Failures: 2, NotBefore: ago(-2 * time.Minute)}),
		records("until it is as long as it may be", History{Failures: 9, Tried: stepA}, Request{Step: stepB, Attempt: 10},
			History{Failures: 10, NotBefore: ago(-10 * time.Minute)}),
		records("a memory that was lost is made good by the request", History{}, Request{Step: stepB, Attempt: 3},
			History{Failures: 3, NotBefore: ago(-4 * time.Minute)}),
		records("interrupted between the note and the deletion: the step is noted once", History{Tried: stepA}, Request{Step: stepA, Attempt: 1},
			History{Tried: stepA}),
		records("and so is the attempt, with its wait", History{Failures: 1, NotBefore: ago(-30 * time.Second)}, Request{Step: stepB, Attempt: 1},
			History{Failures: 1, NotBefore: ago(-30 * time.Second)}),
		records("the next steps were removed from the check", History{Tried: stepB}, Request{Step: stepB, Attempt: 1}, History{Tried: stepB}),
		records("a request from before plays no role any more", History{Failures: 3, NotBefore: ago(-time.Second)},
			Request{Step: stepA, Attempt: 2}, History{Failures: 3, NotBefore: ago(-time.Second)}),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			after := afterGivingUp(test.before, &test.request, &health.Verdict{}, &p, noon)
			g.Expect(after).To(Equal(test.after))
			g.Expect(afterGivingUp(after, &test.request, &health.Verdict{}, &p, ago(-time.Second))).To(Equal(after), "an interrupted reconcile gives the same result")
		})
	}
}

func TestHistory_BackoffTooLong_IsLimited(t *testing.T) {
	g := NewWithT(t)
	p := usual().policy
	longest := History{Failures: 2, NotBefore: ago(-10 * time.Minute), Tried: stepA}
	g.Expect(limitBackoff(longest, &p, noon)).To(Equal(longest), "as long as the limit is believable")
	longer := longest
	longer.NotBefore = ago(-10*time.Minute - moment)
	g.Expect(limitBackoff(longer, &p, noon)).To(Equal(longest), "a moment longer is not")
	g.Expect(limitBackoff(History{}, &p, noon)).To(BeZero())
}

// The memory of a target decides what is started, and when.
func TestPlan_History_DeterminesStep(t *testing.T) {
	makes := func(id StepID, attempt int, l History) Decision {
		return underWay(Decision{Action: StartRequest, Step: id, Attempt: attempt, History: l})
	}
	exhausted := func(until time.Time) Decision {
		block := Block{Reason: EscalationExhausted, Until: until, Details: Details{Count: 2}}
		return Decision{Step: stepA, Until: until, History: History{Failures: 2, NotBefore: until}, Block: block}
	}
	tried := func(l History) option { return target(func(t *Target) { t.History = l }) }
	decide(t, []row{
		decides("without one, the first step of the first attempt", makes(stepA, 1, History{})),
		decides("the step after the one that was tried", makes(stepB, 1, History{Tried: stepA}), tried(History{Tried: stepA})),
		decides("after a failure the first step again, as the next attempt", makes(stepA, 3, History{Failures: 2, NotBefore: noon}),
			remembers(2, noon)),
		decides("not before its time",
			exhausted(ago(-moment)),
			remembers(2, ago(-moment))),
		decides("a wait from a clock that was ahead is cut to the longest",
			exhausted(ago(-10*time.Minute)),
			remembers(2, ago(-1000*time.Hour))),
		decides("next steps removed: the attempt has failed",
			exhausted(ago(-2*time.Minute)),
			tried(History{Failures: 1, NotBefore: ago(time.Hour), Tried: stepB})),
		decides("no step at all", Decision{Block: Block{Reason: NoStepForCondition, Details: Details{Cause: "Ready=Unknown"}}}, steps()),
	}, twoSteps)
}
