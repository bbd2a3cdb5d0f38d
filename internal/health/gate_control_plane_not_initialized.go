// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// ControlPlaneNotInitialized means: the cluster has no API server yet. Only Machines of the control plane are evaluated.
const ControlPlaneNotInitialized Reason = "ControlPlaneNotInitialized"

func gateControlPlaneNotInitialized(t *Target, c *ClusterFacts, _ time.Time) (Verdict, answer) {
	if !c.ControlPlaneInitialized.Reached && (t.Machine == nil || !t.Machine.ControlPlane) {
		return Verdict{Kind: Undetermined}, closed
	}
	return Verdict{}, next
}
