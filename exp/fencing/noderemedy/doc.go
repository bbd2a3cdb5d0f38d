// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package noderemedy reconciles NodeRemedies: it generates a NodeHealthCheck, NodeFenceTemplates and a FenceProfile from each.
//
// It remediates nothing. The manager of checks reconciles the NodeHealthCheck, and exp/fencing/controller reconciles the NodeFences.
//
// Start with Objects in objects.go, which decides what is generated. reconciler.go writes it, and prune.go deletes what is not needed.
package noderemedy
