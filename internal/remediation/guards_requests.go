// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"strings"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// AnnotationNotRemoved means: the target was remediated on request, and still has the annotation that requests it.
const AnnotationNotRemoved Reason = "AnnotationNotRemoved"

// The annotation requests one attempt. That was made if a request has succeeded, or if every step has failed.
func guardAnnotationNotRemoved(p *planner, _ *Target, c *candidate) (bool, Block) {
	failures := p.plan.Decisions[c.index].History.Failures
	return onlyAskedFor(&p.a.Verdicts[c.index]) && !c.underWay && failures > 0, Block{Details: Details{Count: failures}}
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

// NoStepForCondition means: every step is for other causes than those of the target.
const NoStepForCondition Reason = "NoStepForCondition"

func guardNoStepForCondition(p *planner, _ *Target, c *candidate) (bool, Block) {
	if !c.stepless {
		return false, Block{}
	}
	return true, Block{Details: Details{Cause: causes(&p.a.Verdicts[c.index])}}
}

// causes are those of a verdict, such as DiskPressure=True.
func causes(v *health.Verdict) string {
	var names []string
	for i := range v.Findings {
		switch f := &v.Findings[i]; {
		case !f.Met:
		case f.Condition == "":
			names = append(names, string(f.Rule))
		case f.Cause == "":
			names = append(names, f.Condition+"="+f.Status)
		default:
			names = append(names, f.Condition+"="+f.Status+" ("+f.Cause+")")
		}
	}
	return strings.Join(names, ", ")
}

// EscalationExhausted means: every step has failed. The first one is tried again after the backoff.
const EscalationExhausted Reason = "EscalationExhausted"

func guardEscalationExhausted(p *planner, _ *Target, c *candidate) (bool, Block) {
	history := &p.plan.Decisions[c.index].History
	return len(p.policy.Steps) > 1 && p.now.Before(history.NotBefore), Block{Until: history.NotBefore, Details: Details{Count: history.Failures}}
}

// InBackoff means: the last remediation failed, and its backoff is not over.
const InBackoff Reason = "Backoff"

func guardInBackoff(p *planner, t *Target, c *candidate) (bool, Block) {
	history := &p.plan.Decisions[c.index].History
	block := Block{Until: history.NotBefore, Details: Details{Count: history.Failures}}
	if t.DeletedRequests.Last != nil {
		block.Details.Cause = "another client deleted the last request"
	}
	return p.now.Before(history.NotBefore), block
}

// TemplateNotResolved means: no request can be created from the template.
const TemplateNotResolved Reason = "TemplateNotResolved"

func guardTemplateNotResolved(_ *planner, _ *Target, c *candidate) (bool, Block) {
	return c.step.Unresolved, Block{Details: Details{Cause: c.step.ID.Template}}
}

// RequestNameConflict means: another object has the name of the remediation request.
const RequestNameConflict Reason = "RequestNameConflict"

func guardRequestNameConflict(_ *planner, t *Target, _ *candidate) (bool, Block) {
	return t.RequestNameConflict != "", Block{Details: Details{Cause: t.RequestNameConflict}}
}

// NodeLeaseHeld means: another component has the Lease of the Node.
const NodeLeaseHeld Reason = "NodeLeaseHeld"

// The clock of the holder may be behind, so the Lease counts as held for a moment longer.
func guardNodeLeaseHeld(p *planner, t *Target, _ *candidate) (bool, Block) {
	if !t.Lease.Used || t.Lease.Holder == "" || t.Lease.HeldByThis {
		return false, Block{}
	}
	free := t.Lease.Until.Add(LeaseMargin)
	return p.now.Before(free), Block{Until: free, Details: Details{Cause: t.Lease.Holder}}
}
