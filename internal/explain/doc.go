// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain turns findings and holds into the words that people read: in conditions, events, logs, metrics and on the
// command line. It is pure and it is the only source of words: the same cause reads the same everywhere, and an unchanged
// world leaves every byte unchanged.
package explain
