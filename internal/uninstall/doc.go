// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall removes Remedy from a management cluster and its workload clusters, and returns MachineHealthChecks of Cluster API to
// its own controller. It implements kubectl remedy release. The manager needs neither to run nor to be installed.
//
// An object has a trace of Remedy if its metadata has a key with Remedy's prefix, also if a person added it. The package keeps no state
// between two runs, so an interrupted or incomplete run is continued by running it again.
//
// Start reading in uninstall.go (everything) and release.go (single checks).
package uninstall
