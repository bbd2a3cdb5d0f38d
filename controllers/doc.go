// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers holds two thin adapters between the API server and the pure core:
// machinehealthcheck for the Machines of Cluster API, nodehealthcheck for bare Nodes.
//
// Both folders have the same file names, so that the difference between the folders is the list of differences between the kinds.
package controllers
