// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers lists the kinds of checks that the manager reconciles. Each kind is an adapter of internal/healthcheck in a folder of
// its own: machinehealthcheck for the Machines of Cluster API, nodehealthcheck for Nodes, intree for MachineHealthChecks of Cluster API
// that are adopted.
//
// The adapters have the same file names, so that the difference between the folders is the difference between the kinds.
package controllers
