// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// gates are in the order of evaluation.
var gates = []Reason{
	newReason(Gate, health.Paused, fixed("The target has the annotation cluster.x-k8s.io/paused"),
		"The target has the annotation `cluster.x-k8s.io/paused`. The check ignores it.",
		"The annotations of the Machine or the Node.",
		"Remove the annotation when the work on the target is done."),
	newReason(Gate, health.SkipRemediation, skipped,
		"A Machine has the annotation `cluster.x-k8s.io/skip-remediation`, or a Node `"+remedyv1.SkipRemediationAnnotation+"`. "+
			"The check ignores it.",
		"The annotations of the Machine or the Node.",
		"Remove the annotation when the target may be remediated again."),
	newReason(Gate, health.HasRemediateAnnotation, annotationRequests,
		"An annotation requests remediation. The gates below are not evaluated.",
		"The annotation `cluster.x-k8s.io/remediate-machine` of the Machine, or `remedy.cluster.x-k8s.io/remediate-node` of the Node.",
		"Nothing: the rule of the same name makes the target unhealthy at once."),
	newReason(Gate, health.MachineFailed, fixed("The Machine has failed"),
		"The Machine has a terminal failure, and waiting does not help. The gates below are not evaluated.",
		"`failureReason` and `failureMessage` in the status of the Machine.",
		"Nothing: the rule of the same name makes the target unhealthy at once."),
	newReason(Gate, health.ReconnectGracePeriod, reconnected,
		"The connection to the workload cluster was restored. What was read before may be outdated, so Nodes get time to report their status.",
		"The time at which the connection was restored.",
		"Nothing: it ends within a minute."),
	newReason(Gate, health.ControlPlaneNotInitialized, fixed("The control plane of the cluster is not initialized"),
		"The control plane of the cluster is not initialized, so workers cannot join. Machines of the control plane are evaluated.",
		"The condition `ControlPlaneInitialized` of the Cluster.",
		"Nothing while the cluster is being created. If it lasts, check the Machines of the control plane."),
	newReason(Gate, health.InfrastructureNotReady, infrastructureNotReady,
		"The infrastructure of the cluster is not ready. No Machine is unhealthy because of that: a Machine whose Node exists counts as healthy.",
		"The condition `InfrastructureReady` of the Cluster, and whether the Node was read.",
		"Check the infrastructure object that the Cluster names."),
}

// rules are in the order of evaluation. Where Cluster API has a message, it is quoted verbatim: people search for it.
var rules = []Reason{
	newReason(Rule, health.HasRemediateAnnotation, markedByAnnotation,
		"An annotation requests remediation: on a Machine `cluster.x-k8s.io/remediate-machine`, on a Node "+
			"`remedy.cluster.x-k8s.io/remediate-node`.",
		"The annotations of the Machine or the Node.",
		"Remove the annotation if it is not intended."),
	newReason(Rule, health.MachineFailed, machineFailed,
		"The Machine has failed: its `failureReason` or `failureMessage` is set.",
		"The status of the Machine.",
		"Read the message: usually the infrastructure provider could not create the server, or lost it."),
	newReason(Rule, health.UnhealthyMachine, conditionOf("Machine"),
		"A condition of the Machine has had an unhealthy status for too long.",
		"`unhealthyMachineConditions` of the check, and the conditions of the Machine.",
		"Check that condition of the Machine. If it does not matter, change `unhealthyMachineConditions`."),
	newReason(Rule, health.NodeDeleted, nodeDeleted,
		"The Node of the Machine existed and no longer does: a live API server returned \"not found\", or another server has its name.",
		"The Node, by its name and its provider ID, and `nodeGoneTimeout` of the check.",
		"Find out what deleted the Node. If Nodes return without intervention, set `nodeGoneTimeout`."),
	newReason(Rule, health.NodeStartupTimeout, nodeStartupTimeout,
		"The Node of the Machine has not joined in time.",
		"`nodeStartupTimeout` of the check; creation of the Machine; when control plane and infrastructure were ready.",
		"Check the bootstrap of the Machine. If servers need longer to start, raise `nodeStartupTimeout`."),
	newReason(Rule, health.UnhealthyNode, conditionOf("Node"),
		"A condition of the Node has had an unhealthy status for too long.",
		"`unhealthyConditions` of the check, and the conditions of the Node.",
		"Check that condition of the Node. If it does not matter, change `unhealthyConditions`."),
}

