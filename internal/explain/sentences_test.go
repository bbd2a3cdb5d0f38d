// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

// never is no time.
var never time.Time

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func met(rule health.Reason, f health.Finding) *health.Verdict {
	f.Rule, f.Met = rule, true
	return &health.Verdict{Kind: health.Unhealthy, Reason: rule, Since: f.Since, Findings: []health.Finding{f}}
}

func due(rule health.Reason, f health.Finding) *health.Verdict {
	f.Rule = rule
	return &health.Verdict{Kind: health.Suspect, Reason: rule, Since: f.Since, Until: f.Due, Findings: []health.Finding{f}}
}

func unknown(reason health.Reason) *health.Verdict {
	return &health.Verdict{Kind: health.Undetermined, Reason: reason}
}

func TestVerdictSentence_Verdicts_NameAllCauses(t *testing.T) {
	ready := health.Finding{
		Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown", Since: ago(2 * time.Minute),
		Due: noon.Add(3 * time.Minute), Lasting: 5 * time.Minute,
	}
	two := met(health.UnhealthyMachine, health.Finding{Condition: "InfrastructureReady", Status: "False", Lasting: time.Minute})
	two.Findings = append(two.Findings, health.Finding{
		Rule: health.UnhealthyNode, Met: true, Condition: "Ready", Status: "False",
		Cause: "KubeletNotReady", Lasting: 5 * time.Minute,
	},
		health.Finding{Rule: health.UnhealthyNode, Condition: "DiskPressure", Status: "True", Due: noon})
	type row struct {
		why     string
		verdict *health.Verdict
		says    string
	}
	says := func(why string, verdict *health.Verdict, says string) row {
		return row{why, verdict, says}
	}
	tests := []row{
		says("healthy", &health.Verdict{Kind: health.Healthy}, ""),
		says("annotation", met(health.HasRemediateAnnotation, health.Finding{}),
			"Marked for remediation via cluster.x-k8s.io/remediate-machine annotation"),
		says("annotation of a Node", met(health.HasRemediateAnnotation, health.Finding{OnNode: true}),
			"Marked for remediation via remedy.cluster.x-k8s.io/remediate-node annotation"),
		says("failed Machine", met(health.MachineFailed, health.Finding{Cause: "CreateError"}), "Machine has failed: CreateError"),
		says("control characters", met(health.MachineFailed, health.Finding{Cause: "no\n\n  * quota\x00 \u202eleft"}),
			"Machine has failed: no * quota left"),
		says("failure without message", met(health.MachineFailed, health.Finding{Cause: "\n"}), "Machine has failed: failureMessage is empty"),
		says("condition of the Node", met(health.UnhealthyNode, ready),
			"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"),
		says("condition without reason", met(health.UnhealthyMachine, health.Finding{Condition: "Ready", Status: "False"}),
			"Condition Ready on Machine is reporting status False for more than 0s"),
		says("pending condition of the Node", due(health.UnhealthyNode, ready),
			"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown since 2026-03-14T11:58:00Z; the target becomes "+
				"unhealthy at 2026-03-14T12:03:00Z"),
		says("pending condition of the Machine", due(health.UnhealthyMachine, health.Finding{Condition: "Ready", Status: "False", Due: noon}),
			"Condition Ready on Machine is reporting status False; the target becomes unhealthy at 2026-03-14T12:00:00Z"),
		says("deleted Node", met(health.NodeDeleted, health.Finding{}), "Node n has been deleted"),
		says("Node deleted for a while", met(health.NodeDeleted, health.Finding{Lasting: time.Minute}),
			"Node n has been deleted for more than 1m0s"),
		says("pending deleted Node", due(health.NodeDeleted, health.Finding{Since: ago(time.Minute), Due: noon}),
			"Node n has been missing since 2026-03-14T11:59:00Z; the target becomes unhealthy at 2026-03-14T12:00:00Z"),
		says("startup timeout", met(health.NodeStartupTimeout, health.Finding{Lasting: 10 * time.Minute}),
			"Node failed to report startup in 10m0s"),
		says("pending startup timeout", due(health.NodeStartupTimeout, health.Finding{Due: noon}),
			"Node has not joined yet; the target becomes unhealthy at 2026-03-14T12:00:00Z"),
		says("two causes and a pending one", two,
			"Condition InfrastructureReady on Machine is reporting status False for more than 1m0s; Condition Ready on Node is reporting status "+
				"False with reason KubeletNotReady for more than 5m0s"),
		says("paused", &health.Verdict{Kind: health.Skipped, Reason: health.Paused}, "The target has the annotation cluster.x-k8s.io/paused"),
		says("skip annotation", &health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation},
			"The Machine has the annotation cluster.x-k8s.io/skip-remediation"),
		says("skip annotation of a Node", &health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation, OnNode: true},
			"The Node has the annotation remedy.cluster.x-k8s.io/skip-remediation"),
		says("reconnected", &health.Verdict{Reason: health.ReconnectGracePeriod, Until: noon},
			"Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:00:00Z"),
		says("no control plane", unknown(health.ControlPlaneNotInitialized), "The control plane of the cluster is not initialized"),
		says("no infrastructure", unknown(health.InfrastructureNotReady), "The infrastructure of the cluster is not ready"),
		says("Machine being deleted", unknown(health.Deleting), "The Machine is being deleted"),
		says("no Node", unknown(health.NodeNotJoined), "The Machine has no Node yet"),
		says("unreadable Node", unknown(health.NodeUnreadable), "The Node could not be read"),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(verdictSentence(test.verdict, "n")).To(Equal(test.says))
		})
	}
}

