// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package healthcheck is the one reconciler for checks of any kind: it reads a check with its targets, lets internal/checkup decide, and
// writes what was decided. It knows no kind of check. Each kind is an adapter in controllers/, which brings the ports in ports.go.
//
// Start in reconcile.go. read.go takes the snapshot of a reconcile, facts.go turns it into facts; preflight.go reads live; write.go and
// report.go write; record.go is what the process remembers of a check.
package healthcheck
