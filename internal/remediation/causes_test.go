// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// unhealthyBy is a verdict with these causes, each as type, status and reason.
func unhealthyBy(causes ...[3]string) health.Verdict {
	v := health.Verdict{Kind: health.Unhealthy, Reason: health.UnhealthyNode, Since: ago(time.Hour)}
	for _, c := range causes {
		v.Findings = append(v.Findings, health.Finding{
			Rule: health.UnhealthyNode, Met: true, Since: ago(time.Hour), Due: ago(time.Minute), Condition: c[0], Status: c[1], Cause: c[2],
		})
	}
	return v
}

var (
	notReady = [3]string{"Ready", "False", "KubeletNotReady"}
	unknown  = [3]string{"Ready", "Unknown", "NodeStatusUnknown"}
	diskFull = [3]string{"DiskPressure", "True", "KubeletHasDiskPressure"}
	memory   = [3]string{"MemoryPressure", "True", ""}
)

// forCause is a step for one condition.
func forCause(id StepID, conditions ...Cause) Step {
	return Step{ID: id, Timeout: 10 * time.Minute, Conditions: conditions}
}

// The cause decides which steps apply; among these, escalation is as it is without causes.
func TestPlan_StepsForCauses_CauseDeterminesStep(t *testing.T) {
	ready, disk := Cause{Type: "Ready"}, Cause{Type: "DiskPressure"}
	starts := func(id StepID, attempt int, l History, causes ...Cause) Decision {
		return underWay(Decision{Action: StartRequest, Step: id, Attempt: attempt, History: l, For: causes})
	}
	reported := func(cause string) Decision {
		return Decision{Block: Block{Reason: NoStepForCondition, Details: Details{Cause: cause}}}
	}
	tried := func(id StepID) option { return target(func(t *Target) { t.History = History{Tried: id} }) }
	again := ago(-time.Minute)
	decide(t, []row{
		decides("the first of one cause", starts(stepA, 1, History{}, ready), is(unhealthyBy(notReady))),
		decides("the first of another cause", starts(stepB, 1, History{}, disk), is(unhealthyBy(diskFull))),
		decides("of two causes, the lowest order", starts(stepA, 1, History{}, ready), is(unhealthyBy(diskFull, notReady))),
		decides("then the next", starts(stepB, 1, History{Tried: stepA}, disk), is(unhealthyBy(diskFull, notReady)), tried(stepA)),
		decides("another cause meanwhile: its step, if that comes later", starts(stepB, 1, History{Tried: stepA}, disk),
			is(unhealthyBy(diskFull)), tried(stepA)),
		decides("otherwise the attempt has failed", Decision{
			Step: stepA, Until: again, History: History{Failures: 1, NotBefore: again},
			Block: Block{Reason: EscalationExhausted, Until: again, Details: Details{Count: 1}},
		}, is(unhealthyBy(notReady)), tried(stepB)),
		decides("no step for it", reported("MemoryPressure=True"), is(unhealthyBy(memory))),
		decides("no step for an annotation", reported("HasRemediateAnnotation"), is(wished)),
		decides("a step for every cause", starts(stepB, 1, History{}), is(unhealthyBy(memory)),
			steps(forCause(stepA, ready), forCause(stepB))),
		decides("a step for its status", starts(stepA, 1, History{}, Cause{Type: "Ready", Status: "Unknown"}), is(unhealthyBy(unknown)),
			steps(forCause(stepA, Cause{Type: "Ready", Status: "Unknown"}))),
		decides("for another status", reported("Ready=False (KubeletNotReady)"), is(unhealthyBy(notReady)),
			steps(forCause(stepA, Cause{Type: "Ready", Status: "Unknown"}))),
		decides("for its reason", starts(stepA, 1, History{}, Cause{Type: "Ready", Reasons: []string{"Other", "KubeletNotReady"}}),
			is(unhealthyBy(notReady)), steps(forCause(stepA, Cause{Type: "Ready", Reasons: []string{"Other", "KubeletNotReady"}}))),
		decides("for another reason", reported("Ready=False (KubeletNotReady)"), is(unhealthyBy(notReady)),
			steps(forCause(stepA, Cause{Type: "Ready", Reasons: []string{"Other"}}))),
	}, steps(forCause(stepA, ready), forCause(stepB, disk)))
}

// A cause that is not met yet selects no step.
func TestStepsFor_CauseNotMet_IsIgnored(t *testing.T) {
	g := NewWithT(t)
	all := []Step{forCause(stepA, Cause{Type: "Ready"}), forCause(stepB, Cause{Type: "DiskPressure"})}
	v := unhealthyBy(notReady, diskFull)
	v.Findings[0].Met = false
	g.Expect(StepsFor(all, &v)).To(Equal(all[1:]))
	// A suspect will be unhealthy for what is due first.
	v.Kind, v.Until = health.Suspect, noon
	v.Findings[0].Due, v.Findings[1].Due, v.Findings[1].Met = noon, noon.Add(moment), false
	g.Expect(StepsFor(all, &v)).To(Equal(all[:1]))
	g.Expect(StepsFor(all, &unreadable)).To(Equal(all))
}

// Owner remediation that was requested is not canceled because the cause cannot be read now.
func TestOwnerRemediation_CauseUnreadable_IsNotCanceled(t *testing.T) {
	owned := Step{ID: StepID{Order: 9}, Owner: true}
	requested := marked(func(m *OwnerRemediation) { m.RequestedByThis, m.Waiting = true, true })
	for name, row := range map[string]struct {
		verdict health.Verdict
		steps   []Step
		action  Action
	}{
		"unreadable":                 {unreadable, []Step{forCause(stepA, Cause{Type: "DiskPressure"}), owned}, Wait},
		"unreadable, step before it": {unreadable, []Step{forCause(stepA), owned}, CancelOwnerRemediation},
		"its cause":                  {unhealthyBy(notReady), []Step{forCause(stepA, Cause{Type: "DiskPressure"}), owned}, Wait},
		"another cause":              {unhealthyBy(diskFull), []Step{forCause(stepA, Cause{Type: "DiskPressure"}), owned}, CancelOwnerRemediation},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := usual(requested, is(row.verdict), steps(row.steps...)).plan().Decisions[0]
			g.Expect(got.Action).To(Equal(row.action))
		})
	}
}
