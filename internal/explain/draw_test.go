// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// drawWords returns text of another component: usually valid, sometimes long, broken or malicious.
func drawWords(t *rapid.T, name string) string {
	switch rapid.IntRange(0, 5).Draw(t, name+" kind") {
	case 1:
		return rapid.String().Draw(t, name)
	case 2:
		return strings.Repeat(rapid.SampledFrom([]string{"long ", "ä", "\n", "x\u202e", "\xff"}).Draw(t, name),
			rapid.IntRange(0, 3000).Draw(t, name+" times"))
	case 3:
		return "broken\xff\n  * Condition Ready on Node\r\n\x1b[31m"
	default:
		return rapid.SampledFrom([]string{"", "KubeletNotReady", "NodeStatusUnknown", "a reason"}).Draw(t, name)
	}
}

func some[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// rarely is true in one of twelve cases. Rapid prefers the ends of a range, so neither of them is used.
func rarely(t *rapid.T, name string) bool { return rapid.IntRange(0, 11).Draw(t, name) == 4 }

func drawTime(t *rapid.T, name string) time.Time {
	return ago(time.Duration(rapid.IntRange(1, 40).Draw(t, name)) * time.Minute)
}

func maybeTime(t *rapid.T, name string) time.Time {
	if rapid.IntRange(0, 3).Draw(t, "is there "+name) != 2 {
		return time.Time{}
	}
	return drawTime(t, name)
}

// drawPass returns a reconcile of a check with drawn facts. All annotations with times exist: without them, the time is that of the first
// observation.
func drawPass(t *rapid.T) *Evaluation {
	n := rapid.IntRange(0, 6).Draw(t, "targets")
	p := &Evaluation{
		Check:     "MachineHealthCheck default/a",
		Policy:    drawPolicy(t),
		Snapshot:  &health.Snapshot{},
		Situation: &remediation.Situation{},
	}
	calm := rapid.Bool().Draw(t, "calm")
	p.Snapshot.Cluster = health.ClusterFacts{
		ControlPlaneInitialized: health.Milestone{Reached: calm || !rarely(t, "no control plane"), Since: drawTime(t, "control plane")},
		InfrastructureReady:     health.Milestone{Reached: calm || !rarely(t, "no infrastructure"), Since: drawTime(t, "infrastructure")},
	}
	if !calm {
		p.Situation.Check = drawCheck(t)
		if p.Situation.Check.Reconnecting {
			p.Snapshot.Cluster.ReconnectingUntil = noon.Add(50 * time.Second)
		}
	}
	for i := range n {
		name := fmt.Sprintf("m%02d", i)
		p.Snapshot.Targets = append(p.Snapshot.Targets, drawFacts(t, name))
		p.Situation.Targets = append(p.Situation.Targets, drawTarget(t, name, p.Policy))
		// In a calm pass nothing is under way for most targets, so the guards that are asked last are asked often enough.
		if target := &p.Situation.Targets[i]; calm && i > 1 {
			target.Request, target.OwnerRemediation, target.DeletingSince = nil, remediation.OwnerRemediation{}, time.Time{}
		}
	}
	for i := range max(0, rapid.IntRange(-4, 2).Draw(t, "orphans")) {
		stray := remediation.Orphan{
			Name: fmt.Sprintf("gone%02d", i), Gone: rapid.Bool().Draw(t, "gone"), Request: drawRequest(t, p.Policy),
			Marked: true,
		}
		p.Situation.Orphans = append(p.Situation.Orphans, stray)
	}
	p.Situation.ControlPlane.Etcd = remediation.Etcd{
		State: some(t, "etcd", remediation.EtcdStacked, remediation.EtcdStacked, remediation.EtcdExternal, remediation.EtcdUnreadable),
		Members: []remediation.Member{
			{Node: "m00-node", Healthy: true},
			{Node: "m01-node", Healthy: rapid.Bool().Draw(t, "member")},
			{Node: "m02-node", Healthy: true},
		},
	}
	if rapid.IntRange(0, 3).Draw(t, "a single member") == 2 {
		p.Situation.ControlPlane.Etcd.Members = p.Situation.ControlPlane.Etcd.Members[:1]
		for i := range p.Situation.Targets {
			p.Situation.Targets[i].ControlPlane = i == 0
		}
	}
	p.Context = drawSurroundings(t)
	p.decide(noon)
	return p
}

// decide evaluates and plans again.
func (p *Evaluation) decide(now time.Time) {
	assessment := health.Evaluate(p.Snapshot, checks, now)
	planned := remediation.Plan(p.Situation, &assessment, p.Policy, now)
	p.Assessment, p.Planned = &assessment, &planned
}

var checks = &health.Policy{
	NodeConditions: []health.ConditionCheck{
		{Type: "Ready", Status: "Unknown", Lasting: 5 * time.Minute},
		{Type: "Ready", Status: "False", Lasting: 5 * time.Minute},
		{Type: "DiskPressure", Status: "True", Lasting: 20 * time.Minute},
	},
	MachineConditions:  []health.ConditionCheck{{Type: "InfrastructureReady", Status: "False", Lasting: 10 * time.Minute}},
	NodeStartupTimeout: 10 * time.Minute, NodeGoneTimeout: 5 * time.Minute,
}

func drawPolicy(t *rapid.T) *remediation.Policy {
	p := &remediation.Policy{
		Limits:   remediation.Limits{Default: intstr.FromString("100%")},
		Counting: some(t, "counting", remediation.CountNotHealthy, remediation.CountUnhealthy),
		Backoff:  remediation.Backoff{Initial: time.Minute, Limit: 10 * time.Minute}, StormCooldown: some(t, "cooldown", 0, 5*time.Minute),
		HealthyDelay: some(t, "healthy delay", 0, 0, 50*time.Minute), RecoveryConfirmed: rarely(t, "confirmed recovery"),
		Observe:            rarely(t, "observe"),
		ReplacementTimeout: 10 * time.Minute,
	}
	limit, percent, slots := intstr.FromInt32(rapid.Int32Range(0, 5).Draw(t, "limit")),
		intstr.FromString(some(t, "percent", "0%", "40%", "49%")), intstr.FromInt32(1)
	switch rapid.IntRange(0, 7).Draw(t, "limits") {
	case 1:
		p.Limits.MaxUnhealthy = &limit
	case 2:
		p.Limits.MinHealthy = &limit
	case 3:
		p.Limits.Range = &remediation.Range{Min: rapid.IntRange(0, limit.IntValue()).Draw(t, "least"), Max: limit.IntValue()}
	case 4:
		p.Limits.MaxUnhealthy = &percent
	case 5:
		p.Limits.MinHealthy = &percent
	}
	if rapid.Bool().Draw(t, "limited") {
		p.MaxInFlight = &slots
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "steps") {
		p.Steps = append(p.Steps, remediation.Step{
			ID:      remediation.StepID{Order: int32(i), Template: fmt.Sprintf("FooTemplate/%d", i)},
			Timeout: 30 * time.Minute, Unresolved: rarely(t, "unresolved"),
		})
		if rarely(t, "needs a Machine") {
			p.Steps[i].NeedsMachineIn = "prod"
		}
		if rarely(t, "for a cause") {
			p.Steps[i].Conditions = []remediation.Cause{{Type: "Ready", Status: "False"}}
		}
	}
	if len(p.Steps) == 0 || rapid.Bool().Draw(t, "owner last") {
		p.Steps = append(p.Steps, remediation.Step{ID: remediation.StepID{Order: 9}, Owner: true})
	}
	return p
}

func drawCheck(t *rapid.T) remediation.Check {
	c := remediation.Check{
		Paused: rarely(t, "frozen"), Deleting: rarely(t, "deleting"), Unreachable: rarely(t, "unreachable"),
		Reconnecting: rarely(t, "first look"),
	}
	if rarely(t, "clocks differ") {
		c.ClockOffset = 10 * time.Minute
	}
	if rarely(t, "kubelets return") {
		c.KubeletsUntil = noon.Add(time.Minute)
	}
	c.Cluster = some(t, "cluster", remediation.ClusterFound, remediation.ClusterFound, remediation.ClusterFound, remediation.ClusterFound,
		remediation.ClusterIsDeleting, remediation.ClusterIsMissing)
	if rarely(t, "pause requests") {
		c.PauseRequests = []string{drawWords(t, "pause request"), "a holiday"}
	}
	c.Storm = remediation.Storm{Since: drawTime(t, "storm"), CooldownSince: ago(time.Minute)}
	return c
}

func drawFacts(t *rapid.T, name string) health.Target {
	target := health.Target{
		Name:        name,
		Annotations: health.Annotations{Paused: rarely(t, "paused"), SkipRemediation: rarely(t, "skip"), Remediate: rarely(t, "remediate")},
		Node: health.NodeFacts{State: some(t, "node", health.Present, health.Present, health.Present, health.Present, health.Gone,
			health.NotJoined, health.Unreadable), Name: name + "-node", CreatedAt: ago(time.Hour)},
	}
	if !rarely(t, "bare") || target.Node.State == health.Gone {
		target.Machine = &health.MachineFacts{
			CreatedAt: drawTime(t, "created"), Deleting: rarely(t, "machine deleting"),
			NodeGoneSince: drawTime(t, "gone since"),
		}
		if rarely(t, "failed") {
			target.Machine.Failure = drawWords(t, "failure")
		}
		target.Machine.Conditions = []metav1.Condition{{
			Type: "InfrastructureReady", Status: some(t, "infra", metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse),
			Reason: drawWords(t, "infra reason"), LastTransitionTime: metav1.NewTime(drawTime(t, "infra since")),
		}}
	}
	target.Node.Conditions = []corev1.NodeCondition{
		{
			Type: "Ready", Status: some(t, "ready", corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown),
			Reason: drawWords(t, "reason"), LastTransitionTime: metav1.NewTime(drawTime(t, "ready since")),
		},
		{
			Type: "DiskPressure", Status: some(t, "pressure", corev1.ConditionFalse, corev1.ConditionTrue), Reason: drawWords(t, "pressure reason"),
			LastTransitionTime: metav1.NewTime(drawTime(t, "pressure since")),
		},
	}
	return target
}

func drawRequest(t *rapid.T, p *remediation.Policy) *remediation.Request {
	i := slices.IndexFunc(p.Steps, func(s remediation.Step) bool { return !s.Owner })
	if i < 0 || rapid.IntRange(0, 2).Draw(t, "request") != 1 {
		return nil
	}
	r := &remediation.Request{
		Step: p.Steps[i].ID, Attempt: 1, Started: drawTime(t, "started"), HealthySince: maybeTime(t, "healthy since"),
		DeletingSince: maybeTime(t, "request deleting"), Acted: rapid.Bool().Draw(t, "acted"),
	}
	if rarely(t, "another template") {
		r.Step.Template = drawWords(t, "template")
	}
	r.Failed = rarely(t, "request failed")
	return r
}

func drawTarget(t *rapid.T, name string, p *remediation.Policy) remediation.Target {
	target := remediation.Target{
		Name: name, Node: name + "-node", ControlPlane: rapid.Bool().Draw(t, "control plane"), Owner: "MachineSet/a",
		Excluded: rarely(t, "excluded"), Confirmed: rarely(t, "confirmed"), Request: drawRequest(t, p),
		History: remediation.History{Failures: rapid.IntRange(0, 2).Draw(t, "failures")},
	}
	if rarely(t, "backoff") {
		target.History = remediation.History{Failures: 1, NotBefore: noon.Add(time.Minute)}
	}
	if rarely(t, "covered") {
		target.CoveredBy = drawWords(t, "responsible") + "x"
	}
	if rarely(t, "leaving") {
		target.Terminating = remediation.Departure{Sign: drawWords(t, "sign"), Since: maybeTime(t, "leaving since")}
	}
	if rarely(t, "no owner") {
		target.Owner = ""
	}
	if rarely(t, "deleted") {
		target.DeletingSince = drawTime(t, "deleted since")
	}
	if rapid.IntRange(0, 2).Draw(t, "mark") == 1 && target.Request == nil {
		target.OwnerRemediation = remediation.OwnerRemediation{
			Requested: true, MarkedByThis: true, RequestedByThis: true, Since: drawTime(t, "marked"), Refused: rarely(t, "refused"),
			OwnerReason: drawWords(t, "owner reason"),
		}
		target.OwnerRemediation.Waiting = !target.OwnerRemediation.Refused && rapid.Bool().Draw(t, "waiting")
	}
	if rarely(t, "requests deleted") {
		target.DeletedRequests.Times = rapid.IntRange(1, 4).Draw(t, "deleted requests")
	}
	if rarely(t, "name taken") {
		target.RequestNameConflict = drawWords(t, "holder of the name")
	}
	if rarely(t, "lease") {
		target.Lease = remediation.Lease{Used: true, Holder: drawWords(t, "holder"), Until: noon.Add(time.Minute)}
	}
	return target
}

func drawSurroundings(t *rapid.T) ConditionFacts {
	s := ConditionFacts{ClusterPaused: rapid.Bool().Draw(t, "cluster paused"), CheckPaused: rapid.Bool().Draw(t, "check paused")}
	if rarely(t, "kubeconfig") {
		s.KubeconfigRejected, s.Insecure = drawWords(t, "refused"), drawWords(t, "insecure")
	}
	if rarely(t, "unseen") {
		s.UnlistableRequests = drawWords(t, "unseen requests")
		s.ForbiddenChecks = drawWords(t, "forbidden checks")
		s.OtherChecks = rapid.SampledFrom([]int{0, 1, MaxChecks - 1, MaxChecks}).Draw(t, "other checks")
		s.UnreadableOwners = []string{drawWords(t, "unreadable owner")}
	}
	if rarely(t, "unread") {
		s.Reading.Nodes = rapid.IntRange(1, 4).Draw(t, "nodes")
		s.Reading.Failed, s.Reading.Why = rapid.IntRange(1, s.Reading.Nodes).Draw(t, "unread nodes"), drawWords(t, "why")
		s.Reading.WrongCluster = rarely(t, "no known node")
		s.Reading.NotOfMachine = slices.Repeat([]string{"n" + drawWords(t, "node")}, rapid.IntRange(0, 2).Draw(t, "other servers"))
	}
	if rarely(t, "unconnected") {
		s.Reading.ConnectionError = drawWords(t, "unconnected because")
	}
	for range max(0, rapid.IntRange(-6, 12).Draw(t, "troubles")) {
		s.Templates = append(s.Templates, TemplateProblem{
			Reason:   some(t, "trouble", "Forbidden", "TemplateNotFound"),
			Template: drawWords(t, "template"), Detail: drawWords(t, "detail"), ClusterRole: drawWords(t, "role"),
		})
	}
	return s
}
