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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

var noon = time.Date(2026, time.March, 14, 12, 0, 0, 0, time.UTC)

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

func TestWhatIsSaidOfHealth(t *testing.T) {
	ready := health.Finding{Condition: "Ready", Status: "Unknown", Cause: "NodeStatusUnknown", Since: ago(2 * time.Minute), Due: noon.Add(3 * time.Minute), Lasting: 5 * time.Minute}
	two := met(health.UnhealthyMachine, health.Finding{Condition: "InfrastructureReady", Status: "False", Lasting: time.Minute})
	two.Findings = append(two.Findings, health.Finding{Rule: health.UnhealthyNode, Met: true, Condition: "Ready", Status: "False", Cause: "KubeletNotReady", Lasting: 5 * time.Minute},
		health.Finding{Rule: health.UnhealthyNode, Condition: "DiskPressure", Status: "True", Due: noon})
	tests := []struct {
		why     string
		verdict *health.Verdict
		says    string
	}{
		{"a healthy target needs no words", &health.Verdict{Kind: health.Healthy}, ""},
		{"a person's wish", met(health.HasRemediateAnnotation, health.Finding{}), "Marked for remediation via cluster.x-k8s.io/remediate-machine annotation"},
		{"a failure is repeated", met(health.MachineFailed, health.Finding{Cause: "CreateError"}), "Machine has failed: CreateError"},
		{"words from outside stay on one line", met(health.MachineFailed, health.Finding{Cause: "no\n\n  * quota\x00 \u202eleft"}), "Machine has failed: no * quota left"},
		{"a failure without words", met(health.MachineFailed, health.Finding{Cause: "\n"}), "Machine has failed: it does not say why"},
		{"a condition of the Node", met(health.UnhealthyNode, ready), "Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown for more than 5m0s"},
		{"a condition without a reason", met(health.UnhealthyMachine, health.Finding{Condition: "Ready", Status: "False"}), "Condition Ready on Machine is reporting status False for more than 0s"},
		{
			"a suspicion has a date", due(health.UnhealthyNode, ready),
			"Condition Ready on Node is reporting status Unknown with reason NodeStatusUnknown since 2026-03-14T11:58:00Z and makes it unhealthy at 2026-03-14T12:03:00Z",
		},
		{"so has one about the Machine", due(health.UnhealthyMachine, health.Finding{Condition: "Ready", Status: "False", Due: noon}), "Condition Ready on Machine is reporting status False and makes it unhealthy at 2026-03-14T12:00:00Z"},
		{"a Node that is gone", met(health.NodeDeleted, health.Finding{}), "Node n has been deleted"},
		{"a Node that may be gone for a while", met(health.NodeDeleted, health.Finding{Lasting: time.Minute}), "Node n has been deleted for more than 1m0s"},
		{"a Node that may still come back", due(health.NodeDeleted, health.Finding{Since: ago(time.Minute), Due: noon}), "Node n has been gone since 2026-03-14T11:59:00Z and makes it unhealthy at 2026-03-14T12:00:00Z"},
		{"a Node that has not come", met(health.NodeStartupTimeout, health.Finding{Lasting: 10 * time.Minute}), "Node failed to report startup in 10m0s"},
		{"a Node that may still come", due(health.NodeStartupTimeout, health.Finding{Due: noon}), "Node has not joined yet and makes it unhealthy at 2026-03-14T12:00:00Z"},
		{
			"all causes are named, and what is only due is not", two,
			"Condition InfrastructureReady on Machine is reporting status False for more than 1m0s; Condition Ready on Node is reporting status False with reason KubeletNotReady for more than 5m0s",
		},
		{"a pause", &health.Verdict{Kind: health.Skipped, Reason: health.Paused}, "It carries the annotation cluster.x-k8s.io/paused"},
		{"a wish to be left alone", &health.Verdict{Kind: health.Skipped, Reason: health.SkipRemediation}, "It carries the annotation cluster.x-k8s.io/skip-remediation"},
		{"the first look", &health.Verdict{Reason: health.FirstLook, Until: noon}, "The connection to the cluster has just come back, and its Nodes speak first until 2026-03-14T12:00:00Z"},
		{"no control plane yet", unknown(health.ControlPlaneNotInitialized), "The control plane of the cluster is not initialized"},
		{"no infrastructure yet", unknown(health.InfrastructureNotReady), "The infrastructure of the cluster is not ready"},
		{"a Machine on its way out", unknown(health.Deleting), "The Machine is being deleted"},
		{"a Machine without a Node", unknown(health.NodeNotJoined), "The Machine has no Node yet"},
		{"a Node that cannot be read", unknown(health.NodeUnreadable), "The Node could not be read"},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(VerdictSentence(test.verdict, "n")).To(Equal(test.says))
		})
	}
}

