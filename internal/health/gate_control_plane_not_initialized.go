// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// ControlPlaneNotInitialized means: there is no API server that a worker could have joined. The Machines of the control plane itself are judged.
const ControlPlaneNotInitialized Reason = "ControlPlaneNotInitialized"

func gateControlPlaneNotInitialized(t *Target, c *ClusterFacts, _ time.Time) (Verdict, answer) {
	if !c.ControlPlaneInitialized.Reached && (t.Machine == nil || !t.Machine.ControlPlane) {
		return Verdict{Kind: Undetermined}, closed
	}
	return Verdict{}, next
}
