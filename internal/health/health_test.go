// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noon is now in every test. All other times are relative to it.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

// usual is the policy of the tables: the conditions of the proposals, and round times.
var usual = Policy{
	NodeConditions:     []ConditionCheck{{"Ready", "Unknown", 5 * time.Minute}, {"Ready", "False", 5 * time.Minute}},
	MachineConditions:  []ConditionCheck{{"InfrastructureReady", "False", time.Hour}},
	NodeStartupTimeout: 10 * time.Minute,
}

func up() ClusterFacts {
	return ClusterFacts{ControlPlaneInitialized: Milestone{true, ago(24 * time.Hour)}, InfrastructureReady: Milestone{true, ago(24 * time.Hour)}}
}

type option func(*Target)

func machine(options ...option) Target {
	t := Target{Name: "machine-1", Machine: &MachineFacts{CreatedAt: ago(2 * time.Hour), ProviderID: "x://1", InfrastructureReady: Milestone{true, ago(2 * time.Hour)}}}
	t.Node = NodeFacts{State: Present, Name: "node-1", CreatedAt: ago(2 * time.Hour), ProviderID: "x://1"}
	nodeIs("Ready", "True", 2*time.Hour)(&t)
	for _, o := range options {
		o(&t)
	}
	return t
}

func bareNode(options ...option) Target {
	t := machine(options...)
	t.Name, t.Machine = t.Node.Name, nil
	return t
}

func nodeIs(kind, status string, lasting time.Duration) option {
	return func(t *Target) {
		t.Node.Conditions = append([]corev1.NodeCondition{{
			Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), Reason: "Because", LastTransitionTime: metav1.NewTime(ago(lasting)),
		}}, t.Node.Conditions...)
	}
}

func infrastructureNotReadyFor(lasting time.Duration) option {
	return func(t *Target) {
		t.Machine.Conditions = append(t.Machine.Conditions, metav1.Condition{
			Type: "InfrastructureReady", Status: metav1.ConditionFalse, Reason: "Because", LastTransitionTime: metav1.NewTime(ago(lasting)),
		})
	}
}

func state(s NodeState) option           { return func(t *Target) { t.Node.State = s } }
func with(change func(*Target)) option   { return change }
func created(since time.Duration) option { return func(t *Target) { t.Machine.CreatedAt = ago(since) } }

func goneSince(at time.Time) option     { return func(t *Target) { t.Machine.NodeGoneSince = at } }
func annotated(a Annotations) option    { return func(t *Target) { t.Annotations = a } }
func deleting(t *Target)                { t.Machine.Deleting = true }
func infrastructure(m Milestone) option { return func(t *Target) { t.Machine.InfrastructureReady = m } }

// change is a change of the Cluster or of the policy of a row.
type change func(*ClusterFacts, *Policy)

func inCluster(of func(*ClusterFacts)) change { return func(c *ClusterFacts, _ *Policy) { of(c) } }
func withPolicy(of func(*Policy)) change      { return func(_ *ClusterFacts, p *Policy) { of(p) } }

// never is no time.
var never time.Time

// row is a target, and its verdict.
type row struct {
	why          string
	target       Target
	kind         Kind
	reason       Reason
	since, until time.Time
	changes      []change
}

func evaluates(why string, target Target, kind Kind, reason Reason, since, until time.Time, changes ...change) row {
	return row{why, target, kind, reason, since, until, changes}
}

