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
)

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
