// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Trace has the results of all gates, rules and guards for one target, in the order of evaluation.
type Trace struct {
	Check  string `json:"check,omitempty"`
	Target string `json:"target"`
	Node   string `json:"node,omitempty"`
	// State is the label of metrics.
	State State  `json:"state"`
	Gates []Line `json:"gates"`
	Rules []Line `json:"rules"`
	// Verdict follows from gates and rules, and Decision from guards.
	Verdict   VerdictPart  `json:"verdict"`
	Guards    []Line       `json:"guards"`
	Preflight []Line       `json:"preflightChecks,omitempty"`
	Decision  DecisionPart `json:"decision"`

	// kind is that of the target.
	kind string
}

// Line is the result of one gate, rule or guard.
type Line struct {
	Name   string `json:"name"`
	Answer Answer `json:"answer"`
	// This is the cause, if there is one to report.
	Message string `json:"message,omitempty"`
}

// Answer is the result of a gate, a rule or a guard.
type Answer string

// The answers.
const (
	Passed        Answer = "passed"         // A gate or a guard has no objection.
	Closed        Answer = "closed"         // A gate prevents the rules from being evaluated.
	LetThrough    Answer = "let through"    // A gate skips all gates after it.
	Blocks        Answer = "blocks"         // A guard blocks the remediation.
	Met           Answer = "met"            // The failure has lasted for long enough.
	Pending       Answer = "pending"        // The failure has not lasted for long enough.
	NotMet        Answer = "not met"        // A rule has found no failure.
	NotEvaluated  Answer = "not evaluated"  // An earlier gate or guard decided.
	NotApplicable Answer = "not applicable" // A guard does not apply to steps of this kind.
)

// VerdictPart is the verdict.
type VerdictPart struct {
	Kind    string       `json:"kind"`
	Reason  string       `json:"reason,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`
	Until   *metav1.Time `json:"until,omitempty"`
	Message string       `json:"message,omitempty"`
}

// DecisionPart is the decision.
type DecisionPart struct {
	// Outcome is the decision in the status; empty for a target that the status does not report.
	Outcome remedyv1.Decision `json:"outcome,omitempty"`
	Action  string            `json:"action"`
	// BlockedReason is why remediation is blocked, Why is why a remediation ends.
	BlockedReason remedyv1.BlockedReason `json:"blockedReason,omitempty"`
	Why           string                 `json:"why,omitempty"`
	Until         *metav1.Time           `json:"until,omitempty"`
	Step          *int32                 `json:"step,omitempty"`
	Template      string                 `json:"template,omitempty"`
	Attempt       int                    `json:"attempt,omitempty"`
	InFlight      bool                   `json:"inFlight,omitempty"`
	Message       string                 `json:"message,omitempty"`
}

// NewTrace returns the trace of a target. It costs more than the decision: do not call it for each healthy target.
func NewTrace(f *Facts) Trace {
	t := Trace{Check: f.Check, Target: f.Name, Node: f.Node, State: StateOf(f.Verdict, f.Decision), kind: f.kind()}
	if v := f.Verdict; v != nil {
		t.Gates, t.Rules = gateLines(v), ruleLines(v, f)
		t.Verdict = VerdictPart{
			Kind: kinds[v.Kind], Reason: string(v.Reason), Since: timeOrNil(v.Since), Until: timeOrNil(v.Until),
			Message: verdictSentence(v, f.Node),
		}
	} else {
		t.Gates, t.Rules = notEvaluatedLines(health.Gates()), notEvaluatedLines(health.Rules())
		t.Verdict = VerdictPart{Kind: string(remediation.NotSelected)}
	}
	t.Guards, t.Preflight = guardLines(f)
	t.Decision = decisionPart(f)
	return t
}

func decisionPart(f *Facts) DecisionPart {
	d := f.Decision
	part := DecisionPart{
		Outcome: outcome(f.Verdict, d), Action: actions[d.Action], Why: string(d.Why),
		Until: timeOrNil(d.Until), Template: sanitized(d.Step.Template), Attempt: d.Attempt, InFlight: d.InFlight, Message: decisionSentence(f),
	}
	if part.Outcome == remedyv1.Blocked || part.Outcome == remedyv1.Observed {
		part.BlockedReason = remedyv1.BlockedReason(d.BlockedReason())
	}
	if f.numbered() {
		order := d.Step.Order
		part.Step = &order
	}
	return part
}

// numbered reports whether the number of the step is reported. A single step has none.
func (f *Facts) numbered() bool {
	if f.Decision.Step == (remediation.StepID{}) {
		return f.Decision.Action == remediation.RequestOwnerRemediation && f.Policy != nil && len(f.Policy.Steps) > 1
	}
	return f.Policy == nil || len(f.Policy.Steps) > 1
}

// outcome is the decision in the status.
func outcome(v *health.Verdict, d *remediation.Decision) remedyv1.Decision {
	switch {
	case d.Block.Reason == remediation.ObserveMode:
		return remedyv1.Observed
	case d.Block.Reason != "":
		return remedyv1.Blocked
	case d.InFlight:
		return remedyv1.Remediating
	case v == nil || v.Kind != health.Unhealthy && v.Kind != health.Suspect:
		return ""
	case v.Kind == health.Suspect:
		return remedyv1.Pending
	case d.Why == remediation.ObserveMode:
		return remedyv1.Observed
	}
	return remedyv1.Blocked
}

