// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// AnnotationNotRemoved means: a person asked for a remediation, it was done, and the annotation that asks for it is still there.
const AnnotationNotRemoved Reason = "AnnotationNotRemoved"

// One wish is one attempt. It has been made if a request has succeeded, or if every step has failed.
func guardAnnotationNotRemoved(p *pass, _ *Target, c *candidate) (held bool, until time.Time, seen Seen) {
	failures := p.plan.Decisions[c.index].Ledger.Failures
	return onlyAskedFor(&p.a.Verdicts[c.index]) && !c.underWay && failures > 0, time.Time{}, Seen{Have: failures}
}

// Whatever else was wrong with it may be over at the last look.
func lookAnnotationNotRemoved(l *lastLook) (held bool, until time.Time, seen Seen) {
	failed, underWay := l.d.Ledger.Failures, l.t.Ledger.Tried != StepID{}
	return onlyAskedFor(&l.look.Verdict) && !underWay && failed > 0, time.Time{}, Seen{Have: failed}
}

// onlyAskedFor says whether nothing is wrong with a target but that a person wants it to be remediated.
func onlyAskedFor(v *health.Verdict) bool {
	for i := range v.Findings {
		if v.Findings[i].Met && v.Findings[i].Rule != health.HasRemediateAnnotation {
			return false
		}
	}
	return v.Reason == health.HasRemediateAnnotation
}
