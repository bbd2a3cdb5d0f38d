// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// A remediation that an annotation requests does not wait for the cluster. The rule of the same name gives the reason.
func gateHasRemediateAnnotation(t *Target, _ *ClusterFacts, _ time.Time) (Verdict, answer) {
	if t.Annotations.Remediate {
		return Verdict{}, through
	}
	return Verdict{}, next
}
