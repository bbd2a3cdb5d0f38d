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
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

func percent(text string) *intstr.IntOrString { v := intstr.FromString(text); return &v }
func whole(n int32) *intstr.IntOrString       { v := intstr.FromInt32(n); return &v }

// fleet is a check of so many targets, of which some are sick. The changes come before anything is judged.
func fleet(targets, sick int, changes ...func(*Pass)) *Pass {
	up := health.Milestone{Reached: true}
	p := &Pass{
		Check: "MachineHealthCheck default/workers", Snapshot: &health.Snapshot{Cluster: health.ClusterFacts{ControlPlaneInitialized: up, InfrastructureReady: up}},
		Situation: &remediation.Situation{},
		Policy:    &remediation.Policy{Limits: remediation.Limits{Default: intstr.FromString("100%")}, Steps: []remediation.Step{{Owner: true}}},
	}
	for i := range targets {
		name := fmt.Sprintf("m-%03d", targets-i)
		p.Snapshot.Targets = append(p.Snapshot.Targets, health.Target{
			Name: name, Machine: &health.MachineFacts{CreatedAt: ago(time.Hour)}, Node: health.NodeFacts{State: health.Present, Name: "n" + name[1:]}, Wishes: health.Wishes{Remediate: i < sick},
		})
		p.Situation.Targets = append(p.Situation.Targets, remediation.Target{Name: name, Owner: "MachineSet/a"})
	}
	for _, change := range changes {
		change(p)
	}
	p.decide(noon)
	return p
}

