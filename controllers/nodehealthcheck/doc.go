// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealthcheck reconciles NodeHealthChecks, of the management cluster or of workload clusters. It is empty so far.
package nodehealthcheck