func TestEvaluate_Facts_GiveVerdict(t *testing.T) {
	tests := []row{
		evaluates("a ready Node is healthy", machine(), Healthy, "", never, never),
		evaluates("a bare ready Node is healthy", bareNode(), Healthy, "", never, never),

		// Gates, in their order.
		evaluates("a paused Machine is no target, whatever else is true", machine(annotated(Annotations{Paused: true, Remediate: true})),
			Skipped, Paused, never, never),
		evaluates("nor is one with skip-remediation, even with remediate-machine",
			machine(annotated(Annotations{SkipRemediation: true, Remediate: true})), Skipped, SkipRemediation, never, never),
		evaluates("paused comes before left alone", machine(annotated(Annotations{Paused: true, SkipRemediation: true})), Skipped, Paused,
			never, never),
		evaluates("a person's request waits for nothing", machine(with(func(t *Target) { t.Annotations.Remediate = true }), state(Unreadable)),
			Unhealthy, HasRemediateAnnotation, never, never,
			inCluster(func(c *ClusterFacts) { *c = ClusterFacts{ReconnectingUntil: ago(-time.Minute)} })),
		evaluates("a Machine that has given up does not wait either (003: if the FailureReason is set, at once)",
			machine(with(func(t *Target) { t.Machine.Failure = "CreateError" }), state(NotJoined)), Unhealthy, MachineFailed, never, never,
			inCluster(func(c *ClusterFacts) { *c = ClusterFacts{} }), withPolicy(func(p *Policy) { p.NodeStartupTimeout = 0 })),
		evaluates("after a reconnect an unhealthy Node has no verdict", machine(nodeIs("Ready", "Unknown", time.Hour)), Undetermined,
			ReconnectGracePeriod, never, ago(-50*time.Second), inCluster(func(c *ClusterFacts) { c.ReconnectingUntil = ago(-50 * time.Second) })),
		evaluates("until its time is over, to the moment", machine(nodeIs("Ready", "Unknown", time.Hour)), Unhealthy, UnhealthyNode,
			ago(time.Hour), never, inCluster(func(c *ClusterFacts) { c.ReconnectingUntil = noon })),
		evaluates("a worker cannot have joined what is not there", machine(state(NotJoined), created(time.Hour)), Undetermined,
			ControlPlaneNotInitialized, never, never, inCluster(func(c *ClusterFacts) { c.ControlPlaneInitialized = Milestone{} })),
		evaluates("a Machine of the control plane has to come first, and is judged",
			machine(state(NotJoined), created(time.Hour), with(func(t *Target) { t.Machine.ControlPlane, t.Machine.InfrastructureReady = true, Milestone{} })),
			Unhealthy, NodeStartupTimeout, ago(time.Hour), never,
			inCluster(func(c *ClusterFacts) {
				c.ControlPlaneInitialized, c.InfrastructureReady.Since = Milestone{}, ago(time.Hour)
			})),
		evaluates("no Machine is blamed for the cluster's infrastructure: with a Node it is healthy",
			machine(nodeIs("Ready", "False", time.Hour)), Healthy, InfrastructureNotReady, never, never,
			inCluster(func(c *ClusterFacts) { c.InfrastructureReady.Reached = false })),
		evaluates("and without one there is no verdict", machine(state(NotJoined), created(time.Hour)), Undetermined, InfrastructureNotReady,
			never, never, inCluster(func(c *ClusterFacts) { c.InfrastructureReady.Reached = false })),

		// Conditions of the Node.
		evaluates("unknown for as long as the timeout, to the moment: deadlines are inclusive",
			machine(nodeIs("Ready", "Unknown", 5*time.Minute)), Unhealthy, UnhealthyNode, ago(5*time.Minute), never),
		evaluates("a moment less is not enough", machine(nodeIs("Ready", "Unknown", 5*time.Minute-time.Nanosecond)), Suspect, UnhealthyNode,
			ago(5*time.Minute-time.Nanosecond), ago(-time.Nanosecond)),
		evaluates("a bare Node is judged by the same rule", bareNode(nodeIs("Ready", "False", 300*time.Second)), Unhealthy, UnhealthyNode,
			ago(300*time.Second), never),
		evaluates("a condition that the Node does not have is no match", machine(with(func(t *Target) { t.Node.Conditions = nil })), Healthy, "",
			never, never),
		evaluates("another status is no match", machine(nodeIs("Ready", "True", 24*time.Hour)), Healthy, "", never, never),
		evaluates("with a timeout of 0 it counts at once", machine(nodeIs("Ready", "False", 0)), Unhealthy, UnhealthyNode, noon, never,
			withPolicy(func(p *Policy) { p.NodeConditions[1].Lasting = 0 })),
		evaluates("a transition in the future has not lasted yet", machine(nodeIs("Ready", "False", -time.Minute)), Suspect, UnhealthyNode,
			ago(-time.Minute), ago(-6*time.Minute)),
		evaluates("a negative timeout is none", machine(nodeIs("Ready", "False", -time.Minute)), Suspect, UnhealthyNode, ago(-time.Minute),
			ago(-time.Minute), withPolicy(func(p *Policy) { p.NodeConditions[1].Lasting = -time.Hour })),
		evaluates("a transition without a time was not before its object",
			machine(with(func(t *Target) {
				t.Node.CreatedAt, t.Node.Conditions = ago(time.Minute), []corev1.NodeCondition{{Type: "Ready", Status: "False"}}
			})),
			Suspect, UnhealthyNode, ago(time.Minute), ago(-4*time.Minute)),

		evaluates("a condition of a Node can be older than the Node",
			machine(nodeIs("Ready", "False", 3*time.Hour)), Unhealthy, UnhealthyNode, ago(3*time.Hour), never),

		// Conditions of the Machine.
		evaluates("a condition of the Machine counts as those of the Node do", machine(infrastructureNotReadyFor(time.Hour)), Unhealthy,
			UnhealthyMachine, ago(time.Hour), never),
		evaluates("but not from before the Machine was created, because a move creates it again", machine(infrastructureNotReadyFor(3*time.Hour)),
			Unhealthy, UnhealthyMachine, ago(2*time.Hour), never),
		evaluates("also where the Node cannot be read", machine(infrastructureNotReadyFor(time.Hour), state(Unreadable)), Unhealthy,
			UnhealthyMachine, ago(time.Hour), never),
		evaluates("and is suspect before", machine(infrastructureNotReadyFor(50*time.Minute), state(Unreadable)), Suspect, UnhealthyMachine,
			ago(50*time.Minute), ago(-10*time.Minute)),
		evaluates("what is met outweighs what is only due, and the first rule gives the reason",
			machine(infrastructureNotReadyFor(time.Minute), nodeIs("Ready", "False", time.Hour)), Unhealthy, UnhealthyNode, ago(time.Hour),
			ago(-59*time.Minute)),
		evaluates("with two causes the trouble began with the older one",
			machine(infrastructureNotReadyFor(time.Hour), nodeIs("Ready", "False", 2*time.Hour)), Unhealthy, UnhealthyMachine, ago(2*time.Hour),
			never),
		evaluates("of two things that are due, the earlier decides when",
			machine(infrastructureNotReadyFor(50*time.Minute), nodeIs("Ready", "False", time.Minute)), Suspect, UnhealthyMachine,
			ago(50*time.Minute), ago(-4*time.Minute)),

		evaluates("whichever rule it comes from", machine(infrastructureNotReadyFor(58*time.Minute), nodeIs("Ready", "False", time.Minute)),
			Suspect, UnhealthyMachine, ago(58*time.Minute), ago(-2*time.Minute)),

		// The Node does not exist.
		evaluates("a missing Node counts at once (003: considered unhealthy immediately)", machine(state(Gone)), Unhealthy, NodeDeleted, noon,
			never),
		evaluates("or after its time", machine(state(Gone), goneSince(ago(time.Minute))), Suspect, NodeDeleted, ago(time.Minute),
			ago(-4*time.Minute), withPolicy(func(p *Policy) { p.NodeGoneTimeout = 5 * time.Minute })),
		evaluates("to the moment", machine(state(Gone), goneSince(ago(5*time.Minute))), Unhealthy, NodeDeleted, ago(5*time.Minute), never,
			withPolicy(func(p *Policy) { p.NodeGoneTimeout = 5 * time.Minute })),
		evaluates("a note from a clock that was ahead delays nothing", machine(state(Gone), goneSince(ago(-time.Hour))), Unhealthy,
			NodeDeleted, noon, never),
		evaluates("a Node of the same name with another provider ID is not its Node",
			machine(with(func(t *Target) { t.Node.ProviderID = "x://2" })), Unhealthy, NodeDeleted, noon, never),
		evaluates("where one of them has no provider ID nothing is compared", machine(with(func(t *Target) { t.Node.ProviderID = "" })), Healthy,
			"", never, never),
		evaluates("a Node that cannot be read is not gone", machine(state(Unreadable)), Undetermined, NodeUnreadable, never, never),
		evaluates("not even if it was bad when it was last seen", machine(state(Unreadable), nodeIs("Ready", "Unknown", 24*time.Hour)),
			Undetermined, NodeUnreadable, never, never),

		// The Node has not come.
		evaluates("a Node has its time to join", machine(state(NotJoined), created(4*time.Minute), infrastructure(Milestone{})), Suspect,
			NodeStartupTimeout, ago(4*time.Minute), ago(-6*time.Minute)),
		evaluates("after which the Machine is unhealthy", machine(state(NotJoined), created(10*time.Minute), infrastructure(Milestone{})),
			Unhealthy, NodeStartupTimeout, ago(10*time.Minute), never),
		evaluates("the time runs from the last thing it had to wait for: its own infrastructure",
			machine(state(NotJoined), with(func(t *Target) { t.Machine.InfrastructureReady.Since = ago(time.Minute) })), Suspect, NodeStartupTimeout,
			ago(time.Minute), ago(-9*time.Minute)),
		evaluates("the infrastructure of the cluster", machine(state(NotJoined)), Suspect, NodeStartupTimeout, ago(time.Minute),
			ago(-9*time.Minute), inCluster(func(c *ClusterFacts) { c.InfrastructureReady.Since = ago(time.Minute) })),
		evaluates("or the control plane", machine(state(NotJoined)), Suspect, NodeStartupTimeout, ago(time.Minute), ago(-9*time.Minute),
			inCluster(func(c *ClusterFacts) { c.ControlPlaneInitialized.Since = ago(time.Minute) })),
		evaluates("what was reached once and is not any more plays no role",
			machine(state(NotJoined), infrastructure(Milestone{false, ago(time.Minute)})), Unhealthy, NodeStartupTimeout, ago(2*time.Hour),
			never),
		evaluates("a timeout of 0 is none (003: set to 0 to disable the node startup timeout)",
			machine(state(NotJoined), created(1000*time.Hour)), Undetermined, NodeNotJoined, never, never,
			withPolicy(func(p *Policy) { p.NodeStartupTimeout = 0 })),
		evaluates("in an unreachable cluster the startup timeout does not count", machine(state(Unreadable), created(1000*time.Hour)),
			Undetermined, NodeUnreadable, never, never),

		evaluates("a Machine that is being deleted is not healthy", machine(deleting), Undetermined, Deleting, never, never),
		evaluates("also not while the infrastructure is in trouble", machine(deleting), Undetermined, InfrastructureNotReady, never, never,
			inCluster(func(c *ClusterFacts) { c.InfrastructureReady.Reached = false })),
		evaluates("and can be unhealthy", machine(deleting, nodeIs("Ready", "False", time.Hour)), Unhealthy, UnhealthyNode, ago(time.Hour),
			never),
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			cluster, policy := up(), usual
			policy.NodeConditions = append([]ConditionCheck{}, usual.NodeConditions...)
			for _, change := range test.changes {
				change(&cluster, &policy)
			}
			got := Evaluate(&Snapshot{Cluster: cluster, Targets: []Target{test.target}}, &policy, noon)
			g.Expect(got.Verdicts).To(HaveLen(1))
			v := got.Verdicts[0]
			g.Expect([]any{v.Kind, v.Reason, v.Since, v.Until}).To(Equal([]any{test.kind, test.reason, test.since, test.until}))
			g.Expect(got.WakeUp).To(Equal(test.until))
		})
	}
}

