// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
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

// fleet is a reconcile of a check with a number of targets, of which some are unhealthy. The changes are made before the evaluation.
func fleet(targets, sick int, changes ...func(*Evaluation)) *Evaluation {
	up := health.Milestone{Reached: true}
	p := &Evaluation{
		Check: "MachineHealthCheck default/workers", Snapshot: &health.Snapshot{Cluster: health.ClusterFacts{
			ControlPlaneInitialized: up,
			InfrastructureReady:     up,
		}},
		Situation: &remediation.Situation{},
		Policy: &remediation.Policy{
			Limits: remediation.Limits{Default: intstr.FromString("100%")}, Steps: []remediation.Step{{Owner: true}}, ReportsHealth: true,
		},
	}
	for i := range targets {
		name := fmt.Sprintf("m-%03d", targets-i)
		p.Snapshot.Targets = append(p.Snapshot.Targets, health.Target{
			Name: name, Machine: &health.MachineFacts{CreatedAt: ago(time.Hour)},
			Node: health.NodeFacts{State: health.Present, Name: "n" + name[1:]}, Annotations: health.Annotations{Remediate: i < sick},
		})
		p.Situation.Targets = append(p.Situation.Targets, remediation.Target{Name: name, Owner: "MachineSet/a"})
	}
	for _, change := range changes {
		change(p)
	}
	p.decide(noon)
	return p
}

func stop(change func(*remediation.Check)) func(*Evaluation) {
	return func(p *Evaluation) { change(&p.Situation.Check) }
}

func pausedCheck(p *Evaluation)      { p.Situation.Check.Paused = true }
func deletingCheck(p *Evaluation)    { p.Situation.Check.Deleting = true }
func unreachable(p *Evaluation)      { p.Situation.Check.Unreachable = true }
func reconnectedCheck(p *Evaluation) { p.Situation.Check.Reconnecting = true }
func uninitialized(p *Evaluation)    { p.Snapshot.Cluster.ControlPlaneInitialized.Reached = false }
func observes(p *Evaluation)         { p.Policy.Observe = true }
func onePaused(p *Evaluation)        { p.Snapshot.Targets[0].Annotations.Paused = true }

func clusterIs(state remediation.ClusterState) func(*Evaluation) {
	return func(p *Evaluation) { p.Situation.Check.Cluster = state }
}

func reading(reads NodeReads) func(*Evaluation) {
	return func(p *Evaluation) { p.Context.Reading = reads }
}

