// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"
)

// answer is the answer of a gate.
type answer uint8

const (
	// next: the gate does not match.
	next answer = iota
	// closed: the target is not evaluated.
	closed
	// through: the target is evaluated without the remaining gates.
	through
)

// gate is a reason not to evaluate a target, or to skip the remaining gates. The verdict is used only with the answer closed.
type gate struct {
	reason Reason
	match  func(t *Target, c *ClusterFacts, now time.Time) (Verdict, answer)
}

// gates run in this order until one of them matches.
var gates = [...]gate{
	// Annotations of users.
	{Paused, gatePaused},
	{SkipRemediation, gateSkipRemediation},
	{HasRemediateAnnotation, gateHasRemediateAnnotation},
	{MachineFailed, gateMachineFailed},
	// States of the cluster.
	{ReconnectGracePeriod, gateReconnectGracePeriod},
	{ControlPlaneNotInitialized, gateControlPlaneNotInitialized},
	{InfrastructureNotReady, gateInfrastructureNotReady},
}

// Gates are the reasons of the gates, in order.
func Gates() []Reason {
	names := make([]Reason, len(gates))
	for i := range gates {
		names[i] = gates[i].reason
	}
	return names
}

// Paused means: the target has the annotation cluster.x-k8s.io/paused. Until that is removed, it is not a target.
const Paused Reason = "Paused"

func gatePaused(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.Paused {
		return Verdict{Kind: Skipped}, closed
	}
	return Verdict{}, next
}

// SkipRemediation means: the Machine has the annotation cluster.x-k8s.io/skip-remediation, or the Node that of Remedy. Until that is removed, it is not a target.
const SkipRemediation Reason = "SkipRemediation"

func gateSkipRemediation(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.SkipRemediation {
		return Verdict{Kind: Skipped, OnNode: t.Machine == nil}, closed
	}
	return Verdict{}, next
}

// A remediation that an annotation requests does not wait for the cluster. The rule of the same name gives the reason.
func gateHasRemediateAnnotation(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.Remediate {
		return Verdict{}, through
	}
	return Verdict{}, next
}

// A Machine that has failed does not wait for the cluster. The rule of the same name gives the reason.
func gateMachineFailed(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Machine != nil && t.Machine.Failure != "" {
		return Verdict{}, through
	}
	return Verdict{}, next
}

// ReconnectGracePeriod means: the connection to the cluster was restored. Until the grace period ends, the status of Nodes may be out of
// date.
const ReconnectGracePeriod Reason = "ReconnectGracePeriod"

func gateReconnectGracePeriod(_ *Target, c *ClusterFacts, now time.Time) (Verdict, answer) {
	if now.Before(c.ReconnectingUntil) {
		return Verdict{Kind: Undetermined, Until: c.ReconnectingUntil}, closed
	}
	return Verdict{}, next
}

// ControlPlaneNotInitialized means: the cluster has no API server yet. Only Machines of the control plane are evaluated.
const ControlPlaneNotInitialized Reason = "ControlPlaneNotInitialized"

func gateControlPlaneNotInitialized(t *Target, c *ClusterFacts, _ time.Time) (Verdict, answer) {
	if !c.ControlPlaneInitialized.Reached && (t.Machine == nil || !t.Machine.ControlPlane) {
		return Verdict{Kind: Undetermined}, closed
	}
	return Verdict{}, next
}

// InfrastructureNotReady means: the infrastructure of the cluster is not ready. As in Cluster API, a Machine with a Node counts as healthy.
const InfrastructureNotReady Reason = "InfrastructureNotReady"

func gateInfrastructureNotReady(t *Target, c *ClusterFacts, _ time.Time) (Verdict, answer) {
	if c.InfrastructureReady.Reached {
		return Verdict{}, next
	}
	if t.nodeState() == Present && (t.Machine == nil || !t.Machine.Deleting) {
		return Verdict{Kind: Healthy}, closed
	}
	return Verdict{Kind: Undetermined}, closed
}
