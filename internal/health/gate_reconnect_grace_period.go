// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// ReconnectGracePeriod means: the connection to the cluster was restored. Until the grace period ends, the status of Nodes may be out of
// date.
const ReconnectGracePeriod Reason = "ReconnectGracePeriod"

func gateReconnectGracePeriod(_ *Target, c *ClusterFacts, now time.Time) (Verdict, answer) {
	if now.Before(c.ReconnectingUntil) {
		return Verdict{Kind: Undetermined, Until: c.ReconnectingUntil}, closed
	}
	return Verdict{}, next
}