var actions = map[remediation.Action]string{
	remediation.None:                    "None",
	remediation.Wait:                    "Wait",
	remediation.StartRequest:            "CreateRequest",
	remediation.RequestOwnerRemediation: "RequestOwnerRemediation",
	remediation.GiveUp:                  "EndStep",
	remediation.Withdraw:                "WithdrawRequest",
	remediation.CancelOwnerRemediation:  "CancelOwnerRemediation",
	remediation.RemoveConditions:        "RemoveConditions",
}

// KindHealthy and KindUnhealthy are kinds of verdicts that events and metrics are about.
const (
	KindHealthy   = "Healthy"
	KindUnhealthy = "Unhealthy"
)

var kinds = map[health.Kind]string{
	health.Undetermined: "Undetermined", health.Skipped: "Skipped", health.Healthy: KindHealthy, health.Suspect: "Suspect",
	health.Unhealthy: KindUnhealthy,
}

// timeOrNil is a time in the precision of the API.
func timeOrNil(t time.Time) *metav1.Time {
	t = health.KnownTime(t, time.Time{})
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// String returns the trace as text with aligned columns.
func (t *Trace) String() string {
	var b strings.Builder
	title := t.Target
	if t.Node != "" && t.Node != t.Target {
		title += ", Node " + t.Node
	}
	if t.Check != "" {
		title += ", by " + t.Check
	}
	b.WriteString(sanitized(title) + "\n")
	section(&b, "gates", t.Gates)
	section(&b, "rules", t.Rules)
	row(&b, "  ", "verdict", t.Verdict.Kind, withReason(t.Verdict.Reason, t.Verdict.Message))
	section(&b, "guards", t.Guards)
	if len(t.Preflight) > 0 {
		section(&b, "preflight check", t.Preflight)
	}
	row(&b, "  ", "decision", t.Decision.label(), withReason(t.Decision.reason(), strings.TrimPrefix(t.Decision.Message, blockedPrefix)))
	return b.String()
}

// section writes the lines. Those at the end that were not evaluated are only counted.
func section(b *strings.Builder, name string, lines []Line) {
	last := len(lines)
	for last > 0 && lines[last-1].Answer == NotEvaluated {
		last--
	}
	if last == 0 && len(lines) > 0 {
		row(b, "  ", name, string(NotEvaluated), "")
		return
	}
	if last == len(lines)-1 {
		last++
	}
	fmt.Fprintf(b, "  %s\n", name)
	for i := range lines[:last] {
		row(b, "    ", lines[i].Name, string(lines[i].Answer), lines[i].Message)
	}
	if rest := len(lines) - last; rest > 0 {
		row(b, "    ", fmt.Sprintf("%d more", rest), string(NotEvaluated), "")
	}
}

// row aligns the columns: the longest name has 26 characters, the longest answer 14.
func row(b *strings.Builder, indent, name, answer, message string) {
	b.WriteString(strings.TrimRight(fmt.Sprintf("%s%-*s  %-14s  %s", indent, 30-len(indent), name, answer, message), " ") + "\n")
}

func withReason(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// label is the decision in one word.
func (d *DecisionPart) label() string {
	if d.BlockedReason != "" {
		return string(remedyv1.Blocked)
	}
	return d.Action
}

// reason is why remediation is blocked or ends.
func (d *DecisionPart) reason() string { return cmp.Or(string(d.BlockedReason), d.Why) }

// Key identifies a decision: a new one is logged, and events are recorded.
type Key struct {
	Verdict, Decision, Reason, Step string
}

// Key returns the key of the decision.
func (t *Trace) Key() Key { return key(&t.Verdict, &t.Decision) }

func key(v *VerdictPart, d *DecisionPart) Key {
	key := Key{Verdict: v.Kind, Decision: d.label(), Reason: cmp.Or(d.reason(), v.Reason)}
	if d.Step != nil {
		key.Step = fmt.Sprint(*d.Step)
	}
	return key
}

// Past is what a later trace is compared with. It is kept for every unhealthy or suspect target, so it has no messages.
type Past struct {
	Verdict  VerdictPart
	Decision DecisionPart
}

// Past returns what is kept of a trace.
func (t *Trace) Past() Past {
	past := Past{t.Verdict, t.Decision}
	past.Verdict.Message, past.Verdict.Until, past.Decision.Message, past.Decision.Until = "", nil, "", nil
	return past
}

// Key returns the key of the decision.
func (p *Past) Key() Key { return key(&p.Verdict, &p.Decision) }

// Fields returns the keys and values of the log line of the decision.
func (t *Trace) Fields() []any {
	key := t.Key()
	return []any{
		"check", t.Check, "target", t.Target, "verdict", key.Verdict, "decision", key.Decision, "reason", key.Reason, "step", key.Step,
	}
}