func TestConditions_RemediationAllowed_HasCauseAndNumbers(t *testing.T) {
	limits := func(l remediation.Limits) func(*Evaluation) { return func(p *Evaluation) { p.Policy.Limits = l } }
	ten := limits(remediation.Limits{MaxUnhealthy: percent("40%")})
	reconnecting := func(p *Evaluation) {
		p.Situation.Check.Reconnecting, p.Snapshot.Cluster.ReconnectingUntil = true, noon.Add(time.Minute)
	}
	unknown := map[string]bool{"HealthUnknown": true, "ControlPlaneNotInitialized": true, "Reconnecting": true}
	const numbers = ". 1 of 4 targets is not known to be healthy, and maxUnhealthy=100% (default) allows 4"
	const another = ". Create the Cluster, or replace the check by one that names another Cluster"
	type row struct {
		pass   *Evaluation
		reason string
		says   string
	}
	allowed := func(pass *Evaluation, reason, says string) row {
		return row{pass, reason, says}
	}
	tests := []row{
		allowed(fleet(25, 10, ten), "RemediationAllowed",
			"Remediation is allowed. 10 of 25 targets are not known to be healthy, and maxUnhealthy=40% allows 10"),
		allowed(fleet(25, 11, ten), "TooManyUnhealthy",
			"Blocked: Too many targets are unhealthy. 11 of 25 targets are not known to be healthy, and maxUnhealthy=40% allows 10. Check for a "+
				"common cause before raising the limit"),
		allowed(fleet(25, 0, ten, func(p *Evaluation) {
			for i := range 11 {
				p.Snapshot.Targets[i].Machine.Deleting = true
			}
		}), "HealthUnknown", "Blocked: No target is known to be unhealthy, but the health of too many is unknown. 11 of 25 targets are not "+
			"known to be healthy, and maxUnhealthy=40% allows 10"),
		allowed(fleet(4, 0, ten, uninitialized), "ControlPlaneNotInitialized",
			"Blocked: The control plane of the cluster is not initialized. 4 of 4 targets are not known to be healthy, and maxUnhealthy=40% "+
				"allows 1"),
		allowed(fleet(4, 2, ten, reconnecting), "Reconnecting",
			"Blocked: Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z. 4 of 4 targets "+
				"are not known to be healthy, and maxUnhealthy=40% allows 1"),
		allowed(fleet(4, 2, reconnecting), "Reconnecting",
			"Blocked: Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z. 4 of 4 targets "+
				"are not known to be healthy, and maxUnhealthy=100% (default) allows 4"),
		allowed(fleet(4, 0, reconnecting, func(p *Evaluation) { p.Policy.Counting = remediation.CountUnhealthy }), "Reconnecting",
			"Blocked: Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z. 0 of 4 targets "+
				"are unhealthy, and maxUnhealthy=100% (default) allows 4"),
		// The connection is restored, and no Node is read yet.
		allowed(fleet(4, 0, reconnecting, unreachable, reading(NodeReads{Nodes: 4, Failed: 4})), "Reconnecting",
			"Blocked: Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z. 4 of 4 targets "+
				"are not known to be healthy, and maxUnhealthy=100% (default) allows 4"),
		allowed(fleet(0, 0), "RemediationAllowed",
			"Remediation is allowed. 0 of 0 targets are not known to be healthy, and maxUnhealthy=100% (default) allows 0. The check selects no "+
				"Machine of the Cluster: compare its selector with the labels of the Machines"),
		allowed(fleet(0, 0, func(p *Evaluation) { p.Policy.ReportsHealth = false }), "RemediationAllowed",
			"Remediation is allowed. 0 of 0 targets are not known to be healthy, and maxUnhealthy=100% (default) allows 0. The check selects no "+
				"Node: compare its selector with the labels of the Nodes"),
		allowed(fleet(10, 1, limits(remediation.Limits{Range: &remediation.Range{Min: 3, Max: 5}})), "TooFewUnhealthy",
			"Blocked: Too few targets are unhealthy. 1 of 10 targets is not known to be healthy, and unhealthyRange=[3-5] allows 3 to 5"),
		allowed(fleet(3, 1, limits(remediation.Limits{MaxUnhealthy: percent("33%")})), "LimitIsZero",
			"Blocked: The limit is 0, so no target is ever remediated. 1 of 3 targets is not known to be healthy, and maxUnhealthy=33% allows 0. "+
				"Set maxUnhealthy to at least 1 or 34%, or set mode: Observe if no remediation is intended"),
		// With the paused target, the limit is 1.
		allowed(fleet(3, 0, ten, onePaused), "LimitIsZero",
			"Blocked: The limit is 0, so no target is remediated. 0 of 2 targets are not known to be healthy, and maxUnhealthy=40% allows 0. "+
				"1 target is paused or skipped by an annotation, and not counted: with all targets, the limit is 1"),
		allowed(fleet(2, 0, limits(remediation.Limits{MinHealthy: whole(3)})), "LimitIsZero",
			"Blocked: The limit is 0, so no target is ever remediated. 0 of 2 targets are not known to be healthy, and minHealthy=3 requires "+
				"more healthy targets than exist: lower it. Set minHealthy to at most 1 or 50%, or set mode: Observe if no remediation is intended"),
		allowed(fleet(2, 0, limits(remediation.Limits{Range: &remediation.Range{}})), "LimitIsZero",
			"Blocked: The limit is 0, so no target is ever remediated. 0 of 2 targets are not known to be healthy, and unhealthyRange=[0-0] "+
				"allows 0. Raise the upper end of unhealthyRange to 1 or more, or set mode: Observe if no remediation is intended"),
		// One of three is being replaced. For three, the limit is 1.
		allowed(fleet(2, 0, ten, func(p *Evaluation) { p.Context.Missing = 1 }), "RemediationAllowed",
			"Remediation is allowed. 0 of 2 targets are not known to be healthy, and maxUnhealthy=40% allows 0"),
		allowed(fleet(1, 0, ten, func(p *Evaluation) { p.Context.Missing = 1 }), "LimitIsZero",
			"Blocked: The limit is 0, so no target is ever remediated. 0 of 1 targets are not known to be healthy, and maxUnhealthy=40% allows 0. "+
				"Set maxUnhealthy to at least 1 or 100%, or set mode: Observe if no remediation is intended"),
		allowed(fleet(4, 1, func(p *Evaluation) {
			p.Policy.Counting, p.Policy.Limits.Default = remediation.CountUnhealthy, intstr.FromString("49%")
		}), "RemediationAllowed", "Remediation is allowed. 1 of 4 targets is unhealthy, and maxUnhealthy=49% (default) allows 1"),
		allowed(fleet(4, 1, func(p *Evaluation) {
			p.Policy.Counting, p.Policy.Limits.MinHealthy = remediation.CountUnhealthy, percent("51%")
		}), "RemediationAllowed", "Remediation is allowed. 1 of 4 targets is not known to be healthy, and minHealthy=51% allows 1"),
		allowed(fleet(4, 1, pausedCheck), "Paused", "Blocked: The check or its Cluster is paused"+numbers),
		allowed(fleet(4, 1, pausedCheck, func(p *Evaluation) { p.Context.ClusterPaused, p.Context.CheckPaused = true, true }), "Paused",
			"Blocked: The Cluster is paused by spec.paused or its annotation cluster.x-k8s.io/paused, and the check has the annotation "+
				"cluster.x-k8s.io/paused"+numbers),
		allowed(fleet(4, 1, deletingCheck), "CheckDeleting", "Blocked: The check is being deleted"+numbers),
		allowed(fleet(4, 1, observes), "ObserveMode", "Blocked: The check or the manager only observes"+numbers),
		allowed(fleet(4, 1, clusterIs(remediation.ClusterIsMissing)), "ClusterNotFound",
			"Blocked: The Cluster does not exist"+numbers+another),
		allowed(fleet(4, 1, clusterIs(remediation.ClusterIsMissing), func(p *Evaluation) { p.Context.Cluster = "team/prod" }), "ClusterNotFound",
			"Blocked: The Cluster team/prod does not exist"+numbers+another),
		allowed(fleet(4, 1, clusterIs(remediation.ClusterIsDeleting)), "ClusterDeleting", "Blocked: The Cluster is being deleted"+numbers),
		allowed(fleet(4, 1, stop(func(c *remediation.Check) { c.PauseRequests = []string{"b", "a\nb"} })), "PauseRequested",
			`Blocked: New remediations are paused by pauseRequests: "a b", "b"`+numbers),
		allowed(fleet(4, 1, stop(func(c *remediation.Check) { c.ClockOffset = -time.Minute })), "ClockSkew",
			"Blocked: The clocks of the manager and of the API server differ by 1m0s"+numbers),
		allowed(fleet(4, 1, unreachable), "ClusterUnreachable",
			"Blocked: Workload cluster is unreachable; only failures that can be verified without it are remediated"+numbers),
		allowed(fleet(4, 1, stop(func(c *remediation.Check) {
			c.Storm = remediation.Storm{Since: ago(time.Hour), CooldownSince: ago(time.Minute)}
		}), func(p *Evaluation) { p.Policy.StormCooldown = 5 * time.Minute }),
			"Storm", "Blocked: Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the limit is met again, and the "+
				"cool-down ends at 2026-03-14T12:04:00Z"+numbers),
		allowed(fleet(4, 1, stop(func(c *remediation.Check) { c.Storm, c.Reconnecting = remediation.Storm{Since: ago(time.Hour)}, true }),
			func(p *Evaluation) { p.Policy.StormCooldown = 5 * time.Minute }), "Storm",
			"Blocked: Too many targets have been unhealthy at once since 2026-03-14T11:00:00Z; the cool-down starts when the limit is met"+numbers),
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
			g.Expect(got.Status == metav1.ConditionUnknown).To(Equal(unknown[test.reason]))
		})
	}
	for _, word := range conditionReasons {
		if word.Conditions[0] == remedyv1.RemediationAllowedCondition && !told[word.Name] {
			t.Errorf("no row shows %s", word.Name)
		}
	}
}

