// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report is the only writer of our status and of conditions on Machines. Events come after the write that made them true.
package report
