// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodehealthcheck looks after Nodes, of this cluster or of workload clusters.
package nodehealthcheck
