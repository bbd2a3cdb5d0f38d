// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notes turns what has to be remembered into annotations, and back. Annotations survive a restart and a move to another management
// cluster; status does not.
//
// Whatever cannot be read counts as not written: somebody has changed it by hand, and it is written anew when it is needed.
package notes

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Notes are annotations to be set, or to be removed where the value is empty.
type Notes map[string]string

// Precision is how exactly times are noted down. Who compares a time with a note must not be more exact.
const Precision = time.Millisecond

// Ledger is what is remembered about a target's remediations.
func Ledger(annotations map[string]string) remediation.Ledger {
	l := remediation.Ledger{NotBefore: Time(annotations[remedyv1.NotBeforeAnnotation])}
	if attempts := annotations[remedyv1.AttemptsAnnotation]; attempts != "" {
		if n, err := strconv.Atoi(attempts); err == nil && n > 0 {
			l.Failures = n
		}
	}
	if order, template, found := strings.Cut(annotations[remedyv1.TriedAnnotation], " "); found {
		if n, err := strconv.ParseInt(order, 10, 32); err == nil {
			l.Tried = remediation.StepID{Order: int32(n), Template: template}
		}
	}
	return l
}

// OfLedger are the annotations of a ledger.
func OfLedger(l *remediation.Ledger) Notes {
	n := Notes{remedyv1.AttemptsAnnotation: "", remedyv1.NotBeforeAnnotation: Text(l.NotBefore), remedyv1.TriedAnnotation: ""}
	if l.Failures > 0 {
		n[remedyv1.AttemptsAnnotation] = strconv.Itoa(l.Failures)
	}
	if l.Tried != (remediation.StepID{}) {
		n[remedyv1.TriedAnnotation] = strconv.Itoa(int(l.Tried.Order)) + " " + l.Tried.Template
	}
	return n
}

// NodeGoneSince is since when the Node of a Machine is gone; zero if nobody has noted that.
func NodeGoneSince(annotations map[string]string) time.Time {
	return Time(annotations[remedyv1.NodeGoneSinceAnnotation])
}

// OfNodeGoneSince is the annotation of that.
func OfNodeGoneSince(since time.Time) Notes {
	return Notes{remedyv1.NodeGoneSinceAnnotation: Text(since)}
}

// WithoutHistory removes the remediation history of a Machine, which is shared by all checks that monitor it.
func WithoutHistory() Notes {
	n := OfLedger(&remediation.Ledger{})
	maps.Copy(n, OfNodeGoneSince(time.Time{}))
	return n
}

// Author names the check that marked a Machine, as kind/name; empty if none did.
func Author(annotations map[string]string) string {
	return annotations[remedyv1.MarkedByAnnotation]
}

// OfAuthor is the annotation of that. A check without a name takes it away.
func OfAuthor(check string) Notes { return Notes{remedyv1.MarkedByAnnotation: check} }

// Storm is the storm that a check remembers.
func Storm(annotations map[string]string) remediation.Storm {
	s := remediation.Storm{Since: Time(annotations[remedyv1.StormSinceAnnotation]), CooldownSince: Time(annotations[remedyv1.CooldownSinceAnnotation])}
	if s.Since.IsZero() {
		return remediation.Storm{}
	}
	return s
}

// OfStorm are the annotations of a storm.
func OfStorm(s remediation.Storm) Notes {
	return Notes{remedyv1.StormSinceAnnotation: Text(s.Since), remedyv1.CooldownSinceAnnotation: Text(s.CooldownSince)}
}

// Replacing are the Machines that were handed to their owner and are not replaced yet, by name.
func Replacing(annotations map[string]string) []remediation.Replacement {
	var all []remediation.Replacement
	for _, entry := range strings.Split(annotations[remedyv1.ReplacingAnnotation], ",") {
		words := strings.Split(entry, " ")
		if len(words) < 2 || len(words) > 3 || words[0] == "" || words[1] == "" {
			continue
		}
		r := remediation.Replacement{Target: words[0], Owner: words[1]}
		if len(words) == 3 {
			r.GoneSince = Time(words[2])
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b remediation.Replacement) int { return cmp.Compare(a.Target, b.Target) })
	return slices.CompactFunc(all, func(a, b remediation.Replacement) bool { return a.Target == b.Target })
}

// OfReplacing is the annotation of that.
func OfReplacing(all []remediation.Replacement) Notes {
	entries := make([]string, 0, len(all))
	for i := range all {
		entry := all[i].Target + " " + all[i].Owner
		if !all[i].GoneSince.IsZero() {
			entry += " " + Text(all[i].GoneSince)
		}
		entries = append(entries, entry)
	}
	return Notes{remedyv1.ReplacingAnnotation: strings.Join(entries, ",")}
}

// RequestKinds are the kinds of requests that a check may have created.
func RequestKinds(annotations map[string]string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, entry := range strings.Split(annotations[remedyv1.RequestKindsAnnotation], ",") {
		if gvk, _ := schema.ParseKindArg(entry); gvk != nil {
			all = append(all, *gvk)
		}
	}
	return all
}

// OfRequestKinds is the annotation of that.
func OfRequestKinds(all []schema.GroupVersionKind) Notes {
	entries := make([]string, 0, len(all))
	for _, gvk := range all {
		entries = append(entries, gvk.Kind+"."+gvk.Version+"."+gvk.Group)
	}
	return Notes{remedyv1.RequestKindsAnnotation: strings.Join(entries, ",")}
}

// On puts the notes on annotations, and says whether that changes anything.
func (n Notes) On(annotations map[string]string) (map[string]string, bool) {
	changed := false
	noted := make(map[string]string, len(annotations)+len(n))
	for key, value := range annotations {
		noted[key] = value
	}
	for key, value := range n {
		before, found := noted[key]
		switch {
		case value == "" && found:
			delete(noted, key)
			changed = true
		case value != "" && value != before:
			noted[key] = value
			changed = true
		}
	}
	return noted, changed
}

// Text is a time as it is noted down; empty if it is none.
func Text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(Precision).Format(time.RFC3339Nano)
}

// Time is a time as it was noted down; zero if it is none.
func Time(text string) time.Time {
	// There is none nearly always, and to find out why that is no time costs more than all the rest of a healthy target.
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC().Truncate(Precision)
}
