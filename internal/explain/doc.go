// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain writes every message of the manager about checks and targets: conditions, events, log lines, status, and the reasons in
// docs/rules.md and docs/reasons.md. A cause has the same words everywhere.
//
// It decides nothing: packages health and remediation do. It reads and writes nothing: package report writes conditions, and package
// healthcheck records events.
//
// Start at Reasons in reasons.go, which returns every reason with its documentation and its sentence. A Trace has the results of all
// gates, rules and guards for one target; status, events and log lines are made from it. Conditions and Status report a whole check.
//
// A message is one paragraph of bounded length with absolute times, so it changes only if its cause does. Text from other components is
// shortened and contains no control characters.
package explain
