// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/intree"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// Kind is a kind of checks.
type Kind struct {
	*healthcheck.Reconciler
	// NeedsClusterAPI: the reconciler is set up when Cluster API is served.
	NeedsClusterAPI bool
}

// Reconcilers returns a reconciler for each kind of checks. Every kind reports how its checks claim targets, and every reconciler reads the
// claims of all kinds.
func Reconcilers(e *healthcheck.Environment, policy intree.AdoptionPolicy) []Kind {
	adoption := &intree.Adoption{Environment: e, AdoptionPolicy: policy}
	e.Indices = slices.Concat(machinehealthcheck.Indices(), intree.Indices(), nodehealthcheck.Indices())
	e.Claimants = []healthcheck.Claimant{
		machinehealthcheck.Claimant{Observe: e.Observe}, intree.Claimant{Adoption: adoption}, nodehealthcheck.Claimant{Observe: e.Observe},
	}
	return []Kind{
		{Reconciler: machinehealthcheck.New(e), NeedsClusterAPI: true},
		{Reconciler: intree.New(adoption), NeedsClusterAPI: true},
		{Reconciler: nodehealthcheck.New(e)},
	}
}
