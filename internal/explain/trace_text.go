// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// String is the trace as the command line shows it.
func (t *Trace) String() string {
	var b strings.Builder
	title := t.Target
	if t.Node != "" && t.Node != t.Target {
		title += ", Node " + t.Node
	}
	if t.Check != "" {
		title += ", by " + t.Check
	}
	b.WriteString(foreign(title) + "\n")
	section(&b, "gates", t.Gates)
	section(&b, "rules", t.Rules)
	row(&b, "  ", "verdict", t.Verdict.Kind, stated(t.Verdict.Reason, t.Verdict.Message))
	section(&b, "guards", t.Guards)
	if len(t.LastLooks) > 0 {
		section(&b, "last look", t.LastLooks)
	}
	row(&b, "  ", "decision", t.Decision.word(), stated(t.reason(), strings.TrimPrefix(t.Decision.Message, heldPrefix)))
	return b.String()
}

func section(b *strings.Builder, name string, lines []Line) {
	fmt.Fprintf(b, "  %s\n", name)
	for i := range lines {
		row(b, "    ", lines[i].Name, string(lines[i].Answer), lines[i].Says)
	}
}

// row has its columns in the same places everywhere. The longest name has 26 letters, the longest answer 13.
func row(b *strings.Builder, indent, name, answer, says string) {
	b.WriteString(strings.TrimRight(fmt.Sprintf("%s%-*s  %-13s  %s", indent, 30-len(indent), name, answer, says), " ") + "\n")
}

func stated(reason, message string) string {
	if reason == "" || message == "" {
		return reason + message
	}
	return reason + ": " + message
}

// word is the decision in one word.
func (d *DecisionPart) word() string {
	if d.HoldReason != "" {
		return string(remedyv1.Held)
	}
	return d.Action
}

// reason is the cause that stands behind the decision: that of a hold or of an ending.
func (t *Trace) reason() string {
	if t.Decision.HoldReason != "" {
		return string(t.Decision.HoldReason)
	}
	return t.Decision.Why
}

// Key tells decisions apart: as long as it is the same, there is nothing new to log.
type Key struct {
	Verdict, Decision, Reason, Step string
}

// Key is that of the trace.
func (t *Trace) Key() Key {
	key := Key{Verdict: t.Verdict.Kind, Decision: t.Decision.word(), Reason: t.reason()}
	if key.Reason == "" {
		key.Reason = t.Verdict.Reason
	}
	if t.Decision.Step != nil {
		key.Step = fmt.Sprint(*t.Decision.Step)
	}
	return key
}

// Fields are what a log line says about the target, as keys and values in a fixed order.
func (t *Trace) Fields() []any {
	key := t.Key()
	return []any{"check", t.Check, "target", t.Target, "verdict", key.Verdict, "decision", key.Decision, "reason", key.Reason, "step", key.Step}
}
