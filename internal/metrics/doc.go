// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics counts what checks see and do, for Prometheus. The words are those of internal/explain, and the labels name the check, never
// a Node or a Machine: how many series there are depends on the number of checks only. What is told of a check goes when the check goes.
//
// docs/metrics.md is made from the table in families.go.
package metrics
