// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stage runs the manager's reconcilers in a namespace of a real API server, and plays everything around them: Machines and their
// owners, Nodes and their kubelets, remediators, the in-tree MachineHealthCheck controller, crashes and broken connections. What a
// test leaves behind is inspected at its end: see inspect.go.
//
// It is for the tests of internal/healthcheck and of the adapters in controllers. It does not run Cluster API: test/world does.
//
// Start reading in stage.go (a namespace), instance.go (the reconcilers) and idle.go (how a test waits for them).
package stage
