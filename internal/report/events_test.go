// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// eventsAt returns the reasons of the events of one reconcile.
func (s *story) eventsAt(at time.Time, kind health.Kind, d remediation.Decision) (reasons []string) {
	verdict := health.Verdict{Kind: kind}
	if kind == health.Unhealthy {
		verdict.Reason, verdict.Since = health.NodeDeleted, at
	}
	news, started, ended := s.memory.Compare(passOver(health.Target{Name: "m"}, verdict, s.target, &s.policy, d), at)
	for i := range news {
		for _, e := range news[i].Events {
			reasons = append(reasons, e.Reason)
		}
	}
	for i := range started {
		reasons = append(reasons, started[i].Event.Reason)
	}
	for i := range ended {
		reasons = append(reasons, ended[i].Event.Reason)
	}
	return reasons
}

// The verdict changes every ten seconds. Each kind of it is an event once a minute, and the last one when it lasts.
func TestCompare_VerdictFlaps_IsNewsOnceAMinute(t *testing.T) {
	g, s, all := NewWithT(t), &story{}, map[string]int{}
	s.eventsAt(noon, health.Healthy, remediation.Decision{})
	blocked := remediation.Decision{Block: remediation.Block{Reason: remediation.InStorm}}
	for i := 1; i <= 30; i++ {
		kind, d := health.Healthy, remediation.Decision{}
		if i%2 == 1 {
			kind, d = health.Unhealthy, blocked
		}
		for _, reason := range s.eventsAt(noon.Add(time.Duration(i)*10*time.Second), kind, d) {
			all[reason]++
		}
	}
	g.Expect(all).To(Equal(map[string]int{"NodeDeleted": 5, "Storm": 5, "BecameHealthy": 5}))
	last := noon.Add(5 * time.Minute)
	g.Expect(s.eventsAt(last.Add(10*time.Second), health.Unhealthy, blocked)).To(ConsistOf("NodeDeleted", "Storm"))
	g.Expect(s.eventsAt(last.Add(20*time.Second), health.Healthy, remediation.Decision{})).To(ConsistOf("BecameHealthy"))
	g.Expect(s.eventsAt(last.Add(30*time.Second), health.Unhealthy, blocked)).To(BeEmpty())
	g.Expect(s.eventsAt(last.Add(90*time.Second), health.Unhealthy, blocked)).To(ConsistOf("NodeDeleted", "Storm"))
	g.Expect(s.eventsAt(last.Add(91*time.Second), health.Unhealthy, blocked)).To(BeEmpty())
	g.Expect(s.memory.changed).To(HaveLen(1), "older changes are forgotten")
}

// The start of a remediation is an event, however often the verdict changes.
func TestCompare_VerdictFlaps_ActionsAreNews(t *testing.T) {
	g, s := NewWithT(t), &story{}
	s.eventsAt(noon, health.Healthy, remediation.Decision{})
	start, wait := remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true},
		remediation.Decision{Action: remediation.Wait, InFlight: true}
	for second, events := range [][]string{
		{"NodeDeleted", "RemediationStarted"},
		nil,
		{"BecameHealthy", "Recovered"},
		{"RemediationStarted"},
		nil,
		{"Recovered"},
	} {
		at := noon.Add(time.Duration(second) * time.Second)
		decisions := []remediation.Decision{start, wait, {}}
		kinds := []health.Kind{health.Unhealthy, health.Unhealthy, health.Healthy}
		s.target.OwnerRemediation = remediation.OwnerRemediation{Requested: second%3 == 1, Since: at.Add(-time.Second)}
		g.Expect(s.eventsAt(at, kinds[second%3], decisions[second%3])).To(ConsistOf(events), "second %d", second)
	}
}

// A check that is not responsible for a target has no news about it, until it becomes responsible.
func TestCompare_CoveredByOther_IsNoNews(t *testing.T) {
	g, s := NewWithT(t), &story{}
	covered := remediation.Decision{Block: remediation.Block{Reason: remediation.ManagedByOtherCheck}}
	s.eventsAt(noon, health.Healthy, remediation.Decision{})
	g.Expect(s.eventsAt(noon.Add(time.Hour), health.Unhealthy, covered)).To(BeEmpty())
	g.Expect(s.eventsAt(noon.Add(2*time.Hour), health.Unhealthy, remediation.Decision{})).To(ConsistOf("NodeDeleted"))
	g.Expect(s.eventsAt(noon.Add(3*time.Hour), health.Unhealthy, covered)).To(BeEmpty())
}

func TestBudget_HealthChanges_LeaveRoomForActions(t *testing.T) {
	g, b := NewWithT(t), &Budget{}
	take := func(n int, important bool, at time.Time) (taken int) {
		for range n {
			if b.Take(important, at) {
				taken++
			}
		}
		return taken
	}
	g.Expect(take(1000, false, noon)).To(Equal(eventBurst - reservedEvents))
	g.Expect(take(1000, true, noon)).To(Equal(reservedEvents))
	g.Expect(b.Omitted(noon)).To(Equal(2000 - eventBurst))
	g.Expect(take(10, true, noon.Add(30*time.Second))).To(Equal(5))
	g.Expect(b.Omitted(noon.Add(30*time.Second))).To(BeZero(), "one summary a minute")
	g.Expect(b.Omitted(noon.Add(time.Minute))).To(Equal(5))
	g.Expect(b.Omitted(noon.Add(time.Hour))).To(BeZero())
	g.Expect(take(1000, false, noon.Add(time.Hour))).To(Equal(eventBurst - reservedEvents))
}

