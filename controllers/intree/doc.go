// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intree adopts MachineHealthChecks of Cluster API: it decides, step by step, which of them are the manager's, presents those as
// checks of Machines to internal/healthcheck, and gives them back to the in-tree controller. What it decides is internal/takeover; Machines
// are read and written by controllers/machinehealthcheck.
package intree
