// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package medik8s converts NodeHealthChecks of medik8s into those of Remedy, for kubectl remedy convert. It writes nothing to a cluster.
//
// Start at Convert, and at Documents for the objects of a file. It is not for the manager.
package medik8s
