// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// gateMachineFailed: a Machine that has given up does not get better by waiting. The rule of the same name says why.
func gateMachineFailed(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Machine != nil && t.Machine.Failure != "" {
		return Verdict{}, through
	}
	return Verdict{}, next
}
