// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attacks has no code. Its tests perform attacks against the manager, on real API servers.
package attacks