// Every rule is safe alone: it must not rely on a gate or on another rule having looked before.
func TestRulesAndGates_Alone_AreSafe(t *testing.T) {
	odd := []Target{
		{},
		{Machine: &MachineFacts{}},
		{Node: NodeFacts{State: Present}},
		{Node: NodeFacts{State: Gone}},
		{Node: NodeFacts{State: NotJoined}},
		{Machine: &MachineFacts{}, Node: NodeFacts{State: NotJoined}},
		{Machine: &MachineFacts{}, Node: NodeFacts{State: NodeState(99)}},
	}
	for i := range odd {
		for _, r := range rules {
			for _, f := range r.find(nil, &odd[i], &ClusterFacts{}, &usual, noon) {
				NewWithT(t).Expect(f.Rule).To(Equal(r.reason))
			}
		}
		for _, gate := range gates {
			_, _ = gate.match(&odd[i], &ClusterFacts{}, noon)
		}
	}
}

func TestEvaluate_SeveralCauses_AreAllReported(t *testing.T) {
	g := NewWithT(t)
	target := machine(with(func(t *Target) { t.Annotations.Remediate, t.Machine.Failure = true, "CreateError" }),
		infrastructureNotReadyFor(time.Minute), nodeIs("Ready", "False", time.Hour))
	got := Evaluate(&Snapshot{Cluster: up(), Targets: []Target{target}}, &usual, noon).Verdicts[0]
	told := make([]Reason, 0, len(got.Findings))
	for _, f := range got.Findings {
		told = append(told, f.Rule)
	}
	g.Expect(told).To(
		Equal([]Reason{HasRemediateAnnotation, MachineFailed, UnhealthyNode, UnhealthyMachine}), "what is met comes first, then what is due",
	)
	g.Expect(got.Findings[1].Cause).To(Equal("CreateError"))
	g.Expect(got.Findings[2]).To(Equal(Finding{
		Rule: UnhealthyNode, Met: true, Since: ago(time.Hour), Due: ago(55 * time.Minute), Lasting: 5 * time.Minute,
		Condition: "Ready", Status: "False", Cause: "Because",
	}))
}

func TestEvaluate_Counts_AddUp(t *testing.T) {
	g := NewWithT(t)
	targets := []Target{
		machine(), bareNode(), machine(nodeIs("Ready", "False", time.Minute)), machine(state(Gone)), machine(state(Unreadable)),
		machine(with(func(t *Target) { t.Annotations.Paused = true })),
	}
	got := Evaluate(&Snapshot{Cluster: up(), Targets: targets}, &usual, noon)
	g.Expect(got.Counts).To(Equal(Counts{Expected: 5, Healthy: 2, Suspect: 1, Unhealthy: 1, Undetermined: 1, Skipped: 1}))
	g.Expect(got.WakeUp).To(Equal(ago(-4 * time.Minute)))
	g.Expect(Evaluate(&Snapshot{}, &Policy{}, noon)).To(Equal(Assessment{Verdicts: []Verdict{}}))
}

func TestRecovered_OnlyFindings_Count(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&Verdict{Kind: Healthy}).Recovered()).To(BeTrue())
	g.Expect((&Verdict{Kind: Healthy, Reason: InfrastructureNotReady}).Recovered()).To(BeFalse())
	g.Expect((&Verdict{Kind: Suspect}).Recovered()).To(BeFalse())
}
