// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report merges conditions into the status of checks and Machines, and compares a reconcile with the one before to find what is
// new.
//
// It does not word messages: package explain does. It does no I/O: package healthcheck writes objects and records events.
//
// Start at Status for the status of a check, at HasConditions and SetConditions for conditions of Machines, and at Memory for what is new.
package report