// unknowns are for targets that no gate and no rule applies to, and which are not known to be healthy.
var unknowns = []Reason{
	newReason(Unknown, health.Deleting, fixed("The Machine is being deleted"),
		"The Machine is being deleted.",
		"The deletion timestamp of the Machine.",
		"Nothing. If the deletion does not finish, see StuckDeleting."),
	newReason(Unknown, health.NodeNotJoined, fixed("The Machine has no Node yet"),
		"The Machine has no Node yet, and no startup timeout is set.",
		"The Node of the Machine, with `nodeStartupTimeout: 0s`.",
		"Nothing, or set `nodeStartupTimeout`."),
	newReason(Unknown, health.NodeUnreadable, fixed("The Node could not be read"),
		"The Node could not be read, so its health is unknown and it is not remediated.",
		"The connection to the cluster of the Node.",
		"See the condition ClusterReachable of the check."),
}

func reconnected(s *subject) string {
	return "Connection to the workload cluster was restored; waiting for fresh Node status" + when("until", s.verdict.Until)
}

func infrastructureNotReady(s *subject) string {
	if s.verdict.Kind == health.Healthy {
		return "The infrastructure of the cluster is not ready, and the Node exists: the target counts as healthy"
	}
	return "The infrastructure of the cluster is not ready"
}

func machineFailed(s *subject) string {
	return "Machine has failed: " + sanitizedOr(s.finding.Cause, "failureMessage is empty")
}

func conditionOf(kind string) func(*subject) string {
	return func(s *subject) string {
		f := s.finding
		message := fmt.Sprintf("Condition %s on %s is reporting status %s", sanitized(f.Condition), kind, sanitized(f.Status))
		if cause := sanitized(f.Cause); cause != "" {
			message += " with reason " + cause
		}
		if f.Met {
			return message + fmt.Sprintf(" for more than %s", f.Lasting) + claimed(f)
		}
		return message + when("since", f.Since) + claimed(f) + unhealthyAt(f)
	}
}

// claimed is the time of a condition that cannot be true.
func claimed(f *health.Finding) string {
	if f.Claimed.IsZero() {
		return ""
	}
	return "; " + string(remediation.ClockSkew) + ": its time" + when("", f.Claimed) + " is ignored, because another status was read later"
}

func nodeDeleted(s *subject) string {
	f, node := s.finding, strings.TrimSpace("Node "+sanitized(s.node))
	switch {
	case f.Cause != "":
		return node + " has the providerID " + sanitized(f.Cause) + " of another server" + unhealthyAt(f)
	case !f.Met:
		return node + " has been missing" + when("since", f.Since) + unhealthyAt(f)
	case f.Lasting > 0:
		return fmt.Sprintf("%s has been deleted for more than %s", node, f.Lasting)
	}
	return node + " has been deleted"
}

func nodeStartupTimeout(s *subject) string {
	if s.finding.Met {
		return fmt.Sprintf("Node failed to report startup in %s", s.finding.Lasting)
	}
	return "Node has not joined yet" + unhealthyAt(s.finding)
}

// unhealthyAt is when a finding makes its target unhealthy.
func unhealthyAt(f *health.Finding) string {
	if f.Met || f.Due.IsZero() {
		return ""
	}
	return "; the target becomes unhealthy" + when("at", f.Due)
}

// remediateAnnotation is the annotation that requests the remediation of a target.
func remediateAnnotation(v *health.Verdict) string {
	if v != nil && slices.ContainsFunc(v.Findings, func(f health.Finding) bool { return f.OnNode }) {
		return remedyv1.RemediateNodeAnnotation
	}
	return "cluster.x-k8s.io/remediate-machine"
}

func skipped(s *subject) string {
	if s.verdict.OnNode {
		return "The Node has the annotation " + remedyv1.SkipRemediationAnnotation
	}
	return "The Machine has the annotation cluster.x-k8s.io/skip-remediation"
}

func markedByAnnotation(s *subject) string {
	return "marked for remediation via " + remediateAnnotation(&health.Verdict{Findings: []health.Finding{*s.finding}}) + " annotation"
}

func annotationRequests(s *subject) string {
	return "The annotation " + remediateAnnotation(s.verdict) + " requests remediation"
}