func TestWhetherRemediationIsAllowed(t *testing.T) {
	limits := func(l remediation.Limits) func(*Pass) { return func(p *Pass) { p.Policy.Limits = l } }
	stop := func(change func(*remediation.Check)) func(*Pass) { return func(p *Pass) { change(&p.Situation.Check) } }
	ten := limits(remediation.Limits{MaxUnhealthy: percent("40%")})
	const numbers = ". 1 of 4 targets is not known to be healthy, and maxUnhealthy=100%, the default, allows 4 at the most"
	const another = ". Create the Cluster; or delete this check, and make one that names another Cluster, as that cannot be changed"
	tests := []struct {
		pass   *Pass
		reason string
		says   string
	}{
		{fleet(25, 10, ten), "RemediationAllowed", "Remediation is allowed. 10 of 25 targets are not known to be healthy, and maxUnhealthy=40% allows 10 at the most"},
		{fleet(25, 11, ten), "TooManyUnhealthy", "Remediation is not allowed: too many targets are sick. 11 of 25 targets are not known to be healthy, and maxUnhealthy=40% allows 10 at the most"},
		{fleet(0, 0), "RemediationAllowed", "Remediation is allowed. 0 of 0 targets are not known to be healthy, and maxUnhealthy=100%, the default, allows 0 at the most. " +
			"The check selects no Machine of the Cluster: compare its selector with the labels of the Machines"},
		{fleet(0, 0, func(p *Pass) { p.Check = "NodeHealthCheck workers" }), "RemediationAllowed", "Remediation is allowed. 0 of 0 targets are not known to be healthy, and maxUnhealthy=100%, the default, allows 0 at the most. " +
			"The check selects no Node: compare its selector with the labels of the Nodes"},
		{
			fleet(10, 1, limits(remediation.Limits{Range: &remediation.Range{Least: 3, Most: 5}})), "TooFewUnhealthy",
			"Remediation is not allowed: fewer targets are sick than the range asks for. 1 of 10 targets is not known to be healthy, and unhealthyRange=[3-5] allows from 3 to 5",
		},
		{
			fleet(3, 1, limits(remediation.Limits{MaxUnhealthy: percent("33%")})), "LimitIsZero",
			"Remediation is not allowed: the limit comes to no target at all, so that nothing will ever be remediated. 1 of 3 targets is not known to be healthy, and maxUnhealthy=33% allows 0 at the most. " +
				"Set maxUnhealthy to at least 1, or to at least 34%; to change nothing on purpose, set mode: Observe",
		},
		{
			fleet(2, 0, limits(remediation.Limits{MinHealthy: whole(3)})), "LimitIsZero",
			"Remediation is not allowed: the limit comes to no target at all, so that nothing will ever be remediated. 0 of 2 targets are not known to be healthy, and minHealthy=3 wants more healthy ones than there are targets. " +
				"Set minHealthy to at most 1, or to at most 50%; to change nothing on purpose, set mode: Observe",
		},
		{
			fleet(2, 0, limits(remediation.Limits{Range: &remediation.Range{}})), "LimitIsZero",
			"Remediation is not allowed: the limit comes to no target at all, so that nothing will ever be remediated. 0 of 2 targets are not known to be healthy, and unhealthyRange=[0-0] allows from 0 to 0. " +
				"Raise the upper end of unhealthyRange to 1 or more; to change nothing on purpose, set mode: Observe",
		},
		{
			fleet(4, 1, func(p *Pass) {
				p.Policy.Counting, p.Policy.Limits.Default = remediation.CountUnhealthy, intstr.FromString("49%")
			}), "RemediationAllowed",
			"Remediation is allowed. 1 of 4 targets is unhealthy, and maxUnhealthy=49%, the default, allows 1 at the most",
		},
		{
			fleet(4, 1, func(p *Pass) {
				p.Policy.Counting, p.Policy.Limits.MinHealthy = remediation.CountUnhealthy, percent("51%")
			}), "RemediationAllowed",
			"Remediation is allowed. 1 of 4 targets is not known to be healthy, and minHealthy=51% allows 1 at the most",
		},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Frozen = true })), "Paused", "Remediation is not allowed: the check or its Cluster is paused" + numbers},
		{
			fleet(4, 1, stop(func(c *remediation.Check) { c.Frozen = true }), func(p *Pass) { p.Around.ClusterPaused, p.Around.CheckPaused = true, true }), "Paused",
			"Remediation is not allowed: the Cluster is paused by spec.paused, and the check has the annotation cluster.x-k8s.io/paused" + numbers,
		},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Deleting = true })), "CheckDeleting", "Remediation is not allowed: the check is being deleted" + numbers},
		{fleet(4, 1, func(p *Pass) { p.Policy.Observe = true }), "Observing", "Remediation is not allowed: the check, or the manager, only observes" + numbers},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Cluster = remediation.ClusterIsMissing })), "ClusterNotFound", "Remediation is not allowed: the Cluster does not exist" + numbers + another},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Cluster = remediation.ClusterIsMissing }), func(p *Pass) { p.Around.Cluster = "team/prod" }), "ClusterNotFound", "Remediation is not allowed: the Cluster team/prod does not exist" + numbers + another},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Cluster = remediation.ClusterIsDeleting })), "ClusterDeleting", "Remediation is not allowed: the Cluster is being deleted" + numbers},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.PauseRequests = []string{"b", "a\nb"} })), "PauseRequested", `Remediation is not allowed: somebody asked to start nothing new, for "a b", "b"` + numbers},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Unreachable = true })), "ClusterUnreachable", "Remediation is not allowed: the cluster cannot be read, and only what needs no Node is remediated" + numbers},
		{
			fleet(4, 1, stop(func(c *remediation.Check) {
				c.Storm = remediation.Storm{Since: ago(time.Hour), CooldownSince: ago(time.Minute)}
			}), func(p *Pass) { p.Policy.StormCooldown = 5 * time.Minute }), "Storm",
			"Remediation is not allowed: too many targets have been sick at once since 2026-03-14T11:00:00Z, and the limit has to be kept until 2026-03-14T12:04:00Z" + numbers,
		},
		{
			fleet(4, 1, stop(func(c *remediation.Check) { c.Storm, c.FirstLook = remediation.Storm{Since: ago(time.Hour)}, true }), func(p *Pass) { p.Policy.StormCooldown = 5 * time.Minute }), "Storm",
			"Remediation is not allowed: too many targets have been sick at once since 2026-03-14T11:00:00Z" + numbers,
		},
	}
	told := map[string]bool{}
	for _, test := range tests {
		told[test.reason] = true
		t.Run(test.says, func(t *testing.T) {
			g := NewWithT(t)
			got := allowedCondition(test.pass)
			g.Expect(got.Reason).To(Equal(test.reason))
			g.Expect(got.Message).To(Equal(test.says))
			g.Expect(got.Status == metav1.ConditionTrue).To(Equal(test.reason == "RemediationAllowed"))
		})
	}
	for _, word := range conditionWords {
		if word.conditions[0] == remedyv1.RemediationAllowedCondition && !told[word.reason] {
			t.Errorf("no row shows %s", word.reason)
		}
	}
}

