// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// gateHasRemediateAnnotation: a person asked for a remediation, and does not wait for the cluster to be ready. The rule of the same name says why.
func gateHasRemediateAnnotation(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Wishes.Remediate {
		return Verdict{}, through
	}
	return Verdict{}, next
}
