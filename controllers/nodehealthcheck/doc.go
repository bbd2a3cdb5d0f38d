// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealthcheck is the adapter for NodeHealthChecks: it determines which Nodes a check selects, what is known of them, and where
// their annotations are written. What is decided, and when, is internal/healthcheck.
package nodehealthcheck