func TestANodeWithoutANameIsANode(t *testing.T) {
	NewWithT(t).Expect(VerdictSentence(met(health.NodeDeleted, health.Finding{}), "")).To(Equal("Node has been deleted"))
}

func TestWhatIsSaidOfAHold(t *testing.T) {
	type seen = remediation.Seen
	hour := ago(time.Hour)
	tests := []struct {
		reason remediation.Reason
		seen   seen
		until  time.Time
		says   string
	}{
		{reason: remediation.Paused, says: "The check or its Cluster is paused"},
		{reason: remediation.CheckDeleting, says: "The check is being deleted"},
		{reason: remediation.Observing, says: "It is only observed; otherwise the request of step 1 (FooTemplate/a) would be made"},
		{reason: remediation.ClusterNotFound, says: "The Cluster does not exist"},
		{reason: remediation.ClusterDeleting, says: "The Cluster is being deleted"},
		{reason: remediation.CoveredByOther, seen: seen{Who: "MachineHealthCheck default/a"}, says: "MachineHealthCheck default/a takes care of it"},
		{reason: remediation.StuckDeleting, seen: seen{Since: hour}, says: "Its deletion hangs; it was asked for at 2026-03-14T11:00:00Z"},
		{reason: remediation.Leaving, seen: seen{Who: "deletion", Since: hour}, says: "Its deletion was asked for at 2026-03-14T11:00:00Z"},
		{reason: remediation.Leaving, seen: seen{Who: "taint a"}, says: "It is said to be leaving by taint a"},
		{reason: remediation.Leaving, seen: seen{Who: "taint a", Since: hour}, says: "It is said to be leaving by taint a since 2026-03-14T11:00:00Z"},
		{reason: remediation.Excluded, says: "Its Node has the label remediation.medik8s.io/exclude-from-remediation"},
		{reason: remediation.NoRemediatingOwner, says: "It has no owner that could remediate it"},
		{reason: remediation.OwnerRefuses, seen: seen{Who: "KubeadmControlPlane/cp"}, says: "KubeadmControlPlane/cp says that it cannot remediate it"},
		{reason: remediation.PauseRequested, seen: seen{Who: "an upgrade", Have: 1}, says: `Somebody asked to start nothing new: "an upgrade"`},
		{reason: remediation.PauseRequested, seen: seen{Who: "an upgrade", Have: 3}, says: `Somebody asked to start nothing new: "an upgrade" … and 2 more`},
		{reason: remediation.ClusterUnreachable, says: "The cluster cannot be read, and only the cluster could confirm its trouble"},
		{reason: remediation.TooManyUnhealthy, seen: seen{Who: "maxUnhealthy=40%", Have: 11, Most: 10}, says: "11 targets count as sick, and maxUnhealthy=40% allows 10 at the most"},
		{reason: remediation.TooManyUnhealthy, seen: seen{Who: "unhealthyRange=[3-5]", Have: 6, Least: 3, Most: 5}, says: "6 targets count as sick, and unhealthyRange=[3-5] allows from 3 to 5"},
		{reason: remediation.TooFewUnhealthy, seen: seen{Who: "unhealthyRange=[3-5]", Have: 1, Least: 3, Most: 5}, says: "1 target counts as sick, and unhealthyRange=[3-5] asks for 3 at the least"},
		{reason: remediation.TooManyUnhealthy, seen: seen{Who: "minHealthy=3", Have: 2, Most: -1}, says: "2 targets count as sick, and minHealthy=3 wants more healthy ones than there are targets"},
		{reason: remediation.InStorm, seen: seen{Since: hour}, says: "Too many targets have been sick at once since 2026-03-14T11:00:00Z, and the limit is not kept yet"},
		{reason: remediation.InStorm, seen: seen{Since: hour}, until: noon, says: "Too many targets have been sick at once since 2026-03-14T11:00:00Z; the limit is kept again, and the cool-down ends at 2026-03-14T12:00:00Z"},
		{reason: remediation.AnnotationNotRemoved, says: "It was remediated as the annotation cluster.x-k8s.io/remediate-machine asks; remove the annotation"},
		{reason: remediation.AnnotationNotRemoved, seen: seen{Have: 2}, says: "What the annotation cluster.x-k8s.io/remediate-machine asks for has failed 2 times; remove the annotation"},
		{reason: remediation.EscalationExhausted, seen: seen{Have: 1}, until: noon, says: "Every step has been tried, and that has failed once; they begin anew at 2026-03-14T12:00:00Z"},
		{reason: remediation.InBackoff, seen: seen{Have: 2}, until: noon, says: "Its remediation has failed 2 times; the next one may begin at 2026-03-14T12:00:00Z"},
		{reason: remediation.TemplateNotResolved, says: "The check names no step that it could take"},
		{reason: remediation.TemplateNotResolved, seen: seen{Who: "FooTemplate/a"}, says: "No request can be made from the template FooTemplate/a"},
		{reason: remediation.NameTaken, seen: seen{Who: "Foo/m of somebody"}, says: "Foo/m of somebody bears the name of its request"},
		{reason: remediation.LeaseTaken, seen: seen{Who: "drainer"}, until: noon, says: "drainer is working on its Node until 2026-03-14T12:00:00Z"},
		{reason: remediation.ControlPlaneBusy, seen: seen{Who: "cp-2"}, says: "cp-2 of the same control plane is being remediated"},
		{reason: remediation.QuorumUnknown, says: "The etcd members of its control plane could not be found out"},
		{reason: remediation.SingleControlPlane, seen: seen{Have: 1}, says: "It is the only member of its control plane"},
		{reason: remediation.QuorumAtRisk, seen: seen{Have: 1, Least: 2, Most: 3}, says: "Without it, 1 of 3 etcd members would be known to be healthy, and 2 have to be"},
		{reason: remediation.MaxInFlight, seen: seen{Have: 2, Most: 2}, says: "2 of 2 places for remediations are taken"},
		{reason: remediation.MaxInFlight, seen: seen{Who: "a", Have: 1, Most: 1}, says: "1 of 1 places for remediations are taken, by a"},
		{reason: remediation.MaxInFlight, seen: seen{Who: "a", Have: 2, Most: 2}, says: "2 of 2 places for remediations are taken, one of them by a"},
		{reason: remediation.NotConfirmed, seen: seen{Who: "its health has changed"}, says: "A last look did not confirm it: its health has changed"},
		{reason: remediation.NotConfirmed, seen: seen{Who: "all places are taken", Have: 2, Most: 2}, says: "A last look did not confirm it: all places are taken (2 of 2)"},
		// When it was renewed is left out: that changes every ten seconds.
		{reason: remediation.LeaseRenewed, seen: seen{Since: hour}, until: noon, says: "Its kubelet still renews the Lease of its Node; it is held until 2026-03-14T12:00:00Z"},
		{reason: remediation.OwnerNotActing, seen: seen{Who: "MachineSet/a: RemediationDeferred", Since: hour}, says: "Its owner was asked at 2026-03-14T11:00:00Z and has not acted: MachineSet/a: RemediationDeferred"},
		{reason: remediation.PreviousStepNotReleased, seen: seen{Since: hour}, says: "A finalizer keeps the request of step 1 (FooTemplate/a), which was deleted at 2026-03-14T11:00:00Z"},
		{reason: remediation.RequestFailed, seen: seen{Who: "admission denied:\r\n spec.x\tis wrong"}, says: "The API server refused the request: admission denied: spec.x is wrong"},
		{reason: remediation.RecoveryNotConfirmed, seen: seen{Since: hour}, says: "It is healthy again since 2026-03-14T11:00:00Z and waits for a person to confirm it"},
	}
	told := map[string]bool{}
	for _, test := range tests {
		told[string(test.reason)] = true
		t.Run(test.says, func(t *testing.T) {
			d := remediation.Decision{Hold: remediation.Hold{Reason: test.reason, Until: test.until, Seen: test.seen}, Step: remediation.StepID{Order: 1, Template: "FooTemplate/a"}}
			NewWithT(t).Expect(HoldSentence(&Facts{Decision: &d})).To(Equal(test.says))
			NewWithT(t).Expect(DecisionSentence(&Facts{Decision: &d})).To(Equal("Held: " + test.says))
		})
	}
	for _, reason := range worded(Guard, LastLook, Hold) {
		if !told[reason] {
			t.Errorf("no row shows what is said of %s", reason)
		}
	}
}