// Whoever follows the advice gets a limit of at least one target.
func TestTheAdviceMendsTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "targets")
		p := fleet(1, 0, func(p *Pass) { p.Policy.Limits.MaxUnhealthy = whole(0) })
		p.Assessment.Counts.Expected = n
		var number, share int
		if _, err := fmt.Sscanf(mend(p, remedyv1.LimitIsZeroReason), "Set maxUnhealthy to at least %d, or to at least %d%%;", &number, &share); err != nil {
			t.Fatal(err)
		}
		enough, less := percent(fmt.Sprintf("%d%%", share)), percent(fmt.Sprintf("%d%%", share-1))
		if (remediation.Limits{MaxUnhealthy: enough}).For(n).Most < 1 || (remediation.Limits{MaxUnhealthy: less}).For(n).Most > 0 {
			t.Fatalf("%d%% of %d", share, n)
		}
		p.Planned.Gate.Limit.Field = "minHealthy"
		if _, err := fmt.Sscanf(mend(p, remedyv1.LimitIsZeroReason), "Set minHealthy to at most %d, or to at most %d%%;", &number, &share); err != nil {
			t.Fatal(err)
		}
		enough, less = percent(fmt.Sprintf("%d%%", share)), percent(fmt.Sprintf("%d%%", share+1))
		if (remediation.Limits{MinHealthy: enough}).For(n).Most < 1 || (remediation.Limits{MinHealthy: less}).For(n).Most > 0 {
			t.Fatalf("%d%% of %d", share, n)
		}
	})
}