// The advice results in a limit of at least one target.
func TestAdvice_LimitIsZero_AllowsOneTarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "targets")
		p := fleet(1, 0, func(p *Evaluation) { p.Policy.Limits.MaxUnhealthy = whole(0) })
		p.Assessment.Counts.Expected = n
		var number, share int
		if _, err := fmt.Sscanf(advice(p, remedyv1.LimitIsZeroReason), "Set maxUnhealthy to at least %d or %d%%,", &number, &share); err != nil {
			t.Fatal(err)
		}
		enough, less := percent(fmt.Sprintf("%d%%", share)), percent(fmt.Sprintf("%d%%", share-1))
		if (remediation.Limits{MaxUnhealthy: enough}).For(n).Max < 1 || (remediation.Limits{MaxUnhealthy: less}).For(n).Max > 0 {
			t.Fatalf("%d%% of %d", share, n)
		}
		p.Planned.LimitState.Limit.Field = "minHealthy"
		if _, err := fmt.Sscanf(advice(p, remedyv1.LimitIsZeroReason), "Set minHealthy to at most %d or %d%%,", &number, &share); err != nil {
			t.Fatal(err)
		}
		enough, less = percent(fmt.Sprintf("%d%%", share)), percent(fmt.Sprintf("%d%%", share+1))
		if (remediation.Limits{MinHealthy: enough}).For(n).Max < 1 || (remediation.Limits{MinHealthy: less}).For(n).Max > 0 {
			t.Fatalf("%d%% of %d", share, n)
		}
	})
}

