// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package uninstall takes everything of ours off a management cluster and its workload clusters: what `kubectl remedy release` does. It needs no manager,
// neither a running one nor one that is still installed, and it can be run again until nothing is left.
//
//	every object of the cluster ──▶ what of it is ours? ──▶ take it off, at the version that was seen
//
// Nothing is remembered between two runs, and nothing is found by what a manager says: whatever carries our prefix is ours.
package uninstall
