// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck is the adapter for MachineHealthChecks: it determines which Machines a check selects, what is known of them,
// and how their conditions are written. What is decided, and when, is internal/healthcheck.
package machinehealthcheck
