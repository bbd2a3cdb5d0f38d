// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// answer is what a gate says to a target.
type answer uint8

const (
	// next: this gate has nothing to say.
	next answer = iota
	// closed: the target is not judged.
	closed
	// through: the target is judged, whatever the gates below would say.
	through
)

// gate is a reason not to judge a target, or to judge it all the same. A verdict counts only with the answer closed; its reason is that of the gate.
type gate struct {
	reason Reason
	asks   func(t *Target, c *ClusterFacts, now time.Time) (Verdict, answer)
}

// gates are asked in this order, and the first that does not say next decides.
var gates = [...]gate{
	// What people want comes first: leave it alone ...
	{Paused, gatePaused},
	{SkipRemediation, gateSkipRemediation},
	// ... or do something, at once. A Machine that has given up by itself waits for nothing either.
	{HasRemediateAnnotation, gateHasRemediateAnnotation},
	{MachineFailed, gateMachineFailed},
	// Then what we cannot know yet.
	{FirstLook, gateFirstLook},
	{ControlPlaneNotInitialized, gateControlPlaneNotInitialized},
	{InfrastructureNotReady, gateInfrastructureNotReady},
}
