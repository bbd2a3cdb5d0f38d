// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health decides whether a target is healthy, and why.
//
// It is pure: a Snapshot, a Policy and the time go in, verdicts come out. Nothing is read, written, logged or remembered, and the time is
// an argument. The linter rejects clients, loggers, clocks and randomness. So every verdict can be tested, explained and repeated. It does
// not decide what to do about an unhealthy target (package remediation).
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//	                       ~~~~~~~~
//	                       here
//
// Start with gates.go, which lists the reasons not to evaluate a target: the first that matches wins. Then read rules.go, which lists what
// can be wrong with a target: all of them are evaluated, so that users see every cause.
//
// The package does not depend on the API of Machines or Clusters. Callers convert objects to the facts of snapshot.go, so that the same
// rules apply to Machines and Nodes.
package health
