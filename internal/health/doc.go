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
//
// gates.go lists, in order, the reasons not to judge a target at all: the first that matches wins. rules.go lists what can be
// wrong with a target that is judged: all of them speak, so that people see every cause. Each gate and each rule has a file of its own.
//
// The package knows no Machine and no Cluster of an API. Whoever reads objects translates them into the facts of snapshot.go,
// so that one set of rules serves Machines and bare Nodes alike.
package health
