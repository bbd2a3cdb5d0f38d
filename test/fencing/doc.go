// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fencing runs the managers of Remedy with real parts: an API server with RBAC on, kube-controller-manager, fence agents and
// management controllers that use IPMI. Only the kubelets, the scheduler and the power of the machines are played. Its tests need the
// build tag fencing, and the packages of 'make deps-debian'. Start reading at World.
package fencing
