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

// A remediator keeps its request for ever. That has ended when the owner can follow, and once.
func TestCompare_RequestKept_EndsOnce(t *testing.T) {
	first, owner := remediation.StepID{Order: 1, Template: "a"}, remediation.StepID{Order: 2}
	byRequest := remediation.Decision{Action: remediation.Wait, Step: first, Attempt: 1, InFlight: true}
	byOwner := remediation.Decision{Action: remediation.Wait, Step: owner, InFlight: true}
	target := remediation.Target{
		Request: &remediation.Request{Step: first, Attempt: 1, Started: noon, DeletingSince: noon.Add(time.Second)},
		History: remediation.History{Tried: first},
	}
	asked := target
	asked.OwnerRemediation = remediation.OwnerRemediation{Requested: true, Since: noon.Add(remediation.ReleaseTimeout)}
	orphaned := func(s *story) []EndedRemediation {
		e := passOver(health.Target{Name: "other"}, health.Verdict{}, remediation.Target{Name: "other"}, &s.policy, remediation.Decision{})
		e.Situation.Orphans = []remediation.Orphan{{Name: "m", Gone: true, Request: target.Request}}
		_, _, ended := s.memory.Compare(e, s.now)
		return ended
	}
	for name, follows := range map[string]func(s *story) []EndedRemediation{
		"no owner":       func(s *story) []EndedRemediation { return s.compare(health.Unhealthy, target, byRequest) },
		"owner":          func(s *story) []EndedRemediation { return s.compare(health.Unhealthy, asked, byOwner) },
		"no such target": orphaned,
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), &story{now: noon, policy: remediation.Policy{Steps: []remediation.Step{{ID: first}, {ID: owner, Owner: true}}}}
			g.Expect(s.compare(health.Unhealthy, target, byRequest)).To(BeEmpty())
			g.Expect(orphaned(s)).To(BeEmpty(), "it may still be released in time")
			s.now = noon.Add(remediation.ReleaseTimeout + time.Second)
			g.Expect(follows(s)).To(ConsistOf(HaveField("Outcome", remedyv1.TimedOutOutcome)))
			if name == "owner" {
				g.Expect(s.compare(health.Healthy, target, byRequest)).To(ConsistOf(
					And(HaveField("ByOwner", true), HaveField("Outcome", remedyv1.RecoveredOutcome))))
			}
			g.Expect(s.compare(health.Suspect, target, byRequest)).To(BeEmpty(), "the request still exists")
			g.Expect(s.compare(health.Healthy, remediation.Target{}, remediation.Decision{})).To(BeEmpty())
		})
	}
}

// A request has ended, and the next one starts in the second in which that one has started.
func TestCompare_NextStartAtOnce_IsAnother(t *testing.T) {
	g, s := NewWithT(t), &story{now: noon}
	target := remediation.Target{Request: &remediation.Request{Attempt: 1, Started: noon.Add(2 * time.Minute)}}
	g.Expect(s.compare(health.Unhealthy, target, remediation.Decision{Action: remediation.Wait, Attempt: 1, InFlight: true})).To(BeEmpty())
	next := remediation.Decision{Action: remediation.StartRequest, Attempt: 1, InFlight: true}
	g.Expect(s.compare(health.Unhealthy, remediation.Target{}, next)).To(HaveLen(1))
}

// The mark that lets a remediator stop is read before the deletion that follows it.
func TestCompare_MarkedAfterFailure_HasFailed(t *testing.T) {
	step := remediation.StepID{Order: 1, Template: "a"}
	for marked, outcome := range map[remediation.Reason]remedyv1.RemediationOutcome{
		remediation.StepFailed: remedyv1.FailedOutcome, remediation.StepTimedOut: remedyv1.TimedOutOutcome,
	} {
		t.Run(string(marked), func(t *testing.T) {
			g, s := NewWithT(t), &story{now: noon, policy: remediation.Policy{Steps: []remediation.Step{{ID: step}}}}
			request := remediation.Request{Step: step, Attempt: 1, Started: noon, Failed: true}
			target := remediation.Target{Request: &request, History: remediation.History{Tried: step}}
			givesUp := remediation.Decision{Action: remediation.GiveUp, Step: step, Attempt: 1, InFlight: true, Why: marked}
			g.Expect(s.compare(health.Unhealthy, target, givesUp)).To(BeEmpty())
			request.TimedOut, givesUp.Why = true, remediation.StepTimedOut
			g.Expect(s.compare(health.Unhealthy, target, givesUp)).To(BeEmpty())
			g.Expect(s.compare(health.Unhealthy, remediation.Target{}, remediation.Decision{})).
				To(ConsistOf(HaveField("Outcome", outcome)))
		})
	}
}
