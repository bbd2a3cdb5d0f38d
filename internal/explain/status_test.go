// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// unchanged ends the message of the condition Paused.
const (
	unchanged     = ". The targets and numbers in the status do not change during the pause"
	pausedMessage = "The check or its Cluster is paused" + unchanged
)

func TestStatus_ManyTargets_ListsTheFirstHundred(t *testing.T) {
	g := NewWithT(t)
	status := Status(fleet(150, 130, func(p *Evaluation) { p.Policy.MaxInFlight = whole(7) }), nil, nil)
	g.Expect(status.UnhealthyTargets).To(HaveLen(100))
	g.Expect(*status.UnhealthyTargetsTotal).To(BeEquivalentTo(130))
	g.Expect(status.UnhealthyTargets[0].Name).To(Equal("m-021"))
	g.Expect(status.UnhealthyTargets[99].Name).To(Equal("m-120"))
	g.Expect([]int32{
		*status.Unhealthy, *status.Suspect, *status.Undetermined, *status.Remediating, *status.Blocked,
		*status.RemediationsAllowed,
	}).To(Equal([]int32{130, 0, 0, 7, 123, 20}))
	g.Expect(*status.Limit).To(Equal(remedyv1.EffectiveLimit{Source: "maxUnhealthy=100%", MaxUnhealthy: 150}))
	ranged := Status(fleet(4, 1, func(p *Evaluation) { p.Policy.Limits.Range = &remediation.Range{Min: 1, Max: 2} }), nil, nil)
	g.Expect(*ranged.Limit).To(Equal(remedyv1.EffectiveLimit{Source: "unhealthyRange=[1-2]", MinUnhealthy: Number(1), MaxUnhealthy: 2}))
}

func TestStatus_Targets_HaveReasonAndDecision(t *testing.T) {
	g := NewWithT(t)
	p := fleet(5, 2, func(p *Evaluation) {
		p.Policy.MaxInFlight = whole(2)
		p.Policy.RecoveryConfirmed = true
		p.Policy.Steps = []remediation.Step{
			{ID: remediation.StepID{Order: 1, Template: "FooTemplate/a"}, Timeout: time.Hour},
			{ID: remediation.StepID{Order: 2}, Owner: true},
		}
		p.Situation.Targets[1].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute)}
		p.Situation.Targets[2].Request = &remediation.Request{
			Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute),
			HealthySince: ago(time.Second),
		}
		p.Snapshot.Targets[3].Node.State = health.Gone
		p.Snapshot.Targets[3].Machine.NodeGoneSince = ago(time.Second)
	})
	status := Status(p, nil, func(target int) *remedyv1.RequestReference {
		return &remedyv1.RequestReference{APIVersion: "v1", Kind: "Foo", Namespace: "default", Name: p.Snapshot.Targets[target].Name}
	})
	said := make([]string, 0, len(status.UnhealthyTargets))
	for _, target := range status.UnhealthyTargets {
		step, until := "-", "-"
		if target.Step != nil {
			step = fmt.Sprint(*target.Step)
		}
		if target.NextCheckTime != nil {
			until = target.NextCheckTime.UTC().Format(time.RFC3339)
		}
		if target.Request != nil {
			g.Expect(target.Request.Name).To(Equal(target.Name), "the request of the target")
		}
		said = append(said, strings.Join([]string{
			target.Name, target.Node, string(target.Health), string(target.Reason), string(target.Decision),
			string(target.BlockedReason), until, step, fmt.Sprint(target.Request != nil), target.Message,
		}, " | "))
	}
	g.Expect(said).To(Equal([]string{
		"m-002 | n-002 | Suspect | NodeDeleted | Pending |  | 2026-03-14T12:04:59Z | - | false | Node n-002 has been missing since " +
			"2026-03-14T11:59:59Z; the target becomes unhealthy at 2026-03-14T12:04:59Z",
		// It is healthy again, and a person has to confirm it: the status lists it.
		"m-003 | n-003 | Recovering | RecoveryNotConfirmed | Blocked | RecoveryNotConfirmed | - | 1 | true | Blocked: The " +
			"target is healthy since " +
			"2026-03-14T11:59:59Z; waiting for the annotation remediation.medik8s.io/manually-confirmed-healthy on its Node",
		"m-004 | n-004 | Unhealthy | HasRemediateAnnotation | Remediating |  | 2026-03-14T12:59:00Z | 1 | true | Marked for remediation via " +
			"cluster.x-k8s.io/remediate-machine annotation. Waiting for the remediator of the request of step 1 (FooTemplate/a) until " +
			"2026-03-14T12:59:00Z",
		"m-005 | n-005 | Unhealthy | HasRemediateAnnotation | Blocked | MaxInFlight | - | - | false | Marked for remediation via " +
			"cluster.x-k8s.io/remediate-machine annotation. Blocked: maxInFlight is reached (2 of 2, including m-003); this target is queued",
	}))
}

