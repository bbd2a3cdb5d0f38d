// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// SkipRemediation means: the target has the annotation cluster.x-k8s.io/skip-remediation. Until that is removed, it is not a target.
const SkipRemediation Reason = "SkipRemediation"

func gateSkipRemediation(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.SkipRemediation {
		return Verdict{Kind: Skipped}, closed
	}
	return Verdict{}, next
}
