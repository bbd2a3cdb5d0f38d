// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rule is one cause for a target to be unhealthy. It appends to the findings, and does not depend on other rules or gates.
type rule struct {
	reason Reason
	find   func(all []Finding, t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding
}

// rules all run, in this order. The first that is met determines the reason of the verdict.
var rules = [...]rule{
	{HasRemediateAnnotation, ruleHasRemediateAnnotation}, // an annotation requests it
	{MachineFailed, ruleMachineFailed},                   // the Machine has failed
	{UnhealthyMachine, ruleUnhealthyMachine},             // a condition of the Machine has lasted too long
	{NodeDeleted, ruleNodeDeleted},                       // its Node no longer exists
	{NodeStartupTimeout, ruleNodeStartupTimeout},         // its Node has not joined
	{UnhealthyNode, ruleUnhealthyNode},                   // a condition of the Node has lasted too long
}

// Rules are the reasons of the rules, in order.
func Rules() []Reason {
	names := make([]Reason, len(rules))
	for i := range rules {
		names[i] = rules[i].reason
	}
	return names
}

// HasRemediateAnnotation means: the Machine has the annotation cluster.x-k8s.io/remediate-machine, or the Node that of Remedy.
const HasRemediateAnnotation Reason = "HasRemediateAnnotation"

func ruleHasRemediateAnnotation(all []Finding, t *Target, _ *ClusterFacts, _ *Policy, _ time.Time) []Finding {
	if !t.Annotations.Remediate {
		return all
	}
	return append(all, Finding{Rule: HasRemediateAnnotation, Met: true, OnNode: t.Machine == nil})
}

// MachineFailed means: failureReason or failureMessage of the Machine is set.
const MachineFailed Reason = "MachineFailed"

func ruleMachineFailed(all []Finding, t *Target, _ *ClusterFacts, _ *Policy, _ time.Time) []Finding {
	if t.Machine == nil || t.Machine.Failure == "" {
		return all
	}
	return append(all, Finding{Rule: MachineFailed, Met: true, Cause: t.Machine.Failure})
}

// UnhealthyMachine means: a condition of the Machine has had an unhealthy status for its timeout.
const UnhealthyMachine Reason = "UnhealthyMachine"

func ruleUnhealthyMachine(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.Machine == nil {
		return all
	}
	for i := range p.MachineConditions {
		check := &p.MachineConditions[i]
		condition := machineCondition(t.Machine.Conditions, check.Type)
		if condition == nil || string(condition.Status) != check.Status || unverified(condition, t.nodeState()) {
			continue
		}
		f := Finding{Rule: UnhealthyMachine, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		// A move creates the Machine again, with its conditions.
		since := began(condition.LastTransitionTime.Time, t.Machine.CreatedAt, t.Machine.CreatedAt)
		if AboutNode(check.Type) {
			// Cluster API copies the time of the Node, which is a claim.
			since = Latest(since, t.notReadySince())
		}
		all = append(all, deadline(f, since, check.Lasting, now))
	}
	return all
}

// AboutNode reports whether a condition of a Machine only repeats the status of its Node.
func AboutNode(kind string) bool {
	return kind == "NodeReady" || kind == "NodeHealthy"
}

// notReadySince is since when the Node is not Ready by what was read of it; zero if that agrees with the time that its writer claims.
func (t *Target) notReadySince() time.Time {
	for i := range t.Node.Conditions {
		c := &t.Node.Conditions[i]
		if t.nodeState() == Present && c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && !c.LastHeartbeatTime.IsZero() {
			return KnownTime(c.LastTransitionTime.Time, time.Time{})
		}
	}
	return time.Time{}
}

// unverified reports whether a condition was set without a connection to the cluster, or is about a Node that cannot be read. Cluster API
// sets such conditions on every Machine of a cluster that it cannot connect to, also if all Nodes are healthy. Those of control planes are
// also about etcd and other Pods.
func unverified(condition *metav1.Condition, node NodeState) bool {
	unknown := condition.Status == metav1.ConditionUnknown
	if !AboutNode(condition.Type) {
		return unknown && condition.Reason == connectionDown
	}
	switch condition.Reason {
	case connectionDown, "InspectionFailed", "InternalError":
		return unknown
	}
	return node == Unreadable
}

// connectionDown is the reason of conditions that Cluster API sets without a connection to the cluster.
const connectionDown = "ConnectionDown"

func machineCondition(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// NodeDeleted means: the Node of the Machine existed and no longer exists.
const NodeDeleted Reason = "NodeDeleted"

func ruleNodeDeleted(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.nodeState() != Gone {
		return all
	}
	f := Finding{Rule: NodeDeleted}
	if t.Node.State == Present {
		// A Node of that name exists, but it is another server.
		f.Cause = t.Node.ProviderID
	}
	return append(all, deadline(f, t.goneSince(now), p.NodeGoneTimeout, now))
}

// goneSince is since when the Node of the Machine no longer exists. The recorded time is kept until the Node is read again.
func (t *Target) goneSince(now time.Time) time.Time {
	var recorded time.Time
	if t.Machine != nil {
		recorded = t.Machine.NodeGoneSince
	}
	switch t.nodeState() {
	case Present:
		return time.Time{}
	case Gone:
		// It was not recorded yet, or by a clock that was ahead.
		if recorded.IsZero() || recorded.After(now) {
			return now
		}
	case Unreadable, NotJoined:
	}
	return recorded
}

// NodeStartupTimeout means: the Node of the Machine has not joined in time.
const NodeStartupTimeout Reason = "NodeStartupTimeout"

// The time starts with the last of: its creation, the control plane, the infrastructure of the cluster, and its own infrastructure.
func ruleNodeStartupTimeout(all []Finding, t *Target, c *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.Machine == nil || t.nodeState() != NotJoined || p.NodeStartupTimeout <= 0 {
		return all
	}
	since := t.Machine.CreatedAt
	for _, m := range [...]Milestone{c.ControlPlaneInitialized, c.InfrastructureReady, t.Machine.InfrastructureReady} {
		if m.Reached {
			since = Latest(since, m.Since)
		}
	}
	return append(all, deadline(Finding{Rule: NodeStartupTimeout}, since, p.NodeStartupTimeout, now))
}

// UnhealthyNode means: a condition of the Node has had an unhealthy status for its timeout.
const UnhealthyNode Reason = "UnhealthyNode"

func ruleUnhealthyNode(all []Finding, t *Target, _ *ClusterFacts, p *Policy, now time.Time) []Finding {
	if t.nodeState() != Present {
		return all
	}
	for i := range p.NodeConditions {
		check := &p.NodeConditions[i]
		condition := nodeCondition(t.Node.Conditions, check.Type)
		if condition == nil || string(condition.Status) != check.Status {
			continue
		}
		f := Finding{Rule: UnhealthyNode, Condition: check.Type, Status: check.Status, Cause: condition.Reason}
		// As in-tree, a condition can be older than its Node.
		since := began(condition.LastTransitionTime.Time, time.Time{}, t.Node.CreatedAt)
		f.Claimed = KnownTime(condition.LastHeartbeatTime.Time, time.Time{})
		all = append(all, deadline(f, since, check.Lasting, now))
	}
	return all
}

func nodeCondition(conditions []corev1.NodeCondition, kind string) *corev1.NodeCondition {
	for i := range conditions {
		if string(conditions[i].Type) == kind {
			return &conditions[i]
		}
	}
	return nil
}