func TestTheOtherConditions(t *testing.T) {
	// A Machine that has failed is no mere wish.
	failed := func(p *Pass) { p.Snapshot.Targets[0].Machine.Failure = "CreateError" }
	stop := func(change func(*remediation.Check)) func(*Pass) { return func(p *Pass) { change(&p.Situation.Check) } }
	template := func(troubles ...TemplateTrouble) func(*Pass) {
		return func(p *Pass) {
			p.Around.Templates, p.Policy.Steps = troubles, []remediation.Step{{ID: remediation.StepID{Template: "FooTemplate/a"}}}
		}
	}
	covered := func(p *Pass) {
		p.Situation.Targets[2].CoveredBy, p.Situation.Targets[0].CoveredBy = "MachineHealthCheck default/b", "MachineHealthCheck default/b"
		p.Situation.Targets[1].CoveredBy = "MachineHealthCheck default/a"
	}
	tests := []struct {
		pass                       *Pass
		kind, status, reason, says string
	}{
		{fleet(4, 1), "Paused", "False", "NotPaused", ""},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Frozen = true })), "Paused", "True", "Paused", "The check or its Cluster is paused"},
		{fleet(4, 1), "ClusterReachable", "True", "ClusterReachable", ""},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Cluster = remediation.ClusterIsMissing })), "ClusterReachable", "False", "ClusterNotFound", "The Cluster does not exist"},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.Unreachable = true })), "ClusterReachable", "False", "ClusterUnreachable", "The cluster cannot be read"},
		{fleet(4, 1, func(p *Pass) { p.Snapshot.Cluster.ControlPlaneInitialized.Reached = false }), "ClusterReachable", "False", "ControlPlaneNotInitialized", "The control plane of the cluster is not initialized"},
		{fleet(4, 1, func(p *Pass) { p.Around.KubeconfigRefused = "exec" }), "ClusterReachable", "False", "KubeconfigRefused", "The kubeconfig is refused: exec"},
		{fleet(4, 1, func(p *Pass) {
			p.Situation.Check.Unreachable, p.Around.Reading.Unconnected = true, "there is no connection"
		}), "ClusterReachable", "False", "ClusterUnreachable", "The cluster cannot be read: there is no connection"},
		{fleet(4, 1, func(p *Pass) {
			p.Around.Reading = Reading{Nodes: 4, Unread: 4, Why: "none of them is there", NoKnownNode: true}
		}), "ClusterReachable", "False", "NoKnownNode", "None of them is there. No Machine is remediated for a missing Node until one of these Nodes exists"},
		{fleet(4, 1, func(p *Pass) {
			p.Around.Reading = Reading{Nodes: 4, Unread: 4, Why: "we may not"}
		}), "ClusterReachable", "False", "NodesUnreadable", "No Node can be read: we may not"},
		{fleet(4, 1, func(p *Pass) {
			p.Around.Reading = Reading{Nodes: 4, Unread: 1, Why: "we may not"}
		}), "ClusterReachable", "True", "ClusterReachable", "1 of 4 Nodes cannot be read: we may not"},
		{
			fleet(4, 1, stop(func(c *remediation.Check) { c.FirstLook = true }), func(p *Pass) { p.Snapshot.Cluster.FirstLookUntil = noon.Add(time.Minute) }), "ClusterReachable", "Unknown", "Reconnecting",
			"The connection to the cluster has just come back, and its Nodes speak first until 2026-03-14T12:01:00Z",
		},
		{fleet(4, 1), "TemplatesResolved", "True", "NoTemplates", ""},
		{fleet(4, 1, template()), "TemplatesResolved", "True", "TemplatesResolved", ""},
		{
			fleet(4, 1, template(TemplateTrouble{Reason: "TemplateNotFound", Template: "FooTemplate b"}, TemplateTrouble{Reason: "Forbidden", Template: "FooTemplate a", Detail: "cannot create\nfoos", ClusterRole: "foo-remediation"})),
			"TemplatesResolved", "False", "Forbidden",
			"FooTemplate a: cannot create foos. Apply the ClusterRole foo-remediation, with the label remedy.cluster.x-k8s.io/aggregate-to-manager=true. FooTemplate b: A template does not exist",
		},
		{fleet(4, 1), "SelectorsDisjoint", "True", "SelectorsDisjoint", ""},
		{
			fleet(4, 1, covered), "SelectorsDisjoint", "False", "SelectorsOverlap",
			"MachineHealthCheck default/a takes care of 1 target: m-003; MachineHealthCheck default/b takes care of 2 targets: m-002, m-004. " +
				"Change the selectors, so that no two of them select the same targets, or delete the checks that are one too many",
		},
		{fleet(4, 1), "Ready", "True", "Ready", ""},
		{fleet(4, 1, func(p *Pass) { p.Policy.Observe = true }), "Ready", "True", "Ready", ""},
		{
			fleet(4, 1, covered, stop(func(c *remediation.Check) { c.Frozen = true })), "Ready", "False", "NotReady",
			"RemediationAllowed is False (Paused), Paused is True (Paused), SelectorsDisjoint is False (SelectorsOverlap)",
		},
		{fleet(4, 1, stop(func(c *remediation.Check) { c.FirstLook = true })), "Ready", "Unknown", "NotReady", "ClusterReachable is Unknown (Reconnecting)"},
		{
			fleet(4, 1, template(), func(p *Pass) {
				p.Policy.Steps = append(p.Policy.Steps, remediation.Step{ID: remediation.StepID{Order: 1, Template: "BarTemplate/a"}})
				p.Policy.Backoff.Limit = time.Hour
				p.Situation.Targets[0].Ledger = remediation.Ledger{Failures: 1, NotBefore: noon.Add(time.Minute)}
			}, failed), "Ready", "False", "EscalationExhausted", "Every step has been tried, and these are still not healthy: m-004",
		},
		{
			fleet(4, 1, template(), func(p *Pass) {
				p.Policy.Backoff.Limit = time.Hour
				p.Situation.Targets[0].Ledger = remediation.Ledger{Failures: 1, NotBefore: noon.Add(time.Minute)}
			}, failed), "Ready", "False", "EscalationExhausted", "The remediation of these has failed, and is tried again after a wait: m-004",
		},
		{
			fleet(4, 1, func(p *Pass) {
				p.Situation.Targets[0].Mark = remediation.Mark{Given: true, Ours: true, Since: ago(time.Hour)}
			}), "Ready", "False", "OwnerNotActing", "The owners of these were asked to remediate them, and have not acted: m-004",
		},
		{
			fleet(4, 1, stop(func(c *remediation.Check) { c.Deleting = true }), func(p *Pass) { p.Around.Unseen = "FooRemediation: forbidden" }), "Ready", "False", "CleaningUp",
			"The check is being deleted, and goes when nothing of it is left. There may be requests that cannot be seen: FooRemediation: forbidden. " +
				"Mend that; or, if you know that there are none, take the finalizer remedy.cluster.x-k8s.io/cleanup off the check",
		},
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.reason, func(t *testing.T) {
			g := NewWithT(t)
			all := Conditions(test.pass)
			kinds := make([]string, 0, len(all))
			for _, got := range all {
				kinds = append(kinds, got.Type)
				if got.Type == test.kind {
					g.Expect(got).To(Equal(metav1.Condition{Type: test.kind, Status: metav1.ConditionStatus(test.status), Reason: test.reason, Message: test.says}))
				}
			}
			g.Expect(kinds).To(Equal([]string{"Ready", "RemediationAllowed", "Paused", "ClusterReachable", "TemplatesResolved", "SelectorsDisjoint"}))
		})
	}
}

