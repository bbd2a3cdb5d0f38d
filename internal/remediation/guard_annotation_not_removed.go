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
	return granted(&p.a.Verdicts[c.index], p.plan.Decisions[c.index].Ledger.Failures, c.underWay)
}

// Whatever else was wrong with it may be over at the last look.
func lookAnnotationNotRemoved(l *lastLook) (held bool, until time.Time, seen Seen) {
	return granted(&l.look.Verdict, l.d.Ledger.Failures, l.t.Ledger.Tried != StepID{})
}

// granted says whether a wish is all that is left, and an attempt has been made for it.
func granted(v *health.Verdict, failures int, underWay bool) (is bool, until time.Time, seen Seen) {
	return onlyAskedFor(v) && !underWay && failures > 0, time.Time{}, Seen{Have: failures}
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
