// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// verdictSentence lists the causes of a verdict. It is empty for a healthy target.
func verdictSentence(v *health.Verdict, node string) string {
	switch v.Kind {
	case health.Unhealthy, health.Suspect:
		return capital(listed(causes(v, node), "; ", MaxMessage))
	case health.Undetermined, health.Skipped, health.Healthy:
		if !v.Recovered() {
			return notEvaluated(v)
		}
	}
	return ""
}

// causes are the findings that the verdict follows from, in the order of the rules.
func causes(v *health.Verdict, node string) []string {
	all := make([]string, 0, len(v.Findings))
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Met == (v.Kind == health.Unhealthy) {
			all = append(all, finding(f, node))
		}
	}
	return all
}

func finding(f *health.Finding, node string) string {
	return sentence(f.Rule, &subject{finding: f, node: node}, Rule)
}

// notEvaluated is why the rules have not determined the health of a target.
func notEvaluated(v *health.Verdict) string {
	return sentence(v.Reason, &subject{verdict: v}, Gate, Unknown)
}

const blockedPrefix = "Blocked: "

// decisionSentence is what was done about a target and why, or why remediation is blocked. It is empty if there is nothing to do.
func decisionSentence(f *Facts) string {
	d := f.Decision
	if d.Block.Reason != "" {
		kind := Guard
		if _, preflight := split(f); len(preflight) > 0 {
			kind = Preflight
		}
		s := &subject{Answer: remediation.Answer{Until: d.Block.Until, Details: d.Block.Details}, step: d.Step}
		return cut(blockedPrefix+sentence(d.Block.Reason, s, kind, Guard, Preflight, Unfinished), MaxMessage)
	}
	switch d.Action {
	case remediation.None:
		return ""
	case remediation.Wait:
		return waiting(f)
	case remediation.StartRequest:
		return fmt.Sprintf("Created %s, attempt %d", request(d.Step), d.Attempt)
	case remediation.RequestOwnerRemediation:
		return "Requested remediation by " + f.owner()
	case remediation.GiveUp:
		return "Ended " + request(d.Step) + f.because()
	case remediation.Withdraw:
		return "Withdrew " + request(d.Step) + f.because()
	case remediation.CancelOwnerRemediation:
		return "Canceled remediation by " + f.owner() + f.because()
	case remediation.RemoveConditions:
		return "Removed the conditions of the check from the Machine" + f.because()
	}
	return ""
}

// waiting is what a remediation in progress waits for.
func waiting(f *Facts) string {
	d, t := f.Decision, f.Target
	switch {
	case t == nil && d.Attempt > 0:
		return "Waiting for " + request(d.Step)
	case t == nil:
		return "Waiting for its owner"
	case t.Request == nil && !t.DeletingSince.IsZero():
		return "Waiting for the deletion of the target" + when("since", t.DeletingSince) + when("until", d.Until)
	case t.Request == nil:
		message := "Waiting for remediation by " + f.owner() + when("since", t.OwnerRemediation.Since) + when("until", d.Until)
		if reason := sanitized(t.OwnerRemediation.OwnerReason); reason != "" {
			message += "; OwnerRemediated has the reason " + reason
		}
		return message
	case !t.Request.DeletingSince.IsZero():
		return "Waiting for the deletion of " + request(d.Step) + when("since", t.Request.DeletingSince)
	case f.Verdict != nil && f.Verdict.Recovered():
		return "Healthy" + when("since", d.HealthySince) + "; Remedy withdraws " + request(d.Step) + when("at", f.recovered())
	default:
		return "Waiting for the remediator of " + request(d.Step) + when("until", d.Until)
	}
}

// recovered is when a target has been healthy for long enough.
func (f *Facts) recovered() time.Time {
	if f.Policy == nil {
		return f.Decision.Until
	}
	return f.Decision.HealthySince.Add(f.Policy.HealthyDelay)
}

func (f *Facts) owner() string {
	if f.Target == nil {
		return "its owner"
	}
	return sanitizedOr(f.Target.Owner, "its owner")
}

// because is why a remediation ends.
func (f *Facts) because() string {
	if f.Decision.Why == remediation.ManagedByOtherCheck && f.Target != nil && f.Target.CoveredBy != "" {
		return " because " + sanitizedOr(f.Target.CoveredBy, "another check") + " is responsible for the target"
	}
	return " because " + sentence(f.Decision.Why, &subject{}, Ending)
}
