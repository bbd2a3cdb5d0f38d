// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain turns findings and holds into the words that people read: in conditions, events, logs, metrics and on the
// command line. It is pure and it is the only source of words: the same cause reads the same everywhere, and an unchanged
// world leaves every byte unchanged.
//
// words.go says what every reason has: a meaning, something a person can do about it, and a sentence; words_*.go have them, in the order
// of evaluation. docs/rules.md and docs/reasons.md are made of them. A Trace is what all gates, rules and guards said about one target;
// everything that is printed about a target is printed from it. A Pass is what a check reports about all of them.
//
// Messages are one paragraph each, sorted and bounded. They say when something was or will be, and never how long ago. Words from outside are
// cut, and cannot look like ours.
package explain