// A check whose steps have changed creates a request for a Machine whose owner has refused: that is a start, and no continued owner
// remediation.
func TestCompare_RequestAfterRefusingOwner_IsAStart(t *testing.T) {
	g, s := NewWithT(t), &story{}
	s.target.OwnerRemediation = remediation.OwnerRemediation{Requested: true, Since: noon.Add(-time.Hour)}
	s.eventsAt(noon, health.Unhealthy, remediation.Decision{Action: remediation.Wait, InFlight: true})
	s.target.OwnerRemediation.Refused = true
	start := remediation.Decision{Action: remediation.StartRequest, InFlight: true, Step: remediation.StepID{Template: "t"}, Attempt: 1}
	g.Expect(s.eventsAt(noon.Add(time.Minute), health.Unhealthy, start)).To(ConsistOf("RemediationStarted", "OwnerRefuses"))
}

// A start that was not read, and that the next reconcile repeats, is one: the write may not have been carried out. It is another one if
// another Machine has taken the name.
func TestCompare_StartedTwiceUnread_IsOneForEachMachine(t *testing.T) {
	g, s := NewWithT(t), &story{now: noon}
	starts := remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true}
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, starts)).To(BeEmpty())
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, starts)).To(BeEmpty())
	s.created = noon
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, starts)).To(ConsistOf(HaveField("Event.Reason", "Replaced")))
}

// The outcome is true: a remediator that deletes the Node and restores it has not replaced it, and one that has failed has not, either.
func TestCompare_NodeDeletedByRemediator_HasTrueOutcome(t *testing.T) {
	step := remediation.StepID{Template: "t"}
	request := &remediation.Request{Step: step, Attempt: 1, Started: noon}
	inProgress := remediation.Decision{Action: remediation.Wait, Step: step, Attempt: 1, InFlight: true}
	waits, withdraws := remediation.Decision{Action: remediation.Wait}, remediation.Decision{Action: remediation.Withdraw}
	timedOut, failed := withdraws, withdraws
	withdraws.Why, timedOut.Why, failed.Why = remediation.NodeNotFound, remediation.StepTimedOut, remediation.StepFailed
	for _, test := range []struct {
		name string
		// orphaned are the decisions while the Node does not exist. It is restored if the last one is to wait.
		orphaned []remediation.Decision
		outcome  remedyv1.RemediationOutcome
	}{
		{"restored", []remediation.Decision{waits}, remedyv1.RecoveredOutcome},
		{"another Node", []remediation.Decision{withdraws}, remedyv1.ReplacedOutcome},
		{"never restored", []remediation.Decision{waits, timedOut}, remedyv1.TimedOutOutcome},
		{"failed", []remediation.Decision{waits, failed}, remedyv1.FailedOutcome},
		{"paused while the Node is not selected", []remediation.Decision{{InFlight: true}, failed}, remedyv1.FailedOutcome},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, s := NewWithT(t), &story{now: noon}
			g.Expect(s.compare(health.Unhealthy, remediation.Target{Request: request}, inProgress)).To(BeEmpty())
			for _, d := range test.orphaned {
				e := passOver(health.Target{}, health.Verdict{}, remediation.Target{}, &s.policy, remediation.Decision{})
				e.Situation.Orphans = []remediation.Orphan{{Name: "m", Gone: d.Action != remediation.None, Request: request}}
				e.Planned.Orphans = []remediation.Decision{d}
				_, _, ended := s.memory.Compare(e, s.now)
				g.Expect(ended).To(BeEmpty())
			}
			if test.outcome == remedyv1.RecoveredOutcome {
				g.Expect(s.compare(health.Unhealthy, remediation.Target{Request: request}, inProgress)).To(BeEmpty())
			}
			ended := s.compare(health.Healthy, remediation.Target{}, remediation.Decision{})
			g.Expect(ended).To(ConsistOf(HaveField("Outcome", test.outcome)))
		})
	}
}

// A Node is deleted and joins again within a second after its remediation has started. Its request, which was read, is withdrawn then.
func TestCompare_NodeReturnsAfterStart_EndsWithRequest(t *testing.T) {
	g, step := NewWithT(t), remediation.StepID{Template: "t"}
	memory, node := &Memory{}, health.Target{Name: "n"}
	compare := func(d remediation.Decision, orphans ...remediation.Orphan) []EndedRemediation {
		e := passOver(node, health.Verdict{Kind: health.Unhealthy}, remediation.Target{Name: "n"}, &remediation.Policy{}, d)
		e.Situation.Orphans = orphans
		_, _, ended := memory.Compare(e, noon)
		return ended
	}
	g.Expect(compare(remediation.Decision{Action: remediation.StartRequest, InFlight: true, Step: step, Attempt: 1})).To(BeEmpty())
	orphan := remediation.Orphan{Name: "n", Gone: true, Request: &remediation.Request{Step: step, Attempt: 1, Started: noon}}
	g.Expect(compare(remediation.Decision{}, orphan)).To(BeEmpty())
	g.Expect(compare(remediation.Decision{})).To(ConsistOf(HaveField("Outcome", remedyv1.ReplacedOutcome)))
}
