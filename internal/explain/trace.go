// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Facts are what a trace is made of. Name and Decision are needed; a stray has no verdict. The others let it say more.
type Facts struct {
	// Check names the check, as kind and namespace/name.
	Check string
	// Name is that of the target. Node is that of its Node.
	Name, Node string
	Verdict    *health.Verdict
	Decision   *remediation.Decision
	// Cluster are the facts that the gates looked at, Target and Policy what the plan rests on.
	Cluster *health.ClusterFacts
	Target  *remediation.Target
	Policy  *remediation.Policy
}

// Trace is what was seen and decided about one target, in the order of evaluation. Status, events, logs, metrics and the command line print it.
type Trace struct {
	Check  string `json:"check,omitempty"`
	Target string `json:"target"`
	Node   string `json:"node,omitempty"`
	// State is the one that metrics count.
	State State  `json:"state"`
	Gates []Line `json:"gates"`
	Rules []Line `json:"rules"`
	// Verdict follows from gates and rules, and Decision from guards.
	Verdict   VerdictPart  `json:"verdict"`
	Guards    []Line       `json:"guards"`
	LastLooks []Line       `json:"lastLooks,omitempty"`
	Decision  DecisionPart `json:"decision"`
}

// Line is what one gate, rule or guard said.
type Line struct {
	Name   string `json:"name"`
	Answer Answer `json:"answer"`
	// Says is what it saw, where there is anything to tell.
	Says string `json:"says,omitempty"`
}

// Answer is what a gate, a rule or a guard can say. The set is closed.
type Answer string

// The answers.
const (
	// Passed is a gate or a guard that has nothing against it.
	Passed Answer = "passed"
	// Closed is a gate that keeps the target from being judged.
	Closed Answer = "closed"
	// LetThrough is a gate that lets it past all others.
	LetThrough Answer = "let through"
	// Held is a guard that holds the target.
	Held Answer = "held"
	// Met is a rule whose trouble has lasted for long enough.
	Met Answer = "met"
	// Due is a rule whose trouble has not.
	Due Answer = "due"
	// Nothing is a rule that has found nothing.
	Nothing Answer = "nothing"
	// NotAsked is one that comes after a decision.
	NotAsked Answer = "not asked"
	// OfNoConcern is a guard that has no say in a step of this kind.
	OfNoConcern Answer = "of no concern"
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
	// Outcome is what status shows; empty for a target about which it says nothing.
	Outcome remedyv1.Decision `json:"outcome,omitempty"`
	Action  string            `json:"action"`
	// HoldReason is why nothing is done, Why is why something ends.
	HoldReason remedyv1.HoldReason `json:"holdReason,omitempty"`
	Why        string              `json:"why,omitempty"`
	Until      *metav1.Time        `json:"until,omitempty"`
	Step       *int32              `json:"step,omitempty"`
	Template   string              `json:"template,omitempty"`
	Attempt    int                 `json:"attempt,omitempty"`
	InFlight   bool                `json:"inFlight,omitempty"`
	Message    string              `json:"message,omitempty"`
}

// NewTrace makes the trace of a target. It costs more than the decision did: nobody needs it of targets that are well.
func NewTrace(f *Facts) Trace {
	t := Trace{Check: f.Check, Target: f.Name, Node: f.Node, State: StateOf(f.Verdict, f.Decision)}
	if f.Verdict != nil {
		t.Gates, t.Rules = gateLines(f), ruleLines(f)
		t.Verdict = VerdictPart{
			Kind: kindOf(f.Verdict), Reason: string(f.Verdict.Reason), Since: timeOrNil(f.Verdict.Since), Until: timeOrNil(f.Verdict.Until),
			Message: VerdictSentence(f.Verdict, f.Node),
		}
	} else {
		t.Gates, t.Rules = unasked(health.Gates()), unasked(health.Rules())
		t.Verdict = VerdictPart{Kind: string(remediation.NotLookedAfter)}
	}
	t.Guards, t.LastLooks = guardLines(f)
	t.Decision = decisionPart(f)
	return t
}

func decisionPart(f *Facts) DecisionPart {
	d := f.Decision
	part := DecisionPart{
		Action: actionWords[d.Action], HoldReason: remedyv1.HoldReason(d.Hold.Reason), Why: string(d.Why), Until: timeOrNil(d.Until),
		Template: foreign(d.Step.Template), Attempt: d.Attempt, InFlight: d.InFlight, Message: DecisionSentence(f),
	}
	part.Outcome = outcome(f.Verdict, d)
	if part.Outcome == remedyv1.Held && part.HoldReason == "" {
		// What is cleared away leaves the target held for the same cause.
		part.HoldReason = remedyv1.HoldReason(d.Why)
	}
	if f.stepped() {
		order := d.Step.Order
		part.Step = &order
	}
	return part
}

// stepped says whether the step has a number worth telling: a single template has none.
func (f *Facts) stepped() bool {
	if f.Decision.Step == (remediation.StepID{}) {
		return f.Decision.Action == remediation.GiveMark && f.Policy != nil && len(f.Policy.Steps) > 1
	}
	return f.Policy == nil || len(f.Policy.Steps) > 1
}

// outcome is what status shows of a decision.
func outcome(v *health.Verdict, d *remediation.Decision) remedyv1.Decision {
	switch {
	case d.Hold.Reason == remediation.Observing:
		return remedyv1.Observed
	case d.Hold.Reason != "":
		return remedyv1.Held
	case d.InFlight:
		return remedyv1.Remediating
	case v == nil || v.Kind != health.Unhealthy && v.Kind != health.Suspect:
		return ""
	case v.Kind == health.Suspect || d.Why == remediation.Observing:
		return remedyv1.Observed
	default:
		return remedyv1.Held
	}
}

var actionWords = map[remediation.Action]string{
	remediation.None:        "None",
	remediation.Wait:        "Wait",
	remediation.MakeRequest: "MakeRequest",
	remediation.GiveMark:    "GiveMark",
	remediation.GiveUp:      "GiveUp",
	remediation.Withdraw:    "Withdraw",
	remediation.TakeBack:    "TakeBack",
	remediation.Unmark:      "Unmark",
}

// KindHealthy and KindUnhealthy are kinds of verdicts as people read them; the others are only compared here.
const (
	KindHealthy   = "Healthy"
	KindUnhealthy = "Unhealthy"

	kindSkipped      = "Skipped"
	kindSuspect      = "Suspect"
	kindUndetermined = "Undetermined"
)

func kindOf(v *health.Verdict) string {
	switch v.Kind {
	case health.Skipped:
		return kindSkipped
	case health.Healthy:
		return KindHealthy
	case health.Suspect:
		return kindSuspect
	case health.Unhealthy:
		return KindUnhealthy
	case health.Undetermined:
	}
	return kindUndetermined
}

// timeOrNil is a time as the API writes it down, to the second.
func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC().Truncate(time.Second)}
}
