// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// String returns the explanation as text: the answer first, and all rules and guards after it.
func (x *Explanation) String() string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-12s %s\n", name+":", value)
		}
	}
	line("Machine", x.Machine)
	line("Node", x.Node)
	line("Cluster", cmp.Or(x.Cluster, "this cluster"))
	line("Check", x.Check)
	if x.Mode == remedyv1.ObserveMode {
		line("Mode", "Observe: the check starts no remediation")
	}
	if t := x.Evaluation; t != nil {
		line("Health", joined(t.Verdict.Kind, t.Verdict.Reason, t.Verdict.Message))
		reason := string(t.Decision.BlockedReason)
		if reason == "" {
			reason = t.Decision.Why
		}
		line("Decision", joined(string(t.Decision.Outcome), reason, t.Decision.Message))
		line("Counted", listed(x.CountedUnhealthy))
		line("Advice", x.Advice)
		if next := utc(x.NextCheckTime); next != "" || t.Decision.Outcome == remedyv1.Blocked {
			line("Next check", cmp.Or(next, "when the facts change; no time is set"))
		}
		line("Request", x.Request)
	}
	// Usually the manager reports the same.
	if r := x.Reported; r != nil && (x.Evaluation == nil || r.Decision != x.Evaluation.Decision.Outcome ||
		r.BlockedReason != x.Evaluation.Decision.BlockedReason) {
		line("Reported", joined(string(r.Decision), string(r.BlockedReason), r.Message))
	}
	if t := x.Evaluation; t == nil || !strings.HasPrefix(x.ReportedReady, notReady+string(t.Decision.BlockedReason)+")") {
		line("Ready", x.ReportedReady)
	}
	for _, why := range x.Responsible {
		line("Note", why)
	}
	for _, why := range x.Unread {
		line("Unread", why)
	}
	if x.Evaluation != nil {
		fmt.Fprintf(&b, "\nEvaluated at %s with your permissions:\n%s", utc(x.EvaluatedTime), x.Evaluation)
	}
	return b.String()
}

// notReady begins the text of the condition Ready of a check that needs a person.
const notReady = string(metav1.ConditionFalse) + " ("

// mostListed is how many names are printed.
const mostListed = 10

// listed are the first names, and how many more there are.
func listed(names []string) string {
	if len(names) > mostListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
	}
	return strings.Join(names, ", ")
}

// joined is a word, its reason and its message.
func joined(word, reason, message string) string {
	if word == "" {
		word = "Nothing to do"
	}
	for _, prefix := range []string{word + ": ", string(remedyv1.Blocked) + ": "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if reason != "" && reason != word {
		word += " (" + reason + ")"
	}
	if message != "" {
		word += ": " + message
	}
	return word
}

func utc(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
