// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package diagnose answers questions about targets and checks for kubectl remedy: why is this Machine or Node (not) being remediated, and
// when will it be? It evaluates checks with the code of the manager and with the permissions of the user, and writes nothing.
//
// Start at Explain, Statuses and HistoryOf. It is not for the manager.
package diagnose