func TestVerdictSentence_NodeWithoutName_IsNode(t *testing.T) {
	NewWithT(t).Expect(verdictSentence(met(health.NodeDeleted, health.Finding{}), "")).To(Equal("Node has been deleted"))
}

func TestListed_TooLong_CountsTheRest(t *testing.T) {
	g := NewWithT(t)
	g.Expect(listed(nil, ", ", 100)).To(BeEmpty())
	g.Expect(listed([]string{"a", "b"}, ", ", 100)).To(Equal("a, b"))
	g.Expect(listed(strings.Split("abcdefghijklmnopqrstuv", ""), ", ", 100)).To(Equal("a, b, c, d, e, f, g, h, i, j, … and 12 more"))
	g.Expect(listed([]string{"aaaaaaaaaa", "bbbbbbbbbb", "c"}, ", ", 28)).To(Equal("aaaaaaaaaa, … and 2 more"))
	g.Expect(listed([]string{"aaaaaaaaaaaaaaaaaaaa", "b"}, ", ", 20)).To(Equal("a…, b"))
	g.Expect(names([]string{"b", "a", "b"}, 100)).To(Equal("a, b"))
	g.Expect(cut("ääää", 8)).To(Equal("ääää"))
	g.Expect(cut("äääää", 8)).To(Equal("ää…"))
}

func TestForeign_AnyText_IsSingleBoundedLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := drawWords(t, "words")
		for _, said := range []string{sanitized(words), sanitizedOr(words, "nothing")} {
			if !utf8.ValidString(said) || len(said) > maxQuoted || strings.TrimSpace(said) != said || strings.ContainsAny(said,
				"\n\r\t\x00\u2028\u202e") {
				t.Fatalf("%q has become %q", words, said)
			}
		}
		bound := rapid.IntRange(24, 200).Draw(t, "bound")
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return sanitized(drawWords(t, "item")) }), 0, 30).Draw(t, "items")
		if got := listed(items, "; ", bound); len(got) > bound {
			t.Fatalf("%q has %d bytes, not %d", got, len(got), bound)
		}
		if got := cut(words, bound); len(words) > 0 && len(got) > bound {
			t.Fatalf("%q has %d bytes, not %d", got, len(got), bound)
		}
	})
}