func TestAPauseThatCameAfterThePlanSaysSo(t *testing.T) {
	g := NewWithT(t)
	d := remediation.Decision{Hold: remediation.Hold{Reason: remediation.Paused}, Asked: []remediation.Answer{
		{Guard: remediation.Paused}, {Guard: remediation.MaxInFlight}, {Guard: remediation.Paused, Held: true, Again: true},
	}}
	g.Expect(HoldSentence(&Facts{Decision: &d})).To(Equal("The check, its Cluster or the target is paused now"))
}

func TestWhatIsSaidOfAnAction(t *testing.T) {
	step, policy := remediation.StepID{Order: 1, Template: "FooTemplate/a"}, &remediation.Policy{
		HealthyDelay: time.Minute, Steps: []remediation.Step{{ID: remediation.StepID{Order: 1, Template: "FooTemplate/a"}, Timeout: time.Hour}},
	}
	request := func(change func(*remediation.Request)) *remediation.Target {
		r := &remediation.Request{Step: step, Started: noon}
		change(r)
		return &remediation.Target{Request: r}
	}
	healthy, sick := &health.Verdict{Kind: health.Healthy}, &health.Verdict{Kind: health.Unhealthy}
	late := noon.Add(time.Hour)
	tests := []struct {
		why      string
		decision remediation.Decision
		verdict  *health.Verdict
		target   *remediation.Target
		says     string
	}{
		{"nothing to do", remediation.Decision{}, healthy, nil, ""},
		{"a request", remediation.Decision{Action: remediation.MakeRequest, Step: step, Attempt: 2}, sick, nil, "Makes the request of step 1 (FooTemplate/a), attempt 2"},
		{"a single template has no number", remediation.Decision{Action: remediation.MakeRequest, Step: remediation.StepID{Template: "FooTemplate/a"}, Attempt: 1}, sick, nil, "Makes the request (FooTemplate/a), attempt 1"},
		{"a mark", remediation.Decision{Action: remediation.GiveMark}, sick, &remediation.Target{Owner: "MachineSet/a"}, "Asks MachineSet/a to remediate it"},
		{"a mark, and nobody knows for whom", remediation.Decision{Action: remediation.GiveMark}, sick, nil, "Asks its owner to remediate it"},
		{"it took too long", remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepTimedOut, Step: step}, sick, nil, "Gives up the request of step 1 (FooTemplate/a), as it has taken too long"},
		{"it failed", remediation.Decision{Action: remediation.GiveUp, Why: remediation.StepFailed, Step: step}, sick, nil, "Gives up the request of step 1 (FooTemplate/a), as its remediator says that it has failed"},
		{"the step is gone", remediation.Decision{Action: remediation.Withdraw, Why: remediation.StepChanged, Step: step}, sick, nil, "Withdraws the request of step 1 (FooTemplate/a), as the check does not name this step any more"},
		{"it is healthy", remediation.Decision{Action: remediation.Withdraw, Why: remediation.Recovered, Step: step}, healthy, nil, "Withdraws the request of step 1 (FooTemplate/a), as it is healthy again"},
		{"its Node is gone", remediation.Decision{Action: remediation.Withdraw, Why: remediation.NodeVanished, Step: step}, nil, nil, "Withdraws the request of step 1 (FooTemplate/a), as its Node does not exist any more"},
		{"somebody else is named", remediation.Decision{Action: remediation.Withdraw, Why: remediation.CoveredByOther}, sick, &remediation.Target{CoveredBy: "NodeHealthCheck b"}, "Withdraws the request, as NodeHealthCheck b takes care of it"},
		{"somebody else", remediation.Decision{Action: remediation.Withdraw, Why: remediation.CoveredByOther}, sick, nil, "Withdraws the request, as another check takes care of it"},
		{"a mark is taken back", remediation.Decision{Action: remediation.TakeBack, Why: remediation.PauseRequested}, sick, &remediation.Target{Owner: "MachineSet/a"}, "Takes back what MachineSet/a was asked, as somebody asked to start nothing new"},
		{"a storm takes it back", remediation.Decision{Action: remediation.TakeBack, Why: remediation.InStorm}, sick, nil, "Takes back what its owner was asked, as too many targets were sick at once"},
		{"nobody to remediate it", remediation.Decision{Action: remediation.TakeBack, Why: remediation.NoRemediatingOwner}, sick, nil, "Takes back what its owner was asked, as it has no owner that could remediate it"},
		{"marks are cleared", remediation.Decision{Action: remediation.Unmark, Why: remediation.NotLookedAfter}, nil, nil, "Clears what it wrote on the Machine, as the check does not look after it any more"},
		{"it only looks on", remediation.Decision{Action: remediation.Unmark, Why: remediation.Observing}, nil, nil, "Clears what it wrote on the Machine, as the check, or the manager, only observes"},
		{"the check goes", remediation.Decision{Action: remediation.Unmark, Why: remediation.CheckDeleting}, nil, nil, "Clears what it wrote on the Machine, as the check is being deleted"},
		{"the Cluster is gone", remediation.Decision{Action: remediation.Unmark, Why: remediation.ClusterNotFound}, nil, nil, "Clears what it wrote on the Machine, as the Cluster does not exist"},
		{"a remediator at work", remediation.Decision{Action: remediation.Wait, Step: step, Until: late}, sick, request(func(*remediation.Request) {}), "Waits for the remediator of the request of step 1 (FooTemplate/a) until 2026-03-14T13:00:00Z"},
		{"a request on its way out", remediation.Decision{Action: remediation.Wait, Step: step}, sick, request(func(r *remediation.Request) { r.DeletingSince = noon }), "Waits until the request of step 1 (FooTemplate/a) is gone, which was deleted at 2026-03-14T12:00:00Z"},
		{"healthy, for a while", remediation.Decision{Action: remediation.Wait, Step: step, HealthySince: noon}, healthy, request(func(*remediation.Request) {}), "Is healthy again since 2026-03-14T12:00:00Z; the request of step 1 (FooTemplate/a) is withdrawn at 2026-03-14T12:01:00Z"},
		{"an owner", remediation.Decision{Action: remediation.Wait, Until: late}, sick, &remediation.Target{Owner: "MachineSet/a", Mark: remediation.Mark{Since: noon}}, "Waits for MachineSet/a, which was asked to remediate it at 2026-03-14T12:00:00Z and may take until 2026-03-14T13:00:00Z"},
		{"an owner that speaks", remediation.Decision{Action: remediation.Wait}, sick, &remediation.Target{Owner: "MachineSet/a", Mark: remediation.Mark{OwnerReason: "RemediationDeferred"}}, "Waits for MachineSet/a, which was asked to remediate it; it says RemediationDeferred"},
		{"a Machine that is being replaced", remediation.Decision{Action: remediation.Wait, Until: late}, sick, &remediation.Target{DeletingSince: noon}, "Waits for its deletion, which was asked for at 2026-03-14T12:00:00Z and may take until 2026-03-14T13:00:00Z"},
		{"a request, and nothing else is known", remediation.Decision{Action: remediation.Wait, Attempt: 1, Step: step}, nil, nil, "Waits for the request of step 1 (FooTemplate/a)"},
		{"a mark, and nothing else is known", remediation.Decision{Action: remediation.Wait}, nil, nil, "Waits for its owner"},
	}
	told := map[remediation.Reason]bool{}
	for _, test := range tests {
		told[test.decision.Why] = true
		t.Run(test.why, func(t *testing.T) {
			NewWithT(t).Expect(DecisionSentence(&Facts{Decision: &test.decision, Verdict: test.verdict, Target: test.target, Policy: policy})).To(Equal(test.says))
		})
	}
	for _, reason := range worded(Ending) {
		if !told[remediation.Reason(reason)] {
			t.Errorf("no row shows what is said of %s", reason)
		}
	}
}