// What is told of a check that is paused does not change with its targets.
func TestWhatIsToldDuringAPause(t *testing.T) {
	g := NewWithT(t)
	paused := func(p *Pass) { p.Situation.Check.Frozen, p.Around.CheckPaused = true, true }
	told := WhilePaused(fleet(4, 1, paused))
	g.Expect(told).To(Equal([]metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "NotReady", Message: "RemediationAllowed is False (Paused), Paused is True (Paused)"},
		{Type: "RemediationAllowed", Status: metav1.ConditionFalse, Reason: "Paused", Message: "Remediation is not allowed: the check has the annotation cluster.x-k8s.io/paused"},
		{Type: "Paused", Status: metav1.ConditionTrue, Reason: "Paused", Message: "The check has the annotation cluster.x-k8s.io/paused"},
	}))
	g.Expect(WhilePaused(fleet(7, 5, paused, func(p *Pass) { p.Situation.Check.Unreachable = true }))).To(Equal(told))
}

func TestStatusListsTheFirstHundred(t *testing.T) {
	g := NewWithT(t)
	status := Status(fleet(150, 130, func(p *Pass) { p.Policy.MaxInFlight = whole(7) }), nil)
	g.Expect(status.UnhealthyTargets).To(HaveLen(100))
	g.Expect(*status.UnhealthyTargetsTotal).To(BeEquivalentTo(130))
	g.Expect(status.UnhealthyTargets[0].Name).To(Equal("m-021"))
	g.Expect(status.UnhealthyTargets[99].Name).To(Equal("m-120"))
	g.Expect([]int32{*status.Unhealthy, *status.Suspect, *status.Undetermined, *status.Remediating, *status.Held, *status.RemediationsAllowed}).To(Equal([]int32{130, 0, 0, 7, 123, 20}))
	g.Expect(*status.Limit).To(Equal(remedyv1.EffectiveLimit{Source: "maxUnhealthy=100%", MaxUnhealthy: 150}))
	ranged := Status(fleet(4, 1, func(p *Pass) { p.Policy.Limits.Range = &remediation.Range{Least: 1, Most: 2} }), nil)
	g.Expect(*ranged.Limit).To(Equal(remedyv1.EffectiveLimit{Source: "unhealthyRange=[1-2]", MinUnhealthy: Number(1), MaxUnhealthy: 2}))
}

