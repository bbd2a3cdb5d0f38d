// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation decides what to do about unhealthy targets, and what blocks that.
//
// It is pure, as package health is: it reads and writes nothing, and takes the time as an argument. It does not decide what is unhealthy
// (package health), and has no messages (package explain). For every unhealthy target it returns one action, or one reason why there is
// none.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//	                                    ~~~~
//	                                    here
//
// Start with guards.go, which lists everything that can block a remediation, and plan.go. Before each write, preflight.go compares the
// decision with facts that were read live. writes.go lists the writes of a decision.
package remediation
