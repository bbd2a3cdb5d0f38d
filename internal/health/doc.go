// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers: is this target healthy, and why?
//
// It is pure. Facts and a time go in (a Snapshot, a Policy, now), verdicts come out; nothing is read, written, logged or
// remembered, and the time is never asked for. The linter refuses clients, loggers, clocks and randomness here. That is what
// makes every verdict testable, explainable and the same on every instance.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//	                       ~~~~~~~~
//	                       here
package health
