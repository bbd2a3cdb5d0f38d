// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package notes converts the remediation history and the other facts that the manager has to remember into annotations, and back.
// Annotations survive a restart and a move to another management cluster; status does not.
//
// It reads and writes no objects. An invalid value counts as absent, and is written again when it is needed.
//
// Start at Notes.Apply, which sets annotations; each pair of functions, such as Storm and OfStorm, converts one fact.
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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Notes are annotations to set. An empty value removes the annotation.
type Notes map[string]string

// Precision is the precision of times in annotations. Truncate a time to it before comparing the two.
const Precision = time.Millisecond

// History returns the remediation history in the annotations of a target.
func History(annotations map[string]string) remediation.History {
	l := remediation.History{NotBefore: Time(annotations[remedyv1.NotBeforeAnnotation])}
	if attempts := annotations[remedyv1.AttemptsAnnotation]; attempts != "" {
		// One more must fit into what requests.Read accepts.
		if n, err := strconv.ParseInt(attempts, 10, 31); err == nil && n > 0 {
			l.Failures = int(n)
		}
	}
	if order, template, found := strings.Cut(annotations[remedyv1.TriedAnnotation], " "); found {
		if n, err := strconv.ParseInt(order, 10, 32); err == nil {
			l.Tried = remediation.StepID{Order: int32(n), Template: template}
		}
	}
	return l
}

// OfHistory returns the annotations of a remediation history.
func OfHistory(l *remediation.History) Notes {
	n := Notes{remedyv1.AttemptsAnnotation: "", remedyv1.NotBeforeAnnotation: Text(l.NotBefore), remedyv1.TriedAnnotation: ""}
	if l.Failures > 0 {
		n[remedyv1.AttemptsAnnotation] = strconv.Itoa(l.Failures)
	}
	if l.Tried != (remediation.StepID{}) {
		n[remedyv1.TriedAnnotation] = strconv.Itoa(int(l.Tried.Order)) + " " + l.Tried.Template
	}
	return n
}

// NodeGoneSince returns since when the Node of a Machine has been missing; zero if it is not.
func NodeGoneSince(annotations map[string]string) time.Time {
	return Time(annotations[remedyv1.NodeGoneSinceAnnotation])
}

// OfNodeGoneSince returns the annotation of that.
func OfNodeGoneSince(since time.Time) Notes {
	return Notes{remedyv1.NodeGoneSinceAnnotation: Text(since)}
}

// WithoutHistory removes the remediation history of a Machine, which is shared by all checks that monitor it.
func WithoutHistory() Notes {
	n := OfHistory(&remediation.History{})
	maps.Copy(n, OfNodeGoneSince(time.Time{}))
	return n
}

// ResponsibleCheck returns the responsible check of a Machine, as kind/name; empty if there is none.
func ResponsibleCheck(annotations map[string]string) string {
	return annotations[remedyv1.MarkedByAnnotation]
}

// OfResponsibleCheck returns the annotation of that. An empty name removes it, and that of OfOwnerRequest.
func OfResponsibleCheck(check string) Notes {
	n := Notes{remedyv1.MarkedByAnnotation: check}
	if check == "" {
		n[remedyv1.OwnerRequestedAtAnnotation] = ""
	}
	return n
}

// OwnerRequest returns when the responsible check of a Machine has set OwnerRemediated=False; zero if it has not.
func OwnerRequest(annotations map[string]string) time.Time {
	return Time(annotations[remedyv1.OwnerRequestedAtAnnotation])
}

// OfOwnerRequest returns the annotation of that, in the precision of conditions.
func OfOwnerRequest(at time.Time) Notes {
	return Notes{remedyv1.OwnerRequestedAtAnnotation: Text(at.Truncate(time.Second))}
}

// Storm returns the storm in the annotations of a check.
func Storm(annotations map[string]string) remediation.Storm {
	since := Time(annotations[remedyv1.StormSinceAnnotation])
	if since.IsZero() {
		return remediation.Storm{}
	}
	return remediation.Storm{Since: since, CooldownSince: Time(annotations[remedyv1.CooldownSinceAnnotation])}
}

// OfStorm returns the annotations of a storm.
func OfStorm(s remediation.Storm) Notes {
	return Notes{remedyv1.StormSinceAnnotation: Text(s.Since), remedyv1.CooldownSinceAnnotation: Text(s.CooldownSince)}
}

// Replacing returns the Machines with owner remediation that are not replaced yet, by name. It reads no more than the manager writes:
// each can cost a live read of its owner.
func Replacing(annotations map[string]string) []remediation.Replacement {
	var all []remediation.Replacement
	entries, _ := firstEntries(annotations[remedyv1.ReplacingAnnotation], remediation.HighestMaxInFlight)
	for _, entry := range entries {
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

// OfReplacing returns the annotation of that.
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

// RequestKind is a kind of requests that a check may have created. A cluster-scoped check notes their namespace, too.
type RequestKind struct {
	schema.GroupVersionKind
	Namespace string
}

// MaxRequestKinds is how many kinds of requests of a check are read and written. A check names ten templates at most.
const MaxRequestKinds = 32

// RequestKinds returns the kinds of requests that a check may have created: the first ones, because every user who can annotate the check
// can write the annotation, and each kind costs reads.
func RequestKinds(annotations map[string]string) []RequestKind {
	var all []RequestKind
	entries, _ := firstEntries(annotations[remedyv1.RequestKindsAnnotation], MaxRequestKinds)
	for _, entry := range entries {
		entry, namespace, _ := strings.Cut(entry, "@")
		if gvk, _ := schema.ParseKindArg(entry); gvk != nil {
			all = append(all, RequestKind{*gvk, namespace})
		}
	}
	return all
}

// HasMoreRequestKinds reports whether the annotation has more entries than RequestKinds reads. The manager does not write such a one.
func HasMoreRequestKinds(annotations map[string]string) bool {
	_, more := firstEntries(annotations[remedyv1.RequestKindsAnnotation], MaxRequestKinds)
	return more
}

// firstEntries returns the first entries of a list, and whether it has more.
func firstEntries(list string, limit int) (entries []string, more bool) {
	for entry := range strings.SplitSeq(list, ",") {
		if len(entries) == limit {
			return entries, true
		}
		entries = append(entries, entry)
	}
	return entries, false
}

// OfRequestKinds returns the annotation of that.
func OfRequestKinds(all []RequestKind) Notes {
	entries := make([]string, 0, len(all))
	for _, kind := range all[:min(len(all), MaxRequestKinds)] {
		entry := kind.Kind + "." + kind.Version + "." + kind.Group
		if kind.Namespace != "" {
			entry += "@" + kind.Namespace
		}
		entries = append(entries, entry)
	}
	return Notes{remedyv1.RequestKindsAnnotation: strings.Join(entries, ",")}
}

// Apply returns annotations with the notes, and whether that changes anything.
func (n Notes) Apply(annotations map[string]string) (map[string]string, bool) {
	changed := false
	noted := make(map[string]string, len(annotations)+len(n))
	maps.Copy(noted, annotations)
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

// Text returns a time as an annotation; empty for the zero time.
func Text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Truncate(Precision).Format(time.RFC3339Nano)
}

// Time returns the time in an annotation; zero if there is none.
func Time(text string) time.Time {
	// Usually there is none, and the error of time.Parse would cost more than the rest of the evaluation of a healthy target.
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return health.KnownTime(t.UTC().Truncate(Precision), time.Time{})
}
