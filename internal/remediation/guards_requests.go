// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

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

// EscalationExhausted means: every step has failed. The first one is tried again after the backoff.
const EscalationExhausted Reason = "EscalationExhausted"

func guardEscalationExhausted(p *pass, _ *Target, c *candidate) (bool, Hold) {
	history := &p.plan.Decisions[c.index].History
	return len(p.policy.Steps) > 1 && p.now.Before(history.NotBefore), Hold{Until: history.NotBefore, Seen: Seen{Have: history.Failures}}
}

// InBackoff means: the last remediation failed, and its backoff is not over.
const InBackoff Reason = "Backoff"

func guardInBackoff(p *pass, _ *Target, c *candidate) (bool, Hold) {
	history := &p.plan.Decisions[c.index].History
	return p.now.Before(history.NotBefore), Hold{Until: history.NotBefore, Seen: Seen{Have: history.Failures}}
}

// TemplateNotResolved means: no request can be created from the template.
const TemplateNotResolved Reason = "TemplateNotResolved"

func guardTemplateNotResolved(_ *pass, _ *Target, c *candidate) (bool, Hold) {
	return c.stepless || c.step.Unresolved, Hold{Seen: Seen{Who: c.step.ID.Template}}
}

// RequestNameConflict means: another object has the name of the remediation request.
const RequestNameConflict Reason = "RequestNameConflict"

func guardRequestNameConflict(_ *pass, t *Target, _ *candidate) (bool, Hold) {
	return t.RequestNameConflict != "", Hold{Seen: Seen{Who: t.RequestNameConflict}}
}

// NodeLeaseHeld means: another component has the Lease of the Node.
const NodeLeaseHeld Reason = "NodeLeaseHeld"

func guardNodeLeaseHeld(p *pass, t *Target, _ *candidate) (bool, Hold) {
	if !t.Lease.Used || t.Lease.Holder == "" || t.Lease.BlockedByThis {
		return false, Hold{}
	}
	return p.now.Before(t.Lease.Until), Hold{Until: t.Lease.Until, Seen: Seen{Who: t.Lease.Holder}}
}
