// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controller reconciles NodeFences: it reads what exp/fencing/lifecycle decides with, writes the record, and performs the effect.
//
// It does not decide. What it reads for a decision it reads live, not from a cache, because a fence cannot be undone.
//
// Start with Reconcile in reconciler.go. target.go finds the Node of a NodeFence, observe.go reads everything else, effects.go changes
// objects, workload.go reads and changes the Pods of the Node, and messages.go has the sentences for users.
package controller
