// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"

// AnnotationNotRemoved means: the target was remediated on request, and still has the annotation that requests it.
const AnnotationNotRemoved Reason = "AnnotationNotRemoved"

// The annotation requests one attempt. That was made if a request has succeeded, or if every step has failed.
func guardAnnotationNotRemoved(p *pass, _ *Target, c *candidate) (bool, Hold) {
	failures := p.plan.Decisions[c.index].History.Failures
	return onlyAskedFor(&p.a.Verdicts[c.index]) && !c.underWay && failures > 0, Hold{Seen: Seen{Have: failures}}
}

// onlyAskedFor reports whether the annotation is the only cause that is met.
func onlyAskedFor(v *health.Verdict) bool {
	for i := range v.Findings {
		if v.Findings[i].Met && v.Findings[i].Rule != health.HasRemediateAnnotation {
			return false
		}
	}
	return v.Reason == health.HasRemediateAnnotation
}
