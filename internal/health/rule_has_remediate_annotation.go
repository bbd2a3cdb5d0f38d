// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "time"

// HasRemediateAnnotation means: the target has the annotation cluster.x-k8s.io/remediate-machine.
const HasRemediateAnnotation Reason = "HasRemediateAnnotation"

func ruleHasRemediateAnnotation(all []Finding, t *Target, _ *ClusterFacts, _ *Policy, _ time.Time) []Finding {
	if !t.Annotations.Remediate {
		return all
	}
	return append(all, Finding{Rule: HasRemediateAnnotation, Met: true})
}
