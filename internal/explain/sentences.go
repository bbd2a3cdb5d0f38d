// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	leaseEnded := ""
	if end := f.Decision.LeaseEnd; !end.IsZero() {
		leaseEnded = "The Lease of the Node ended" + when("at", end) + ", and others may remediate or maintain the Node"
	}
	return sentences(decided(f), leaseEnded)
}

func decided(f *Facts) string {
	d := f.Decision
	if d.Block.Reason != "" {
		kind := Guard
		if _, preflight := split(f); len(preflight) > 0 {
			kind = Preflight
		}
		answer := remediation.Answer{Until: d.Block.Until, Details: d.Block.Details}
		s := &subject{verdict: f.Verdict, Answer: answer, step: d.Step, policy: f.Policy}
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
		if d.HandsOver {
			return "Requested remediation by " + f.owner() + ": the remediator requests it in v1beta1 only, which owners do not read"
		}
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
		return "Waiting for remediation by the owner"
	case (t.Request == nil || d.ByOwner(t)) && !t.DeletingSince.IsZero():
		return "Waiting for the deletion of the target" + when("since", t.DeletingSince) + when("until", d.Until)
	case t.Request == nil, d.ByOwner(t):
		message := "Waiting for remediation by " + f.owner() + when("since", t.OwnerRemediation.Since) + when("until", d.Until)
		if reason := sanitized(t.OwnerRemediation.OwnerReason); reason != "" {
			message += "; OwnerRemediated has the reason " + reason
		}
		return message
	case !t.Request.DeletingSince.IsZero():
		return "Waiting for the deletion of " + request(d.Step) + when("since", t.Request.DeletingSince) +
			"; until then, its remediator can continue"
	case f.Verdict != nil && f.Verdict.Recovered():
		return "Healthy" + when("since", d.HealthySince) + "; Remedy withdraws " + request(d.Step) + when("at", f.recovered())
	default:
		message := "Waiting for the remediator of " + request(d.Step) + when("until", d.Until)
		if problem := sanitized(t.Request.Problem); problem != "" {
			message += "; it reports: " + problem
		}
		return message
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

const (
	// MaxMessage is the maximum length of a message in bytes. The API server rejects longer messages of events.
	MaxMessage = 1024
	// maxCauses leaves room for the decision that follows the causes in one message.
	maxCauses = 640
	// maxQuoted is the maximum length of quoted text from other components.
	maxQuoted = 256
	// maxListed is the maximum number of items in a list; the rest is counted.
	maxListed = 10
)

// sanitized makes text from another component safe to quote: a single line of bounded length with printable characters only.
func sanitized(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range text {
		switch {
		case b.Len() > maxQuoted:
			return cut(b.String(), maxQuoted)
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = b.Len() > 0
		case r == utf8.RuneError || !unicode.IsPrint(r):
		default:
			if gap {
				b.WriteByte(' ')
				gap = false
			}
			b.WriteRune(r)
		}
	}
	return cut(b.String(), maxQuoted)
}

// sanitizedOr quotes text from another component, or returns the alternative if there is none.
func sanitizedOr(text, otherwise string) string {
	if text = sanitized(text); text != "" {
		return text
	}
	return otherwise
}

// cut shortens a text to a number of bytes without splitting a character, and ends it with an ellipsis.
func cut(text string, length int) string {
	if len(text) <= length {
		return text
	}
	end := max(0, length-len("…"))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimRight(text[:end], " ") + "…"
}

// listed joins the items that fit into a number of bytes, and counts the others.
func listed(items []string, separator string, length int) string {
	rest := func(from int) string {
		if from == len(items) {
			return ""
		}
		return fmt.Sprintf("%s… and %d more", separator, len(items)-from)
	}
	joined := ""
	for i, item := range items {
		if i == 0 {
			joined = cut(item, max(1, length-len(rest(1))))
			continue
		}
		longer := joined + separator + item
		if i == maxListed || len(longer+rest(i+1)) > length {
			return joined + rest(i)
		}
		joined = longer
	}
	return joined
}

// names lists names in alphabetical order without duplicates.
func names(all []string, length int) string {
	sorted := make([]string, 0, len(all))
	for _, name := range all {
		sorted = append(sorted, sanitized(name))
	}
	slices.Sort(sorted)
	return listed(slices.Compact(sorted), ", ", length)
}

// when adds a time to a sentence, if it is known. Messages have absolute times: a duration since an event would change continuously.
func when(word string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " " + word + " " + t.UTC().Format(time.RFC3339)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// short is a duration without the units that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// sentences joins the sentences that are not empty.
func sentences(all ...string) string {
	filled := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	return cut(strings.Join(filled, ". "), MaxMessage)
}

// capital makes a sentence of a clause.
func capital(clause string) string {
	first, size := utf8.DecodeRuneInString(clause)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + clause[size:]
}

func clockSkew(s *subject) string {
	return "The clocks of the manager and of the API server differ by " + sanitizedOr(s.Details.Cause, "more than 30s")
}

func pauseRequested(s *subject) string {
	message := fmt.Sprintf("New remediations are paused by pauseRequests: %q", sanitized(s.Details.Cause))
	if s.Details.Count > 1 {
		message += fmt.Sprintf(" … and %d more", s.Details.Count-1)
	}
	return message
}

func noStep(s *subject) string {
	return "No step of escalatingRemediations is for " + sanitizedOr(s.Details.Cause, "the cause") + ", so the target is only reported"
}

func templateNotResolved(s *subject) string {
	return "No request can be created from the template " + sanitizedOr(s.Details.Cause, "of the step") + "; see TemplatesResolved"
}
