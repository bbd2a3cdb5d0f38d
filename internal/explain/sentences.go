// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// VerdictSentence names every cause of a verdict; it is empty for a healthy target. What is only about to become a cause is named where nothing counts yet.
func VerdictSentence(v *health.Verdict, node string) string {
	return capital(verdict(v, node, MaxMessage))
}

func verdict(v *health.Verdict, node string, runes int) string {
	switch v.Kind {
	case health.Unhealthy, health.Suspect:
		return listed(causes(v, node), "; ", runes)
	case health.Undetermined, health.Skipped:
		return notJudged(v)
	case health.Healthy:
		if !v.Recovered() {
			return notJudged(v)
		}
	}
	return ""
}

// causes are those findings that make the verdict, in the order of the rules.
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
	word := wordOfRule(f.Rule)
	switch {
	case word == nil:
		return string(f.Rule)
	case f.Met:
		return word.met(f, node)
	default:
		return word.due(f, node)
	}
}

// notJudged is why nothing is said about the health of a target.
func notJudged(v *health.Verdict) string {
	if word := wordOfGate(v.Reason); word != nil {
		return word.says(v)
	}
	for i := range unknownWords {
		if unknownWords[i].reason == v.Reason {
			return unknownWords[i].says(v)
		}
	}
	return string(v.Reason)
}

// HoldSentence is why nothing is done for a target for now.
func HoldSentence(f *Facts) string {
	d, kind := f.Decision, Guard
	if _, looks := split(f); len(looks) > 0 {
		kind = LastLook
	}
	word := wordOfHold(d.Hold.Reason, kind)
	if word == nil {
		return string(d.Hold.Reason)
	}
	answer := remediation.Answer{Guard: d.Hold.Reason, Held: true, Until: d.Hold.Until, Seen: d.Hold.Seen}
	return cut(word.held(&saw{answer, d.Step}), MaxMessage)
}

const heldPrefix = "Held: "

// DecisionSentence is what is done about a target, and why; or why nothing is. It is empty where there is nothing to do.
func DecisionSentence(f *Facts) string {
	d := f.Decision
	if d.Hold.Reason != "" {
		return heldPrefix + cut(HoldSentence(f), MaxMessage-len(heldPrefix))
	}
	switch d.Action {
	case remediation.None:
		return ""
	case remediation.Wait:
		return waits(f)
	case remediation.MakeRequest:
		return fmt.Sprintf("Makes %s, attempt %d", request(d.Step), d.Attempt)
	case remediation.GiveMark:
		return fmt.Sprintf("Asks %s to remediate it", f.owner())
	case remediation.GiveUp:
		return fmt.Sprintf("Gives up %s, as %s", request(d.Step), f.because())
	case remediation.Withdraw:
		return fmt.Sprintf("Withdraws %s, as %s", request(d.Step), f.because())
	case remediation.TakeBack:
		return fmt.Sprintf("Takes back what %s was asked, as %s", f.owner(), f.because())
	case remediation.Unmark:
		return fmt.Sprintf("Clears what it wrote on the Machine, as %s", f.because())
	}
	return ""
}

// waits says what a remediation that is under way waits for. The facts tell, as all of them are the same to a decision.
func waits(f *Facts) string {
	d, t := f.Decision, f.Target
	switch {
	case t == nil && d.Attempt > 0:
		return "Waits for " + request(d.Step)
	case t == nil:
		return "Waits for its owner"
	case t.Request == nil && !t.DeletingSince.IsZero():
		return "Waits for its deletion, which was asked for" + when("at", t.DeletingSince) + when("and may take until", d.Until)
	case t.Request == nil:
		said := "Waits for " + f.owner() + ", which was asked to remediate it" + when("at", t.Mark.Since) + when("and may take until", d.Until)
		if reason := foreign(t.Mark.OwnerReason); reason != "" {
			said += "; it says " + reason
		}
		return said
	case !t.Request.DeletingSince.IsZero():
		return "Waits until " + request(d.Step) + " is gone, which was deleted" + when("at", t.Request.DeletingSince)
	case f.Verdict != nil && f.Verdict.Recovered():
		return "Is healthy again" + when("since", d.HealthySince) + "; " + request(d.Step) + " is withdrawn" + when("at", f.recovered())
	default:
		return "Waits for the remediator of " + request(d.Step) + when("until", d.Until)
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
	return or(f.Target.Owner, "its owner")
}

// because says why something ends; who it is that takes over, if somebody does.
func (f *Facts) because() string {
	if f.Decision.Why == remediation.CoveredByOther && f.Target != nil && f.Target.CoveredBy != "" {
		return or(f.Target.CoveredBy, "another check") + " takes care of it"
	}
	return because(f.Decision.Why)
}

// capital makes a sentence of a clause.
func capital(clause string) string {
	first, size := utf8.DecodeRuneInString(clause)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + clause[size:]
}