// What was known to be unhealthy stays in the status while it cannot be evaluated, and does not count as unhealthy.
func TestStatus_Outage_KeepsUnhealthyTargets(t *testing.T) {
	since := metav1.NewTime(ago(time.Hour))
	before := []remedyv1.UnhealthyTarget{
		{Name: "m-002", SinceTime: &since, Reason: remedyv1.UnhealthyNode, Health: remedyv1.SuspectTargetHealth, Decision: remedyv1.Pending},
		{
			Name:          "m-003",
			SinceTime:     &since,
			Reason:        remedyv1.UnhealthyNode,
			Decision:      remedyv1.Blocked,
			BlockedReason: remedyv1.BlockedTooManyUnhealthy,
		},
		{Name: "m-004", SinceTime: &since, Reason: remedyv1.NodeDeleted, Decision: remedyv1.Remediating},
		{Name: "m-999", SinceTime: &since, Reason: remedyv1.UnhealthyNode, Decision: remedyv1.Blocked},
	}
	outage := func(p *Evaluation) {
		p.Situation.Check.Unreachable = true
		for i := range p.Snapshot.Targets {
			p.Snapshot.Targets[i].Node = health.NodeFacts{Name: p.Snapshot.Targets[i].Node.Name}
		}
		p.Snapshot.Targets[1].Machine.Failure = "CreateError"
	}
	restored := func(p *Evaluation) {
		p.Situation.Check.Reconnecting, p.Snapshot.Cluster.ReconnectingUntil = true, noon.Add(time.Minute)
	}
	show := func(p *Evaluation, before []remedyv1.UnhealthyTarget) (shown []string, status remedyv1.CheckStatus) {
		status = Status(p, before, nil)
		for _, t := range status.UnhealthyTargets {
			shown = append(
				shown,
				fmt.Sprint(t.Name, " ", t.Reason, " ", t.SinceTime.Equal(&since), " ", t.Decision, " ", t.BlockedReason, " ", t.Message),
			)
		}
		return shown, status
	}
	g := NewWithT(t)
	shown, status := show(fleet(4, 0, outage), before)
	g.Expect(shown).To(HaveLen(2))
	g.Expect(shown[0]).To(HavePrefix("m-003 MachineFailed "), "it is evaluated without the cluster")
	g.Expect(shown[1]).To(Equal("m-004 NodeDeleted true Blocked ClusterUnreachable " +
		"Not evaluated: The Node could not be read. The target was unhealthy before"))
	g.Expect(*status.Unhealthy).To(BeEquivalentTo(1))
	g.Expect(*status.Blocked).To(BeEquivalentTo(1), "m-004, because m-003 is remediated")
	g.Expect(*status.UnhealthyTargetsTotal).To(BeEquivalentTo(2))

	shown, status = show(fleet(4, 0, restored), status.UnhealthyTargets)
	g.Expect(shown).To(HaveLen(2))
	g.Expect(shown[1]).To(Equal("m-004 NodeDeleted true Blocked ReconnectGracePeriod " +
		"Not evaluated: Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z. " +
		"The target was unhealthy before"))
	g.Expect(*status.Unhealthy).To(BeZero())
	g.Expect(*status.Blocked).To(BeEquivalentTo(2))
	g.Expect(status.UnhealthyTargets[1].NextCheckTime).To(HaveValue(HaveField("Time", BeTemporally("==", noon.Add(time.Minute)))))

	shown, _ = show(fleet(4, 0), status.UnhealthyTargets)
	g.Expect(shown).To(BeEmpty(), "it is evaluated again")
	shown, _ = show(fleet(4, 0, outage, func(p *Evaluation) { p.Policy.Observe = true }), before)
	g.Expect(shown[1]).To(HavePrefix("m-004 NodeDeleted true Observed ObserveMode Not evaluated"))
	unseen := func(p *Evaluation) { p.Context.Unseen = map[string]bool{"m-004": true} }
	shown, _ = show(fleet(4, 0, outage, unseen), before)
	g.Expect(shown).To(ConsistOf(HavePrefix("m-003 ")), "m-004 became unhealthy by what was read before the outage")
	shown, _ = show(fleet(4, 0, outage, unseen, func(p *Evaluation) {
		p.Policy.Steps = []remediation.Step{{ID: remediation.StepID{Template: "FooTemplate/a"}}}
		p.Situation.Targets[0].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute)}
	}), before)
	g.Expect(shown).To(ContainElement(HavePrefix("m-004 NodeDeleted true Remediating ")), "a preflight check has confirmed it")
}