func TestConditions_OtherConditions_HaveCause(t *testing.T) {
	// A failed Machine is unhealthy without an annotation.
	failed := func(p *Evaluation) { p.Snapshot.Targets[0].Machine.Failure = "CreateError" }
	template := func(troubles ...TemplateProblem) func(*Evaluation) {
		return func(p *Evaluation) {
			p.Context.Templates, p.Policy.Steps = troubles, []remediation.Step{{ID: remediation.StepID{Template: "FooTemplate/a"}}}
		}
	}
	covered := func(p *Evaluation) {
		p.Situation.Targets[2].CoveredBy, p.Situation.Targets[0].CoveredBy = "MachineHealthCheck default/b", "MachineHealthCheck default/b"
		p.Situation.Targets[1].CoveredBy = "MachineHealthCheck default/a"
	}
	type row struct {
		pass                       *Evaluation
		kind, status, reason, says string
	}
	has := func(pass *Evaluation, kind, status, reason, says string) row {
		return row{pass, kind, status, reason, says}
	}
	// A Node with another provider ID than its Machine does not make the cluster unreachable, unless no other Node can be evaluated.
	const others = "These Nodes have other provider IDs than their Machines, and are not evaluated; " +
		"if they are other servers, delete the Machines: "
	tests := []row{
		has(fleet(4, 1, reading(NodeReads{Nodes: 1, NotOfMachine: []string{"n-1"}})), "ClusterReachable", "True", "ClusterReachable",
			others+"n-1"),
		has(fleet(4, 1, reading(NodeReads{NotOfMachine: []string{"n-2", "n-1"}})), "ClusterReachable", "False", "NodesUnreadable",
			others+"n-1, n-2"),
		has(fleet(4, 1, reading(NodeReads{Nodes: 4, Failed: 1, Why: "permission denied", NotOfMachine: []string{"n-1"}})),
			"ClusterReachable", "True", "ClusterReachable", "1 of 4 Nodes cannot be read: permission denied. "+others+"n-1"),
		has(fleet(4, 1, reading(NodeReads{Nodes: 4, Failed: 4, Why: "permission denied", NotOfMachine: []string{"n-1"}})),
			"ClusterReachable", "False", "NodesUnreadable", "Nodes cannot be read: permission denied. "+others+"n-1"),
		has(fleet(4, 1), "Paused", "False", "NotPaused", ""),
		has(fleet(4, 1, pausedCheck), "Paused", "True", "Paused", pausedMessage),
		has(fleet(4, 1), "ClusterReachable", "True", "ClusterReachable", ""),
		has(fleet(4, 1, func(p *Evaluation) { p.Context.OtherChecks = MaxChecks }), "SelectorsDisjoint", "False", "TooManyChecks",
			"More than 100 checks are for this Cluster. A check that is newer than 100 others of its kind starts no remediation. Delete those "+
				"that are not needed"),
		has(fleet(4, 1, func(p *Evaluation) { p.Context.OtherChecks = MaxChecks - 1 }), "SelectorsDisjoint", "True", "SelectorsDisjoint", ""),
		has(fleet(4, 1, func(p *Evaluation) { p.Context.ForbiddenChecks = "forbidden" }), "SelectorsDisjoint", "Unknown", "OtherChecksForbidden",
			"Other checks may select the same targets, so no remediation starts: forbidden"),
		has(fleet(4, 1, clusterIs(remediation.ClusterIsMissing)), "ClusterReachable", "False", "ClusterNotFound", "The Cluster does not exist"),
		has(fleet(4, 1, unreachable), "ClusterReachable", "False", "ClusterUnreachable", "Workload cluster is unreachable"),
		has(fleet(4, 1, uninitialized), "ClusterReachable", "Unknown", "ControlPlaneNotInitialized",
			"The control plane of the cluster is not initialized"),
		has(fleet(4, 1, func(p *Evaluation) { p.Context.KubeconfigRejected = "exec" }), "ClusterReachable", "False", "KubeconfigRefused",
			"The kubeconfig is rejected: exec"),
		has(fleet(4, 1, func(p *Evaluation) {
			p.Situation.Check.Unreachable, p.Context.Reading.ConnectionError = true, "there is no connection"
		}), "ClusterReachable", "False", "ClusterUnreachable", "Workload cluster is unreachable: there is no connection"),
		has(fleet(4, 1, reading(NodeReads{Nodes: 4, Failed: 4, Why: "none of them exists", WrongCluster: true})), "ClusterReachable", "False",
			"WrongCluster", "None of them exists. No Machine is remediated for a missing Node until one of these Nodes exists"),
		has(fleet(4, 1, reading(NodeReads{Nodes: 4, Failed: 4, Why: "permission denied"})), "ClusterReachable", "False", "NodesUnreadable",
			"Nodes cannot be read: permission denied"),
		has(fleet(4, 1, reading(NodeReads{Nodes: 4, Failed: 1, Why: "permission denied"})), "ClusterReachable", "True", "ClusterReachable",
			"1 of 4 Nodes cannot be read: permission denied"),
		has(fleet(4, 1, func(p *Evaluation) { p.Context.Insecure = "proxy-url" }), "ClusterReachable", "True", "ClusterReachable",
			"The kubeconfig is insecure: proxy-url"),
		has(fleet(4, 1, func(p *Evaluation) {
			p.Context.Insecure, p.Context.Reading = "proxy-url", NodeReads{Nodes: 4, Failed: 1, Why: "permission denied"}
		}), "ClusterReachable", "True", "ClusterReachable",
			"1 of 4 Nodes cannot be read: permission denied. The kubeconfig is insecure: proxy-url"),
		has(fleet(4, 1, reconnectedCheck, func(p *Evaluation) { p.Snapshot.Cluster.ReconnectingUntil = noon.Add(time.Minute) }),
			"ClusterReachable", "Unknown", "Reconnecting",
			"Connection to the workload cluster was restored; waiting for fresh Node status until 2026-03-14T12:01:00Z"),
		has(fleet(4, 1), "TemplatesResolved", "True", "NoTemplates", ""),
		has(fleet(4, 1, template()), "TemplatesResolved", "True", "TemplatesResolved", ""),
		has(fleet(4, 1, template(TemplateProblem{Reason: "TemplateNotFound", Template: "FooTemplate b"},
			TemplateProblem{Reason: "Forbidden", Template: "FooTemplate a", Detail: "cannot create\nfoos", ClusterRole: "foo-remediation"})),
			"TemplatesResolved", "False", "Forbidden",
			"FooTemplate a: cannot create foos. Apply the ClusterRole foo-remediation, with the label "+
				"remedy.cluster.x-k8s.io/aggregate-to-manager=true. FooTemplate b: A template does not exist"),
		has(fleet(4, 1), "SelectorsDisjoint", "True", "SelectorsDisjoint", ""),
		has(fleet(4, 1, covered), "SelectorsDisjoint", "False", "SelectorsOverlap",
			"MachineHealthCheck default/a is responsible for 1 target: m-003; MachineHealthCheck default/b is responsible for 2 targets: m-002, "+
				"m-004. Change the selectors so that no two checks select the same targets, or delete the checks that are not needed"),
		has(fleet(4, 1), "Ready", "True", "Ready", ""),
		has(fleet(4, 1, observes), "Ready", "True", "Ready", ""),
		has(fleet(4, 1, covered, pausedCheck), "Ready", "False", "SelectorsOverlap", "SelectorsDisjoint is False (SelectorsOverlap)"),
		has(fleet(4, 1, reconnectedCheck), "Ready", "Unknown", "Reconnecting",
			"ClusterReachable is Unknown (Reconnecting), RemediationAllowed is Unknown (Reconnecting)"),
		has(fleet(3, 0, func(p *Evaluation) { p.Policy.Limits.MaxUnhealthy = percent("40%") }, onePaused), "Ready", "True", "Ready", ""),
		has(fleet(4, 1, template(), func(p *Evaluation) {
			p.Situation.Targets[0].Request = &remediation.Request{Step: p.Policy.Steps[0].ID, Attempt: 1, Started: ago(10 * time.Minute)}
		}), "Ready", "False", "RemediatorNotActing",
			"Remediators have written nothing to the requests for these targets: m-004 (created at 2026-03-14T11:50:00Z)"),
		has(fleet(4, 0, uninitialized), "Ready", "Unknown", "ControlPlaneNotInitialized",
			"ClusterReachable is Unknown (ControlPlaneNotInitialized)"),
		has(fleet(4, 1, deletingCheck, func(p *Evaluation) {
			p.Situation.Targets[0].Request = &remediation.Request{DeletingSince: ago(time.Hour)}
		}), "Ready", "Unknown", "CleaningUp",
			"The check is being deleted; its finalizer stays until the cleanup is complete. Requests exist for m-004 (deletion requested at "+
				"2026-03-14T11:00:00Z). Finalizers of the remediator block their deletion"),
		has(fleet(4, 1, template(), func(p *Evaluation) {
			p.Policy.Steps = append(p.Policy.Steps, remediation.Step{ID: remediation.StepID{Order: 1, Template: "BarTemplate/a"}})
			p.Policy.Backoff.Limit = time.Hour
			p.Situation.Targets[0].History = remediation.History{Failures: 1, NotBefore: noon.Add(time.Minute)}
		}, failed), "Ready", "False", "EscalationExhausted", "All steps failed for these targets: "+
			"m-004 (next try at 2026-03-14T12:01:00Z)"),
		has(fleet(4, 1, template(), func(p *Evaluation) {
			p.Policy.Backoff.Limit = time.Hour
			p.Situation.Targets[0].History = remediation.History{Failures: 1, NotBefore: noon.Add(time.Minute)}
		}, failed), "Ready", "False", "RemediationFailed", "Remediation of these targets failed and is retried: "+
			"m-004 (next try at 2026-03-14T12:01:00Z)"),
		has(fleet(4, 1, func(p *Evaluation) {
			p.Situation.Targets[0].OwnerRemediation = remediation.OwnerRemediation{Requested: true, MarkedByThis: true, Since: ago(time.Hour)}
		}), "Ready", "False", "OwnerNotActing", "Owners of these Machines did not act: m-004"),
		has(fleet(4, 1, deletingCheck, func(p *Evaluation) { p.Context.UnlistableRequests = "FooRemediation: forbidden" }), "Ready", "False",
			"CleaningUp",
			"The check is being deleted; its finalizer stays until the cleanup is complete. Requests may exist that cannot be listed: "+
				"FooRemediation: forbidden. Grant the permission or restore the API, or remove the finalizer remedy.cluster.x-k8s.io/cleanup from "+
				"the check if there are no requests"),
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.reason, func(t *testing.T) {
			g := NewWithT(t)
			all := Conditions(test.pass)
			kinds := make([]string, 0, len(all))
			for _, got := range all {
				kinds = append(kinds, got.Type)
				if got.Type == test.kind {
					g.Expect(got).To(Equal(metav1.Condition{
						Type: test.kind, Status: metav1.ConditionStatus(test.status), Reason: test.reason,
						Message: test.says,
					}))
				}
			}
			g.Expect(kinds).To(Equal([]string{
				"Ready", "RemediationAllowed", "Paused", "ClusterReachable", "TemplatesResolved",
				"SelectorsDisjoint",
			}))
		})
	}
}
