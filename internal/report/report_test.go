// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

func TestConditions_StatusUnchanged_KeepTime(t *testing.T) {
	g := NewWithT(t)
	before := Conditions(nil, []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "X"},
		{Type: "B", Status: metav1.ConditionTrue},
	}, 1, noon)
	after := Conditions(before, []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Y"},
		{Type: "B", Status: metav1.ConditionFalse},
	}, 2, noon.Add(time.Hour))
	g.Expect([]any{after[0].LastTransitionTime.Time, after[0].Reason, after[0].ObservedGeneration}).To(Equal([]any{noon, "Y", int64(2)}))
	g.Expect(after[1].LastTransitionTime.Time).To(Equal(noon.Add(time.Hour)))
}

func TestStatus_RecentRemediations_KeepsTen(t *testing.T) {
	g := NewWithT(t)
	named := func(names ...string) []remedyv1.RecentRemediation {
		all := make([]remedyv1.RecentRemediation, 0, len(names))
		for _, name := range names {
			all = append(all, remedyv1.RecentRemediation{Target: name})
		}
		return all
	}
	g.Expect(recent(nil, nil)).To(BeNil(), "an unchanged status has the same bytes")
	g.Expect(recent(named("b", "c"), named("a"))).To(Equal(named("c", "b", "a")), "the latest comes first")
	g.Expect(recent(named("l"), named("k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a"))).To(Equal(named("l", "k", "j", "i", "h", "g",
		"f", "e", "d", "c")))
	g.Expect(recent(named("c", "a"), named("b", "a"))).To(Equal(named("c", "b", "a")), "a remediation in the status is not added again")
	g.Expect(recent(named("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"), nil)).To(HaveLen(10))
}

// passOver is a reconcile of one target.
func passOver(
	facts health.Target, v health.Verdict, target remediation.Target, p *remediation.Policy, d remediation.Decision,
) *explain.Evaluation {
	return &explain.Evaluation{
		Check: "c", Snapshot: &health.Snapshot{Targets: []health.Target{facts}},
		Assessment: &health.Assessment{Verdicts: []health.Verdict{v}},
		Situation:  &remediation.Situation{Targets: []remediation.Target{target}}, Policy: p,
		Planned: &remediation.Planned{Decisions: []remediation.Decision{d}},
	}
}

// A failed preflight check, or a cache without the last write of the manager, does not end a remediation.
func TestLearn_RemediationEnds_IsReportedOnce(t *testing.T) {
	g := NewWithT(t)
	memory := &Memory{}
	learn := func(verdict health.Verdict, target remediation.Target, d remediation.Decision) []EndedRemediation {
		target.Name = "m"
		_, _, ended := memory.Compare(passOver(health.Target{Name: "m"}, verdict, target, &remediation.Policy{}, d), noon)
		return ended
	}
	unhealthy := health.Verdict{Kind: health.Unhealthy, Reason: health.NodeDeleted}
	given := remediation.Target{OwnerRemediation: remediation.OwnerRemediation{Requested: true, Since: noon.Add(-time.Minute)}}
	g.Expect(learn(unhealthy, remediation.Target{}, remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true})).
		To(BeEmpty())
	failed := remediation.Decision{Block: remediation.Block{Reason: remediation.PreflightFailed}}
	g.Expect(learn(unhealthy, remediation.Target{}, failed)).To(BeEmpty())
	g.Expect(learn(unhealthy, given, remediation.Decision{Action: remediation.Wait, InFlight: true})).To(BeEmpty())
	ended := learn(health.Verdict{Kind: health.Healthy}, remediation.Target{}, remediation.Decision{})
	g.Expect(ended).To(HaveLen(1))
	g.Expect([]any{ended[0].Outcome, ended[0].ByOwner, ended[0].StartTime.Time, ended[0].Event.Reason}).To(Equal([]any{
		remedyv1.RecoveredOutcome, true, noon.Add(-time.Minute), "Recovered",
	}))
	g.Expect(learn(health.Verdict{Kind: health.Healthy}, remediation.Target{}, remediation.Decision{})).To(BeEmpty())
	for range 2 {
		g.Expect(memory.Unwritten()).To(Equal([]remedyv1.RecentRemediation{ended[0].RecentRemediation}), "it is kept until it is written")
	}
	memory.Written()
	g.Expect(memory.Unwritten()).To(BeEmpty())
}

// story feeds a Memory with the facts about one target, reconcile by reconcile.
type story struct {
	memory       Memory
	target       remediation.Target
	policy       remediation.Policy
	now, created time.Time
}

