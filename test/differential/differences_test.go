// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package differential_test

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// difference is one intended difference between the verdicts of Remedy and of the in-tree reconciler. With all of them undone both must agree on
// everything; with all but one undone, they may disagree only where that one applies, and only as it expects.
type difference struct {
	// heading is that of docs/differences.md.
	heading string
	// applies: the drawn facts have what it is about. Where they do not, both must agree.
	applies func(f *facts, m *machine) bool
	// undo takes from a target what it is about.
	undo func(t *health.Target, longAgo time.Time)
	// expects: this, and nothing else, is how the outcomes differ.
	expects func(f *facts, m *machine, inTreeResult, remedyResult outcome, v *health.Verdict) bool
}

var differences = []*difference{
	{
		heading: "A failed Machine is unhealthy",
		applies: func(_ *facts, m *machine) bool { return m.failure() != "" },
		undo:    func(t *health.Target, _ time.Time) { t.Machine.Failure = "" },
		expects: machineFailed,
	},
	{
		heading: "A Node with another provider ID is not the Machine's Node",
		applies: func(f *facts, m *machine) bool {
			return f.controlPlaneInitialized() && m.node != nil && m.providerID != "" && m.node.providerID != "" && m.providerID != m.node.providerID
		},
		undo:    func(t *health.Target, _ time.Time) { t.Machine.ProviderID = "" },
		expects: otherNode,
	},
	{
		heading: "A manual remediation request does not hide the other causes",
		applies: func(_ *facts, m *machine) bool { return m.remediate },
		undo:    forgetOtherCauses,
		expects: func(_ *facts, _ *machine, inTreeResult, remedyResult outcome, _ *health.Verdict) bool {
			return inTreeResult.reason == string(health.HasRemediateAnnotation) && remedyResult.reason == inTreeResult.reason && remedyResult.succeeded == "False" &&
				len(inTreeResult.causes) == 1 && len(remedyResult.causes) > 1 && remedyResult.causes[0] == inTreeResult.causes[0]
		},
	},
	{
		heading: "A Node may be missing for a while",
		applies: func(f *facts, m *machine) bool { return f.isGone(m) && f.policy.goneTimeout > 0 },
		undo:    func(t *health.Target, longAgo time.Time) { t.Machine.NodeGoneSince = longAgo },
		expects: goneForAWhile,
	},
	{
		heading: "A condition without a time is not older than its object",
		applies: func(_ *facts, m *machine) bool {
			undated := func(c condition) bool { return c.since.IsZero() }
			older := func(c condition) bool { return c.since.Before(m.createdAt) }
			return slices.ContainsFunc(m.conditions, older) || m.node != nil && slices.ContainsFunc(m.node.conditions, undated)
		},
		undo:    dateConditions,
		expects: undatedCondition,
	},
}

// What the in-tree reconciler has against it stays, after the failure; but it may have been silent as well, or content.
func machineFailed(_ *facts, m *machine, inTreeResult, remedyResult outcome, v *health.Verdict) bool {
	if remedyResult.succeeded != "False" || remedyResult.reason != string(health.MachineFailed) || v.Findings[0].Cause != m.failure() {
		return false
	}
	return inTreeResult.succeeded != "False" || slices.Equal(remedyResult.causes[1:], inTreeResult.causes)
}

// If the Node is evaluated, it does not exist. If not, because the infrastructure is not ready, the in-tree reconciler calls the Machine
// healthy because of it.
func otherNode(f *facts, m *machine, inTreeResult, remedyResult outcome, v *health.Verdict) bool {
	if !f.infrastructureReady() {
		return inTreeResult.succeeded == "True" && v.Kind == health.Undetermined && v.Reason == health.InfrastructureNotReady
	}
	gone, reason := []string{nodeDeleted(m)}, string(health.NodeDeleted)
	ofMachine := onlyMachine(inTreeResult.causes)
	if len(ofMachine) > 0 {
		reason = string(health.UnhealthyMachine)
	}
	return remedyResult.equal(outcome{"False", reason, append(ofMachine, gone...)})
}

func onlyMachine(causes []string) []string {
	return slices.DeleteFunc(slices.Clone(causes), func(c string) bool { return !strings.Contains(c, " on Machine ") })
}

func forgetOtherCauses(t *health.Target, _ time.Time) {
	if t.Annotations.Remediate {
		t.Machine.Failure, t.Machine.Conditions = "", nil
		t.Node = health.NodeFacts{State: health.Present}
	}
}

// notedSince: a note from a clock that was ahead counts from now.
func notedSince(f *facts, m *machine, since time.Time) bool {
	if m.goneSince.After(f.now) {
		return since.Before(m.goneSince)
	}
	return m.goneSince.IsZero() || since.Equal(m.goneSince)
}

// Only the Node does not count against the Machine yet, and Remedy reports until when.
func goneForAWhile(f *facts, m *machine, inTreeResult, remedyResult outcome, v *health.Verdict) bool {
	waits := slices.ContainsFunc(v.Findings, func(g health.Finding) bool {
		return g.Rule == health.NodeDeleted && !g.Met && g.Lasting == f.policy.goneTimeout && notedSince(f, m, g.Since)
	})
	rest := onlyMachine(inTreeResult.causes)
	if !waits || !slices.Contains(inTreeResult.causes, nodeDeleted(m)) {
		return false
	}
	if len(rest) == 0 {
		return v.Kind == health.Suspect
	}
	return remedyResult.equal(outcome{"False", string(health.UnhealthyMachine), rest})
}

// dateConditions makes Machines older than their conditions, and dates all conditions. The startup timeout still counts from the creation of the Machine.
func dateConditions(t *health.Target, longAgo time.Time) {
	m := t.Machine
	if !m.InfrastructureReady.Reached {
		m.InfrastructureReady = health.Milestone{Reached: true}
	}
	m.InfrastructureReady.Since = health.Latest(m.InfrastructureReady.Since, m.CreatedAt)
	m.CreatedAt = longAgo
	date := func(at *metav1.Time) {
		if at.IsZero() {
			at.Time = longAgo
		}
	}
	for i := range t.Machine.Conditions {
		date(&t.Machine.Conditions[i].LastTransitionTime)
	}
	for i := range t.Node.Conditions {
		date(&t.Node.Conditions[i].LastTransitionTime)
	}
}

// More counts against it in-tree than with Remedy, and what does not count yet with Remedy is counted from the creation of the
// object.
func undatedCondition(_ *facts, m *machine, inTreeResult, remedyResult outcome, v *health.Verdict) bool {
	told := 0
	for i := range v.Findings {
		g := &v.Findings[i]
		if !slices.Contains(inTreeResult.causes, m.cause(g)) {
			continue
		}
		told++
		created := m.createdAt
		if g.Rule == health.UnhealthyNode {
			created = m.node.createdAt
		}
		if !g.Met && !g.Since.Equal(created) {
			return false
		}
	}
	return inTreeResult.succeeded == "False" && len(remedyResult.causes) < len(inTreeResult.causes) && told >= len(inTreeResult.causes) && (v.Kind == health.Unhealthy || v.Kind == health.Suspect)
}
