// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// FirstLook means: the connection to the cluster was restored. Until the grace period ends, the status of Nodes may be out of date.
const FirstLook Reason = "FirstLook"

func gateFirstLook(_ *Target, c *ClusterFacts, now time.Time) (Verdict, answer) {
	if now.Before(c.FirstLookUntil) {
		return Verdict{Kind: Undetermined, Until: c.FirstLookUntil}, closed
	}
	return Verdict{}, next
}