func (s *story) compare(kind health.Kind, target remediation.Target, d remediation.Decision) []EndedRemediation {
	target.Name = "m"
	s.now = s.now.Add(time.Minute)
	facts := health.Target{Name: "m", Machine: &health.MachineFacts{CreatedAt: s.created}}
	_, _, ended := s.memory.Compare(passOver(facts, health.Verdict{Kind: kind}, target, &s.policy, d), s.now)
	return ended
}

// A step has timed out and its request no longer exists. The same step is blocked when it is tried again.
func TestCompare_StepBlockedAgain_EndsTheFirst(t *testing.T) {
	step := remediation.StepID{Template: "a"}
	for _, hold := range []remediation.Reason{remediation.RequestFailed, remediation.PreflightPending, remediation.PreflightFailed} {
		g := NewWithT(t)
		s := &story{now: noon, policy: remediation.Policy{Steps: []remediation.Step{{ID: step}}}}
		target := remediation.Target{Request: &remediation.Request{Step: step, Attempt: 1, Started: noon}}
		running := remediation.Decision{Action: remediation.Wait, Step: step, Attempt: 1, InFlight: true}
		g.Expect(s.compare(health.Unhealthy, target, running)).To(BeEmpty())
		running.Action, running.Why = remediation.GiveUp, remediation.StepTimedOut
		g.Expect(s.compare(health.Unhealthy, target, running)).To(BeEmpty())
		blocked := remediation.Decision{Step: step, Block: remediation.Block{Reason: hold}}
		g.Expect(s.compare(health.Unhealthy, remediation.Target{}, blocked)).To(ConsistOf(HaveField("Outcome", remedyv1.TimedOutOutcome)))
	}
}

// Each step of an escalation is a remediation of its own, with its own number, start, end and outcome.
func TestCompare_Escalation_RecordsEachStep(t *testing.T) {
	g := NewWithT(t)
	first, second := remediation.StepID{Order: 1, Template: "a"}, remediation.StepID{Order: 2, Template: "b"}
	s := &story{now: noon, policy: remediation.Policy{Steps: []remediation.Step{{ID: first}, {ID: second}}}}
	started := func(step remediation.StepID, minute int) remediation.Target {
		return remediation.Target{Request: &remediation.Request{Step: step, Attempt: 1, Started: noon.Add(time.Duration(minute) * time.Minute)}}
	}
	decided := func(action remediation.Action, why remediation.Reason, step remediation.StepID) remediation.Decision {
		return remediation.Decision{Action: action, Why: why, Step: step, Attempt: 1, InFlight: true}
	}
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, decided(remediation.StartRequest, "", first))).To(BeEmpty())
	g.Expect(s.compare(health.Unhealthy, started(first, 1), decided(remediation.Wait, "", first))).To(BeEmpty())
	g.Expect(s.compare(health.Unhealthy, started(first, 1), decided(remediation.GiveUp, remediation.StepTimedOut, first))).To(BeEmpty())
	g.Expect(s.compare(health.Unhealthy, started(first, 1), decided(remediation.Wait, "", first))).
		To(BeEmpty(), "its request is being deleted")
	pending := remediation.Decision{Block: remediation.Block{Reason: remediation.PreflightPending}, Step: second}
	ended := s.compare(health.Unhealthy, remediation.Target{}, pending)
	g.Expect(ended).To(HaveLen(1), "the request of the first step no longer exists")
	g.Expect([]any{*ended[0].Step, ended[0].Outcome, ended[0].StartTime.Time, ended[0].CompletionTime.Time}).To(Equal([]any{
		int32(1), remedyv1.TimedOutOutcome, noon.Add(time.Minute), noon.Add(5 * time.Minute),
	}))
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, decided(remediation.StartRequest, "", second))).To(BeEmpty())
	unread := remediation.Decision{Block: remediation.Block{Reason: remediation.PreflightFailed}, Step: second}
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, unread)).To(BeEmpty(), "the cache lacks the request")
	g.Expect(s.compare(health.Unhealthy, started(second, 6), decided(remediation.Wait, "", second))).To(BeEmpty())
	g.Expect(s.compare(health.Healthy, started(second, 6), decided(remediation.Withdraw, remediation.Recovered, second))).To(BeEmpty())
	ended = s.compare(health.Healthy, remediation.Target{}, remediation.Decision{})
	g.Expect(ended).To(HaveLen(1))
	g.Expect([]any{*ended[0].Step, ended[0].Outcome, ended[0].StartTime.Time, ended[0].CompletionTime.Time}).To(Equal([]any{
		int32(2), remedyv1.RecoveredOutcome, noon.Add(6 * time.Minute), noon.Add(10 * time.Minute),
	}))
	g.Expect(s.memory.Unwritten()).To(HaveLen(2))
}

