// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package site checks the built site of 'make site': its links, its search index, and that a browser loads nothing of another host. The
// links of the Markdown files are checked by test/houserules. Start reading with Check.
package site
