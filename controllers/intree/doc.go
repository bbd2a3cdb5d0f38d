// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intree adopts and releases MachineHealthChecks of Cluster API, and converts adopted checks for internal/healthcheck. It executes
// the decisions of internal/adoption. The Source and the Actor of controllers/machinehealthcheck read and write the Machines.
package intree
