// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pipeline is the sequence of every reconcile: it evaluates, plans, runs preflight checks, acts and reports. It has the clock.
//
//	watch ──▶ Snapshot ──▶ Evaluate ──▶ Plan ──▶ Apply ──▶ Report
//
// It does not read or write objects: a Client does that. Start with Run in pipeline.go, then read act.go and preflight.go.
package pipeline
