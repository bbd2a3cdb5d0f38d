// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what a NodeFence does next. It is pure: Step gets the record (the status of the NodeFence), what was observed
// and the time, and returns the next record and at most one effect.
//
// The record is written before the effect. Every effect follows from the record and the observation alone, so a crash repeats at most one
// effect, and each can be repeated.
//
// It does not read or write objects: exp/fencing/controller does. It has no sentences for users: wording in that package has.
//
// # Where to start
//
// Step in step.go has the states, in the order of a fence. Each state is one method: admit, isolate, waitForPower, switchOff, switchOn,
// undo, finish, failed. admission.go has what keeps a fence from beginning, action.go what a Job changes in the record.
package lifecycle