// The second step may start in the reconcile in which the first one has ended, and may be of the owner.
func TestCompare_NextStepAtOnce_EndsTheFirst(t *testing.T) {
	g := NewWithT(t)
	first, owner := remediation.StepID{Order: 1, Template: "a"}, remediation.StepID{Order: 2}
	s := &story{now: noon, policy: remediation.Policy{Steps: []remediation.Step{{ID: first}, {ID: owner, Owner: true}}}}
	requested := remediation.Target{Request: &remediation.Request{Step: first, Attempt: 1, Started: noon}}
	s.compare(health.Unhealthy, requested, remediation.Decision{
		Action: remediation.GiveUp, Why: remediation.StepFailed, Step: first, Attempt: 1, InFlight: true,
	})
	ended := s.compare(health.Unhealthy, remediation.Target{},
		remediation.Decision{Action: remediation.RequestOwnerRemediation, Step: owner, InFlight: true})
	g.Expect(ended).To(HaveLen(1))
	g.Expect([]any{*ended[0].Step, ended[0].Outcome, ended[0].ByOwner}).To(Equal([]any{int32(1), remedyv1.FailedOutcome, false}))
	marked := remediation.Target{OwnerRemediation: remediation.OwnerRemediation{Requested: true, Since: s.now}}
	g.Expect(s.compare(health.Unhealthy, marked, remediation.Decision{Action: remediation.Wait, Step: owner, InFlight: true})).To(BeEmpty())
	ended = s.compare(health.Healthy, remediation.Target{}, remediation.Decision{})
	g.Expect([]any{*ended[0].Step, ended[0].Outcome, ended[0].ByOwner}).To(Equal([]any{int32(2), remedyv1.RecoveredOutcome, true}))
}

// The manager was restarted since it gave up the step: the history and the request have the outcome.
func TestCompare_RestartWhileDeleting_ReadsOutcome(t *testing.T) {
	step := remediation.StepID{Order: 1, Template: "a"}
	for outcome, failed := range map[remedyv1.RemediationOutcome]bool{remedyv1.FailedOutcome: true, remedyv1.TimedOutOutcome: false} {
		g := NewWithT(t)
		s := &story{now: noon}
		target := remediation.Target{
			Request: &remediation.Request{Step: step, Attempt: 1, Started: noon, DeletingSince: noon.Add(time.Second), Failed: failed},
			History: remediation.History{Tried: step},
		}
		g.Expect(s.compare(health.Unhealthy, target, remediation.Decision{Action: remediation.Wait, Step: step, Attempt: 1, InFlight: true})).
			To(BeEmpty())
		ended := s.compare(health.Unhealthy, remediation.Target{}, remediation.Decision{})
		g.Expect(ended).To(ConsistOf(HaveField("Outcome", outcome)))
	}
}

// The owner has refused before. A user deletes the request, so the remediator has not failed.
func TestCompare_RequestDeletedByUser_IsWithdrawn(t *testing.T) {
	g, s := NewWithT(t), &story{now: noon}
	target := remediation.Target{
		Request: &remediation.Request{Attempt: 1, Started: noon}, OwnerRemediation: remediation.OwnerRemediation{Requested: true, Refused: true},
	}
	g.Expect(s.compare(health.Unhealthy, target, remediation.Decision{Action: remediation.Wait, Attempt: 1, InFlight: true})).To(BeEmpty())
	target.Request = nil
	g.Expect(s.compare(health.Unhealthy, target, remediation.Decision{})).To(ConsistOf(
		And(HaveField("Outcome", remedyv1.WithdrawnOutcome), HaveField("Event.Reason", "Withdrawn"))))
}

// The owner reports that it cannot remediate the Machine. Then another check becomes responsible for it, and its owner is asked again.
func TestCompare_OwnerEndsIt_HasReason(t *testing.T) {
	g, s := NewWithT(t), &story{now: noon}
	target := remediation.Target{OwnerRemediation: remediation.OwnerRemediation{Requested: true, Since: noon}}
	wait := remediation.Decision{Action: remediation.Wait, InFlight: true}
	g.Expect(s.compare(health.Unhealthy, target, wait)).To(BeEmpty())
	refused := target
	refused.OwnerRemediation.Refused = true
	g.Expect(s.compare(health.Unhealthy, refused, remediation.Decision{})).To(ConsistOf(
		And(HaveField("Outcome", remedyv1.FailedOutcome), HaveField("Event.Reason", "OwnerRefuses"))))
	g.Expect(s.compare(health.Unhealthy, target, wait)).To(BeEmpty())
	covered := remediation.Decision{Action: remediation.RemoveConditions, Why: remediation.ManagedByOtherCheck}
	g.Expect(s.compare(health.Unhealthy, target, covered)).To(ConsistOf(
		And(HaveField("Outcome", remedyv1.WithdrawnOutcome), HaveField("Event.Reason", "ManagedByOtherCheck"))))
}

