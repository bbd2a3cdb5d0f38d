// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics exports Prometheus metrics of checks. Labels name the check, never a Node or a Machine, so the number of series depends
// only on the number of checks. The series of a check are removed with the check.
//
// It does not decide what a value means: states and reasons are those of internal/explain.
//
// Start at families.go, which lists all metrics; docs/metrics.md is generated from it.
package metrics