// A target that is healthy again and has to be confirmed is blocked, and counted.
func TestStatus_Blocked_IsCounted(t *testing.T) {
	g := NewWithT(t)
	status := Status(fleet(2, 0, func(p *Evaluation) {
		p.Policy.RecoveryConfirmed, p.Policy.Steps = true, []remediation.Step{{ID: remediation.StepID{Template: "FooTemplate/a"}}}
		p.Situation.Targets[0].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute)}
	}), nil, nil)
	g.Expect(status.UnhealthyTargets).To(ConsistOf(HaveField("Decision", remedyv1.Blocked)))
	g.Expect([]int32{*status.Blocked, *status.Remediating}).To(Equal([]int32{1, 0}))
}

func TestStatus_HealthyTargets_DoNotAllocate(t *testing.T) {
	g := NewWithT(t)
	p := fleet(500, 0)
	g.Expect(testing.AllocsPerRun(100, func() {
		for i := range p.Planned.Decisions {
			if StateOf(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i]) != Healthy {
				panic("not healthy")
			}
		}
	})).To(BeZero())
	few, many := testing.AllocsPerRun(100, func() { _ = Status(p, nil, nil) }), fleet(5000, 0)
	// With the race detector, a pool sometimes drops an object.
	g.Expect(testing.AllocsPerRun(100, func() { _ = Status(many, nil, nil) })).To(BeNumerically("~", few, 5))
}

// The conditions of a paused check do not depend on its targets.
func TestWhilePaused_TargetsChange_StaysTheSame(t *testing.T) {
	g := NewWithT(t)
	paused := func(p *Evaluation) { p.Situation.Check.Paused, p.Context.CheckPaused = true, true }
	told := WhilePaused(fleet(4, 1, paused))
	g.Expect(told).To(Equal([]metav1.Condition{
		{
			Type: "RemediationAllowed", Status: metav1.ConditionFalse, Reason: "Paused",
			Message: "Blocked: The check has the annotation cluster.x-k8s.io/paused",
		},
		condition("Paused", metav1.ConditionTrue, "Paused", "The check has the annotation cluster.x-k8s.io/paused"+unchanged),
	}))
	g.Expect(WhilePaused(fleet(7, 5, paused, func(p *Evaluation) { p.Situation.Check.Unreachable = true }))).To(Equal(told))
}