func TestWhatStatusSaysOfATarget(t *testing.T) {
	g := NewWithT(t)
	p := fleet(5, 2, func(p *Pass) {
		p.Policy.MaxInFlight = whole(2)
		p.Policy.RecoveryConfirmed = true
		p.Policy.Steps = []remediation.Step{{ID: remediation.StepID{Order: 1, Template: "FooTemplate/a"}, Timeout: time.Hour}, {ID: remediation.StepID{Order: 2}, Owner: true}}
		p.Situation.Targets[1].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute)}
		p.Situation.Targets[2].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(time.Minute), HealthySince: ago(time.Second)}
		p.Snapshot.Targets[3].Node.State = health.Gone
		p.Snapshot.Targets[3].Machine.NodeGoneSince = ago(time.Second)
	})
	status := Status(p, func(target int) *remedyv1.RequestReference {
		return &remedyv1.RequestReference{APIVersion: "v1", Kind: "Foo", Namespace: "default", Name: p.Snapshot.Targets[target].Name}
	})
	said := make([]string, 0, len(status.UnhealthyTargets))
	for _, target := range status.UnhealthyTargets {
		step, until := "-", "-"
		if target.Step != nil {
			step = fmt.Sprint(*target.Step)
		}
		if target.Until != nil {
			until = at(target.Until.Time)
		}
		if target.Request != nil {
			g.Expect(target.Request.Name).To(Equal(target.Name), "its own")
		}
		said = append(said, strings.Join([]string{target.Name, target.Node, string(target.Reason), string(target.Decision), string(target.HoldReason), until, step, fmt.Sprint(target.Request != nil), target.Message}, " | "))
	}
	g.Expect(said).To(Equal([]string{
		"m-002 | n-002 | NodeDeleted | Observed |  | 2026-03-14T12:04:59Z | - | false | Node n-002 has been gone since 2026-03-14T11:59:59Z and makes it unhealthy at 2026-03-14T12:04:59Z",
		// It is healthy again, and a person has to do something: there is no better place to say so.
		"m-003 | n-003 | RecoveryNotConfirmed | Held | RecoveryNotConfirmed | - | 1 | true | Held: It is healthy again since 2026-03-14T11:59:59Z and waits for a person to confirm it",
		"m-004 | n-004 | HasRemediateAnnotation | Remediating |  | 2026-03-14T12:59:00Z | 1 | true | Marked for remediation via cluster.x-k8s.io/remediate-machine annotation. Waits for the remediator of the request of step 1 (FooTemplate/a) until 2026-03-14T12:59:00Z",
		"m-005 | n-005 | HasRemediateAnnotation | Held | MaxInFlight | - | - | false | Marked for remediation via cluster.x-k8s.io/remediate-machine annotation. Held: 2 of 2 places for remediations are taken, one of them by m-003",
	}))
}

func TestATargetThatIsWellCostsNothing(t *testing.T) {
	g := NewWithT(t)
	p := fleet(500, 0)
	g.Expect(testing.AllocsPerRun(100, func() {
		for i := range p.Planned.Decisions {
			if p.Notable(i) || StateOf(&p.Assessment.Verdicts[i], &p.Planned.Decisions[i]) != Healthy {
				panic("it is well")
			}
		}
	})).To(BeZero())
	few, many := testing.AllocsPerRun(100, func() { _ = Status(p, nil) }), fleet(5000, 0)
	// With the race detector a pool forgets now and then what it was given.
	g.Expect(testing.AllocsPerRun(100, func() { _ = Status(many, nil) })).To(BeNumerically("~", few, 5))
}
