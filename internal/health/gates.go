// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

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