func TestListsEnd(t *testing.T) {
	g := NewWithT(t)
	g.Expect(listed(nil, ", ", 100)).To(BeEmpty())
	g.Expect(listed([]string{"a", "b"}, ", ", 100)).To(Equal("a, b"))
	g.Expect(listed(strings.Split("abcdefghijklmnopqrstuv", ""), ", ", 100)).To(Equal("a, b, c, d, e, f, g, h, i, j, … and 12 more"))
	g.Expect(listed([]string{"aaaaaaaaaa", "bbbbbbbbbb", "c"}, ", ", 28)).To(Equal("aaaaaaaaaa, … and 2 more"))
	g.Expect(listed([]string{"aaaaaaaaaaaaaaaaaaaa", "b"}, ", ", 20)).To(Equal("aaaaa…, b"))
	g.Expect(names([]string{"b", "a", "b"}, 100)).To(Equal("a, b"))
	g.Expect(cutBytes("ääää", 8)).To(Equal("ääää"))
	g.Expect(cutBytes("äääää", 8)).To(Equal("ää…"))
}

func TestForeignWordsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := drawWords(t, "words")
		for _, said := range []string{foreign(words), or(words, "nothing")} {
			if !utf8.ValidString(said) || utf8.RuneCountInString(said) > maxForeign || strings.TrimSpace(said) != said || strings.ContainsAny(said, "\n\r\t\x00\u2028\u202e") {
				t.Fatalf("%q has become %q", words, said)
			}
		}
		bound := rapid.IntRange(24, 200).Draw(t, "bound")
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return foreign(drawWords(t, "item")) }), 0, 30).Draw(t, "items")
		if got := listed(items, "; ", bound); utf8.RuneCountInString(got) > bound {
			t.Fatalf("%q has %d runes, not %d", got, utf8.RuneCountInString(got), bound)
		}
		if got := cutBytes(words, bound); len(words) > 0 && len(got) > bound {
			t.Fatalf("%q has %d bytes, not %d", got, len(got), bound)
		}
	})
}