// Owner remediation that was read is requested again after another client has removed its condition: that is another one.
func TestCompare_RequestedAgain_IsAnother(t *testing.T) {
	g, s := NewWithT(t), &story{now: noon}
	target := remediation.Target{OwnerRemediation: remediation.OwnerRemediation{Requested: true, Since: noon}}
	g.Expect(s.compare(health.Unhealthy, target, remediation.Decision{Action: remediation.Wait, InFlight: true})).To(BeEmpty())
	again := remediation.Decision{Action: remediation.RequestOwnerRemediation, InFlight: true}
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, again)).To(ConsistOf(HaveField("Event.Reason", "Withdrawn")))
}

// passOverMany is a reconcile of n targets.
func passOverMany(n int, p *remediation.Policy) *explain.Evaluation {
	return &explain.Evaluation{
		Check: "c", Snapshot: &health.Snapshot{Targets: make([]health.Target, n)},
		Assessment: &health.Assessment{Verdicts: make([]health.Verdict, n)},
		Situation:  &remediation.Situation{Targets: make([]remediation.Target, n)}, Policy: p,
		Planned: &remediation.Planned{Decisions: make([]remediation.Decision, n)},
	}
}

// What is kept of a suspect target is small, because after an outage all targets of a fleet can be suspect.
func TestCompare_SuspectTarget_CostsLittleMemory(t *testing.T) {
	g := NewWithT(t)
	const n = 100_000
	pass := passOverMany(n, &remediation.Policy{})
	for i := range n {
		name := fmt.Sprintf("machine-%d", i)
		pass.Snapshot.Targets[i].Name, pass.Situation.Targets[i].Name = name, name
		pass.Assessment.Verdicts[i] = health.Verdict{
			Kind: health.Suspect, Reason: health.UnhealthyNode, Since: noon, Until: noon.Add(time.Minute),
			Findings: []health.Finding{
				{Rule: health.UnhealthyNode, Condition: "Ready", Status: "Unknown", Since: noon, Due: noon.Add(time.Minute)},
			},
		}
	}
	memory, before := &Memory{}, heap()
	memory.Compare(pass, noon)
	after := heap()
	t.Logf("%d bytes for each suspect target", (int64(after)-int64(before))/n)
	g.Expect((int64(after)-int64(before))/n).To(BeNumerically("<", 600), "bytes for each suspect target")
	runtime.KeepAlive(memory)
	runtime.KeepAlive(pass)
}

// Of a remediation in progress, little is kept: not the plan in which it started.
func TestCompare_StartedRemediations_PinNoPlan(t *testing.T) {
	g := NewWithT(t)
	const targets, started = 5000, 40
	first, second := remediation.StepID{Order: 1, Template: "a"}, remediation.StepID{Order: 2, Template: "b"}
	policy := &remediation.Policy{Steps: []remediation.Step{{ID: first}, {ID: second}}}
	names := make([]string, targets)
	for i := range names {
		names[i] = fmt.Sprintf("machine-%d", i)
	}
	memory := &Memory{}
	before := heap()
	// One starts in each reconcile, as with maxInFlight, so each has a plan of its own.
	for n := range started {
		pass := passOverMany(targets, policy)
		for i := range targets {
			pass.Snapshot.Targets[i].Name, pass.Situation.Targets[i].Name = names[i], names[i]
			pass.Assessment.Verdicts[i].Kind = health.Healthy
		}
		for i := range n + 1 {
			pass.Assessment.Verdicts[i].Kind = health.Unhealthy
			d := &pass.Planned.Decisions[i]
			d.Step, d.Attempt, d.InFlight, d.Action = first, 1, true, remediation.StartRequest
			if i < n {
				d.Action = remediation.Wait
				pass.Situation.Targets[i].Request = &remediation.Request{Step: first, Attempt: 1, Started: noon.Add(time.Duration(i) * time.Second)}
			}
		}
		_, news, _ := memory.Compare(pass, noon.Add(time.Duration(n)*time.Second))
		g.Expect(news).To(HaveLen(1))
	}
	kept := int64(heap()) - int64(before)
	t.Logf("%d bytes for %d remediations in progress", kept, started)
	g.Expect(kept).To(BeNumerically("<", 1<<20))
	g.Expect(memory.remediations).To(HaveLen(started))
	runtime.KeepAlive(names)
}

// heap returns how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
