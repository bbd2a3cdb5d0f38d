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

func TestEvaluate_Facts_GiveVerdict(t *testing.T) {
	tests := []struct {
		why     string
		target  Target
		cluster func(*ClusterFacts)
		policy  func(*Policy)
		kind    Kind
		reason  Reason
		since   time.Time
		until   time.Time
	}{
		{why: "a ready Node is healthy", target: machine(), kind: Healthy},
		{why: "a bare ready Node is healthy", target: bareNode(), kind: Healthy},

		// Gates, in their order.
		{
			why:    "a paused Machine is no target, whatever else is true",
			target: machine(with(func(t *Target) { t.Annotations = Annotations{Paused: true, Remediate: true} })), kind: Skipped, reason: Paused,
		},
		{
			why:    "nor is one with skip-remediation, even with remediate-machine",
			target: machine(with(func(t *Target) { t.Annotations = Annotations{SkipRemediation: true, Remediate: true} })), kind: Skipped,
			reason: SkipRemediation,
		},
		{
			why:    "paused comes before left alone",
			target: machine(with(func(t *Target) { t.Annotations = Annotations{Paused: true, SkipRemediation: true} })), kind: Skipped, reason: Paused,
		},
		{
			why: "a person's request waits for nothing", target: machine(with(func(t *Target) { t.Annotations.Remediate = true }), state(Unreadable)),
			cluster: func(c *ClusterFacts) { *c = ClusterFacts{ReconnectingUntil: ago(-time.Minute)} }, kind: Unhealthy, reason: HasRemediateAnnotation,
		},
		{
			why: "a Machine that has given up does not wait either (003: if the FailureReason is set, at once)", target: machine(with(func(t *Target) { t.Machine.Failure = "CreateError" }), state(NotJoined)),
			cluster: func(c *ClusterFacts) { *c = ClusterFacts{} }, policy: func(p *Policy) { p.NodeStartupTimeout = 0 }, kind: Unhealthy, reason: MachineFailed,
		},
		{
			why: "after a reconnect an unhealthy Node has no verdict", target: machine(nodeIs("Ready", "Unknown", time.Hour)),
			cluster: func(c *ClusterFacts) { c.ReconnectingUntil = ago(-50 * time.Second) }, kind: Undetermined, reason: ReconnectGracePeriod, until: ago(-50 * time.Second),
		},
		{
			why: "until its time is over, to the moment", target: machine(nodeIs("Ready", "Unknown", time.Hour)),
			cluster: func(c *ClusterFacts) { c.ReconnectingUntil = noon }, kind: Unhealthy, reason: UnhealthyNode, since: ago(time.Hour),
		},
		{
			why: "a worker cannot have joined what is not there", target: machine(state(NotJoined), created(time.Hour)),
			cluster: func(c *ClusterFacts) { c.ControlPlaneInitialized = Milestone{} }, kind: Undetermined, reason: ControlPlaneNotInitialized,
		},
		{
			why: "a Machine of the control plane has to come first, and is judged", target: machine(state(NotJoined), created(time.Hour), with(func(t *Target) { t.Machine.ControlPlane, t.Machine.InfrastructureReady = true, Milestone{} })),
			cluster: func(c *ClusterFacts) {
				c.ControlPlaneInitialized, c.InfrastructureReady.Since = Milestone{}, ago(time.Hour)
			}, kind: Unhealthy, reason: NodeStartupTimeout, since: ago(time.Hour),
		},
		{
			why: "no Machine is blamed for the cluster's infrastructure: with a Node it is healthy", target: machine(nodeIs("Ready", "False", time.Hour)),
			cluster: func(c *ClusterFacts) { c.InfrastructureReady.Reached = false }, kind: Healthy, reason: InfrastructureNotReady,
		},
		{
			why: "and without one there is no verdict", target: machine(state(NotJoined), created(time.Hour)),
			cluster: func(c *ClusterFacts) { c.InfrastructureReady.Reached = false }, kind: Undetermined, reason: InfrastructureNotReady,
		},

		// Conditions of the Node.
		{
			why:    "unknown for as long as the timeout, to the moment: deadlines are inclusive",
			target: machine(nodeIs("Ready", "Unknown", 5*time.Minute)), kind: Unhealthy, reason: UnhealthyNode, since: ago(5 * time.Minute),
		},
		{
			why: "a moment less is not enough", target: machine(nodeIs("Ready", "Unknown", 5*time.Minute-time.Nanosecond)), kind: Suspect,
			reason: UnhealthyNode, since: ago(5*time.Minute - time.Nanosecond), until: ago(-time.Nanosecond),
		},
		{
			why: "a bare Node is judged by the same rule", target: bareNode(nodeIs("Ready", "False", 300*time.Second)), kind: Unhealthy,
			reason: UnhealthyNode, since: ago(300 * time.Second),
		},
		{
			why: "a condition that the Node does not have is no match", target: machine(with(func(t *Target) { t.Node.Conditions = nil })),
			kind: Healthy,
		},
		{why: "another status is no match", target: machine(nodeIs("Ready", "True", 24*time.Hour)), kind: Healthy},
		{
			why: "with a timeout of 0 it counts at once", target: machine(nodeIs("Ready", "False", 0)),
			policy: func(p *Policy) { p.NodeConditions[1].Lasting = 0 }, kind: Unhealthy, reason: UnhealthyNode, since: noon,
		},
		{
			why: "a transition in the future has not lasted yet", target: machine(nodeIs("Ready", "False", -time.Minute)), kind: Suspect,
			reason: UnhealthyNode, since: ago(-time.Minute), until: ago(-6 * time.Minute),
		},
		{
			why: "a negative timeout is none", target: machine(nodeIs("Ready", "False", -time.Minute)),
			policy: func(p *Policy) { p.NodeConditions[1].Lasting = -time.Hour }, kind: Suspect, reason: UnhealthyNode, since: ago(-time.Minute),
			until: ago(-time.Minute),
		},
		{why: "a transition without a time was not before its object", target: machine(with(func(t *Target) {
			t.Node.CreatedAt, t.Node.Conditions = ago(time.Minute), []corev1.NodeCondition{{Type: "Ready", Status: "False"}}
		})), kind: Suspect, reason: UnhealthyNode, since: ago(time.Minute), until: ago(-4 * time.Minute)},

		{
			why: "a transition before the object was created has an unknown time", target: machine(nodeIs("Ready", "False", 3*time.Hour)),
			kind: Unhealthy, reason: UnhealthyNode, since: ago(2 * time.Hour),
		},

		// Conditions of the Machine.
		{
			why: "a condition of the Machine counts as those of the Node do", target: machine(infrastructureNotReadyFor(time.Hour)),
			kind: Unhealthy, reason: UnhealthyMachine, since: ago(time.Hour),
		},
		{
			why: "also where the Node cannot be read", target: machine(infrastructureNotReadyFor(time.Hour), state(Unreadable)), kind: Unhealthy,
			reason: UnhealthyMachine, since: ago(time.Hour),
		},
		{
			why: "and is suspect before", target: machine(infrastructureNotReadyFor(50*time.Minute), state(Unreadable)), kind: Suspect,
			reason: UnhealthyMachine, since: ago(50 * time.Minute), until: ago(-10 * time.Minute),
		},
		{
			why:    "what is met outweighs what is only due, and the first rule gives the reason",
			target: machine(infrastructureNotReadyFor(time.Minute), nodeIs("Ready", "False", time.Hour)), kind: Unhealthy, reason: UnhealthyNode,
			since: ago(time.Hour), until: ago(-59 * time.Minute),
		},
		{
			why:    "with two causes the trouble began with the older one",
			target: machine(infrastructureNotReadyFor(time.Hour), nodeIs("Ready", "False", 2*time.Hour)), kind: Unhealthy,
			reason: UnhealthyMachine, since: ago(2 * time.Hour),
		},
		{
			why:    "of two things that are due, the earlier decides when",
			target: machine(infrastructureNotReadyFor(50*time.Minute), nodeIs("Ready", "False", time.Minute)), kind: Suspect,
			reason: UnhealthyMachine, since: ago(50 * time.Minute), until: ago(-4 * time.Minute),
		},

		{
			why: "whichever rule it comes from", target: machine(infrastructureNotReadyFor(58*time.Minute), nodeIs("Ready", "False", time.Minute)),
			kind: Suspect, reason: UnhealthyMachine, since: ago(58 * time.Minute), until: ago(-2 * time.Minute),
		},

		// The Node does not exist.
		{
			why: "a missing Node counts at once (003: considered unhealthy immediately)", target: machine(state(Gone)), kind: Unhealthy,
			reason: NodeDeleted, since: noon,
		},
		{
			why: "or after its time", target: machine(state(Gone), with(func(t *Target) { t.Machine.NodeGoneSince = ago(time.Minute) })),
			policy: func(p *Policy) { p.NodeGoneTimeout = 5 * time.Minute }, kind: Suspect, reason: NodeDeleted, since: ago(time.Minute),
			until: ago(-4 * time.Minute),
		},
		{
			why: "to the moment", target: machine(state(Gone), with(func(t *Target) { t.Machine.NodeGoneSince = ago(5 * time.Minute) })),
			policy: func(p *Policy) { p.NodeGoneTimeout = 5 * time.Minute }, kind: Unhealthy, reason: NodeDeleted, since: ago(5 * time.Minute),
		},
		{
			why:    "a note from a clock that was ahead delays nothing",
			target: machine(state(Gone), with(func(t *Target) { t.Machine.NodeGoneSince = ago(-time.Hour) })), kind: Unhealthy,
			reason: NodeDeleted, since: noon,
		},
		{
			why:    "a Node of the same name with another provider ID is not its Node",
			target: machine(with(func(t *Target) { t.Node.ProviderID = "x://2" })), kind: Unhealthy, reason: NodeDeleted, since: noon,
		},
		{
			why: "where one of them has no provider ID nothing is compared", target: machine(with(func(t *Target) { t.Node.ProviderID = "" })),
			kind: Healthy,
		},
		{why: "a Node that cannot be read is not gone", target: machine(state(Unreadable)), kind: Undetermined, reason: NodeUnreadable},
		{
			why: "not even if it was bad when it was last seen", target: machine(state(Unreadable), nodeIs("Ready", "Unknown", 24*time.Hour)),
			kind: Undetermined, reason: NodeUnreadable,
		},

		// The Node has not come.
		{
			why:    "a Node has its time to join",
			target: machine(state(NotJoined), created(4*time.Minute), with(func(t *Target) { t.Machine.InfrastructureReady = Milestone{} })),
			kind:   Suspect, reason: NodeStartupTimeout, since: ago(4 * time.Minute), until: ago(-6 * time.Minute),
		},
		{
			why:    "after which the Machine is unhealthy",
			target: machine(state(NotJoined), created(10*time.Minute), with(func(t *Target) { t.Machine.InfrastructureReady = Milestone{} })),
			kind:   Unhealthy, reason: NodeStartupTimeout, since: ago(10 * time.Minute),
		},
		{
			why:    "the time runs from the last thing it had to wait for: its own infrastructure",
			target: machine(state(NotJoined), with(func(t *Target) { t.Machine.InfrastructureReady.Since = ago(time.Minute) })), kind: Suspect,
			reason: NodeStartupTimeout, since: ago(time.Minute), until: ago(-9 * time.Minute),
		},
		{
			why: "the infrastructure of the cluster", target: machine(state(NotJoined)),
			cluster: func(c *ClusterFacts) { c.InfrastructureReady.Since = ago(time.Minute) }, kind: Suspect, reason: NodeStartupTimeout,
			since: ago(time.Minute), until: ago(-9 * time.Minute),
		},
		{
			why: "or the control plane", target: machine(state(NotJoined)),
			cluster: func(c *ClusterFacts) { c.ControlPlaneInitialized.Since = ago(time.Minute) }, kind: Suspect, reason: NodeStartupTimeout,
			since: ago(time.Minute), until: ago(-9 * time.Minute),
		},
		{
			why:    "what was reached once and is not any more plays no role",
			target: machine(state(NotJoined), with(func(t *Target) { t.Machine.InfrastructureReady = Milestone{false, ago(time.Minute)} })),
			kind:   Unhealthy, reason: NodeStartupTimeout, since: ago(2 * time.Hour),
		},
		{
			why:    "a timeout of 0 is none (003: set to 0 to disable the node startup timeout)",
			target: machine(state(NotJoined), created(1000*time.Hour)), policy: func(p *Policy) { p.NodeStartupTimeout = 0 }, kind: Undetermined,
			reason: NodeNotJoined,
		},
		{
			why: "in an unreachable cluster the startup timeout does not count", target: machine(state(Unreadable), created(1000*time.Hour)),
			kind: Undetermined, reason: NodeUnreadable,
		},

		{
			why: "a Machine that is being deleted is not healthy", target: machine(with(func(t *Target) { t.Machine.Deleting = true })),
			kind: Undetermined, reason: Deleting,
		},
		{
			why: "also not while the infrastructure is in trouble", target: machine(with(func(t *Target) { t.Machine.Deleting = true })),
			cluster: func(c *ClusterFacts) { c.InfrastructureReady.Reached = false }, kind: Undetermined, reason: InfrastructureNotReady,
		},
		{
			why: "and can be unhealthy", target: machine(with(func(t *Target) { t.Machine.Deleting = true }), nodeIs("Ready", "False", time.Hour)),
			kind: Unhealthy, reason: UnhealthyNode, since: ago(time.Hour),
		},
	}
	for _, test := range tests {
		t.Run(test.why, func(t *testing.T) {
			g := NewWithT(t)
			cluster, policy := up(), usual
			policy.NodeConditions = append([]ConditionCheck{}, usual.NodeConditions...)
			if test.cluster != nil {
				test.cluster(&cluster)
			}
			if test.policy != nil {
				test.policy(&policy)
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
