// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// MachineFailed means: failureReason or failureMessage of the Machine is set.
const MachineFailed Reason = "MachineFailed"

func ruleMachineFailed(all []Finding, t *Target, _ *ClusterFacts, _ *Policy, _ time.Time) []Finding {
	if t.Machine == nil || t.Machine.Failure == "" {
		return all
	}
	return append(all, Finding{Rule: MachineFailed, Met: true, Cause: t.Machine.Failure})
}
