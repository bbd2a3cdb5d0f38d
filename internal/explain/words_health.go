// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// gateWords are in the order of the gates.
var gateWords = [...]gateWord{
	{health.Paused, meaning{
		"The target carries the annotation `cluster.x-k8s.io/paused`: it is no target as long as it does.",
		"The annotations of the Machine or the Node.",
		"Remove the annotation when the work on it is done.",
	}, func(*health.Verdict) string { return "It carries the annotation cluster.x-k8s.io/paused" }},
	{health.SkipRemediation, meaning{
		"The target carries the annotation `cluster.x-k8s.io/skip-remediation`: it is no target as long as it does.",
		"The annotations of the Machine or the Node.",
		"Remove the annotation when it may be remediated again.",
	}, func(*health.Verdict) string { return "It carries the annotation cluster.x-k8s.io/skip-remediation" }},
	{health.HasRemediateAnnotation, meaning{
		"A person asked for a remediation, and does not wait for the cluster to be ready: the gates below are not asked.",
		"The annotation `cluster.x-k8s.io/remediate-machine`.",
		"Nothing: the rule of the same name makes it unhealthy at once.",
	}, func(*health.Verdict) string { return "A person asked for a remediation" }},
	{health.MachineFailed, meaning{
		"The Machine has given up, and does not get better by waiting: the gates below are not asked.",
		"`failureReason` and `failureMessage` in the status of the Machine.",
		"Nothing: the rule of the same name makes it unhealthy at once.",
	}, func(*health.Verdict) string { return "The Machine has given up" }},
	{health.FirstLook, meaning{
		"The connection to the cluster was lost and is back: what was read may be old, so that Nodes and their controller speak first.",
		"When the connection came back.",
		"Nothing: it ends by itself within a minute.",
	}, func(v *health.Verdict) string {
		return "The connection to the cluster has just come back, and its Nodes speak first" + when("until", v.Until)
	}},
	{health.ControlPlaneNotInitialized, meaning{
		"There is no API server yet that a worker could have joined. Machines of the control plane itself are judged all the same.",
		"The condition `ControlPlaneInitialized` of the Cluster.",
		"Nothing while the cluster is being made. If it takes long, look at the Machines of its control plane.",
	}, func(*health.Verdict) string { return "The control plane of the cluster is not initialized" }},
	{health.InfrastructureNotReady, meaning{
		"The infrastructure of the cluster is not there yet, or is in trouble. No Machine is blamed for that: one whose Node is there counts as healthy.",
		"The condition `InfrastructureReady` of the Cluster, and whether the Node was read.",
		"Look at the infrastructure object that the Cluster names.",
	}, func(v *health.Verdict) string {
		if v.Kind == health.Healthy {
			return "The infrastructure of the cluster is not ready, and its Node is there: it counts as healthy"
		}
		return "The infrastructure of the cluster is not ready"
	}},
}

// ruleWords are in the order of the rules. Cluster API has words for most of them: people search for those.
var ruleWords = [...]ruleWord{
	{health.HasRemediateAnnotation, meaning{
		"A person asked for a remediation, by the annotation `cluster.x-k8s.io/remediate-machine`.",
		"The annotations of the Machine.",
		"Remove the annotation if it was put there by mistake.",
	}, manual, manual},
	{health.MachineFailed, meaning{
		"The Machine has given up: its `failureReason` or `failureMessage` is set.",
		"The status of the Machine.",
		"Read the message: as a rule the infrastructure provider could not make, or has lost, the server.",
	}, machineFailed, machineFailed},
	{health.UnhealthyMachine, meaning{
		"A condition of the Machine has had a bad status for too long.",
		"`unhealthyMachineConditions` of the check, and the conditions of the Machine.",
		"Look at that condition of the Machine. If it is no trouble, change `unhealthyMachineConditions`.",
	}, conditionMet("Machine"), conditionDue("Machine")},
	{health.NodeDeleted, meaning{
		"The Node of the Machine was there and is gone: a live API server says that it is not found, or there is another server under its name.",
		"The Node, by its name and its provider ID, and `nodeGoneTimeout` of the check.",
		"Find out who deleted the Node. If Nodes come back by themselves, set `nodeGoneTimeout`.",
	}, nodeDeleted, nodeGone},
	{health.NodeStartupTimeout, meaning{
		"The Node of the Machine has not joined in time.",
		"`nodeStartupTimeout` of the check; creation of the Machine; when control plane and infrastructure were ready.",
		"Look at the bootstrap of the Machine. If servers need longer to start, raise `nodeStartupTimeout`.",
	}, func(f *health.Finding, _ string) string {
		return fmt.Sprintf("Node failed to report startup in %s", f.Lasting)
	}, nodeNotJoined},
	{health.UnhealthyNode, meaning{
		"A condition of the Node has had a bad status for too long.",
		"`unhealthyConditions` of the check, and the conditions of the Node.",
		"Look at that condition of the Node. If it is no trouble, change `unhealthyConditions`.",
	}, conditionMet("Node"), conditionDue("Node")},
}

