// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// A Machine that has failed does not wait for the cluster. The rule of the same name gives the reason.
func gateMachineFailed(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Machine != nil && t.Machine.Failure != "" {
		return Verdict{}, through
	}
	return Verdict{}, next
}
