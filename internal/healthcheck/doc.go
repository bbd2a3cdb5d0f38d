// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package healthcheck is the one reconciler for checks of any kind: it reads a check with its targets, lets internal/pipeline decide, and
// executes the decisions. It does not depend on a kind of check: each kind is an adapter in controllers/ that implements ports.go.
//
// Start in reconcile.go. read.go reads the snapshot of a reconcile, facts.go converts it into facts; preflight.go reads live; write.go and
// report.go write; record.go holds the state of a check in memory.
package healthcheck