// unknownWords are for targets that no gate and no rule speaks of, and which are not known to be healthy.
var unknownWords = [...]gateWord{
	{health.Deleting, meaning{
		"The Machine is on its way out.", "The deletion timestamp of the Machine.", "Nothing: it goes. If it does not, see StuckDeleting.",
	}, func(*health.Verdict) string { return "The Machine is being deleted" }},
	{health.NodeNotJoined, meaning{
		"The Machine has no Node yet, and may take as long as it likes.", "The Node of the Machine, with `nodeStartupTimeout: 0s`.",
		"Nothing, or set `nodeStartupTimeout`.",
	}, func(*health.Verdict) string { return "The Machine has no Node yet" }},
	{health.NodeUnreadable, meaning{
		"The Node could not be read, so that nothing can be said about it, and nothing is done for it.", "The connection to the cluster of the Node.",
		"See the condition ClusterReachable of the check.",
	}, func(*health.Verdict) string { return "The Node could not be read" }},
}

func manual(*health.Finding, string) string {
	return "marked for remediation via cluster.x-k8s.io/remediate-machine annotation"
}

func machineFailed(f *health.Finding, _ string) string {
	return "Machine has failed: " + or(f.Cause, "it does not say why")
}

func conditionMet(of string) func(f *health.Finding, node string) string {
	return func(f *health.Finding, _ string) string {
		return fmt.Sprintf("%s for more than %s", reporting(of, f), f.Lasting)
	}
}

func conditionDue(of string) func(f *health.Finding, node string) string {
	return func(f *health.Finding, _ string) string {
		return reporting(of, f) + when("since", f.Since) + when("and makes it unhealthy at", f.Due)
	}
}

func reporting(of string, f *health.Finding) string {
	said := fmt.Sprintf("Condition %s on %s is reporting status %s", foreign(f.Condition), of, foreign(f.Status))
	if cause := foreign(f.Cause); cause != "" {
		said += " with reason " + cause
	}
	return said
}

func nodeDeleted(f *health.Finding, node string) string {
	if f.Cause != "" {
		return anotherServer(f, node)
	}
	said := nodeNamed(node) + " has been deleted"
	if f.Lasting > 0 {
		said += fmt.Sprintf(" for more than %s", f.Lasting)
	}
	return said
}

// anotherServer: there is a Node of that name, and it is not the Machine's.
func anotherServer(f *health.Finding, node string) string {
	return nodeNamed(node) + " is another server now, with the providerID " + foreign(f.Cause)
}

func nodeGone(f *health.Finding, node string) string {
	if f.Cause != "" {
		return anotherServer(f, node) + when("and makes it unhealthy at", f.Due)
	}
	return nodeNamed(node) + " has been gone" + when("since", f.Since) + when("and makes it unhealthy at", f.Due)
}

func nodeNotJoined(f *health.Finding, _ string) string {
	return "Node has not joined yet and makes it unhealthy" + when("at", f.Due)
}

func nodeNamed(node string) string {
	if node = foreign(node); node != "" {
		return "Node " + node
	}
	return "Node"
}
