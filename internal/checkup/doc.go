// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checkup is the sequence of every reconcile: it evaluates, plans, runs preflight checks, acts and reports. It has the clock.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//
// It does not read or write objects: a Case does that. Start with Run in checkup.go, then read act.go and preflight.go.
package checkup
