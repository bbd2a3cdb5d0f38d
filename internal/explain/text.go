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
	// MaxMessage is how many runes a message has at the most.
	MaxMessage = 1024
	// MaxNote is how many bytes the message of an event has at the most: the API server refuses longer ones.
	MaxNote = 1024
	// maxCauses leaves room for the decision that follows the causes in one message.
	maxCauses = 640
	// maxForeign is how many runes of somebody else's words are repeated.
	maxForeign = 256
	// maxListed is how many items are listed until the rest is only counted.
	maxListed = 10
)

// foreign makes words from outside fit into a sentence of ours. They may contain anything: lines that look like ours, characters that turn the
// text around, or a megabyte of it. What is left is one line of what can be printed.
func foreign(words string) string {
	var b strings.Builder
	gap, length := false, 0
	for _, r := range words {
		switch {
		case length > maxForeign:
			return cut(b.String(), maxForeign)
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = length > 0
		case r == utf8.RuneError || !unicode.IsPrint(r):
		default:
			if gap {
				b.WriteByte(' ')
				gap, length = false, length+1
			}
			b.WriteRune(r)
			length++
		}
	}
	return cut(b.String(), maxForeign)
}

// or is what words from outside are, or something to say where they are missing.
func or(words, otherwise string) string {
	if words = foreign(words); words != "" {
		return words
	}
	return otherwise
}

// cut shortens a text to so many runes, and shows that it did.
func cut(text string, runes int) string {
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	kept := 0
	for i := range text {
		if kept == runes-1 {
			return strings.TrimRight(text[:i], " ") + "…"
		}
		kept++
	}
	return text
}

// cutBytes shortens a text to so many bytes, without breaking a rune.
func cutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimRight(text[:end], " ") + "…"
}

// listed joins items as far as they fit into so many runes, and counts those that do not.
func listed(items []string, separator string, runes int) string {
	rest := func(from int) string {
		if from == len(items) {
			return ""
		}
		return fmt.Sprintf("%s… and %d more", separator, len(items)-from)
	}
	joined := ""
	for i, item := range items {
		if i == 0 {
			joined = cut(item, max(1, runes-utf8.RuneCountInString(rest(1))))
			continue
		}
		longer := joined + separator + item
		if i == maxListed || utf8.RuneCountInString(longer+rest(i+1)) > runes {
			return joined + rest(i)
		}
		joined = longer
	}
	return joined
}

// names lists names in alphabetical order, each once.
func names(all []string, runes int) string {
	sorted := make([]string, 0, len(all))
	for _, name := range all {
		sorted = append(sorted, foreign(name))
	}
	slices.Sort(sorted)
	return listed(slices.Compact(sorted), ", ", runes)
}

// at is a time as everybody writes it down. Messages say when, and never how long ago: that would change by itself.
func at(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// when adds a time to a sentence, where there is one.
func when(word string, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " " + word + " " + at(t)
}

// counted is a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// sentences joins what there is to say to one paragraph.
func sentences(all ...string) string {
	said := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	return cut(strings.Join(said, ". "), MaxMessage)
}
