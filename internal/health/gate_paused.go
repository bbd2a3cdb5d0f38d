// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// Paused means: the target has the annotation cluster.x-k8s.io/paused. Until that is removed, it is not a target.
const Paused Reason = "Paused"

func gatePaused(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.Paused {
		return Verdict{Kind: Skipped}, closed
	}
	return Verdict{}, next
}
