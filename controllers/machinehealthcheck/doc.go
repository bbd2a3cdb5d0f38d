// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machinehealthcheck looks after the Machines of Cluster API workload clusters.
package machinehealthcheck
