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

// Reconcilers are one for each kind of checks. Every kind reports how its checks claim targets, and every reconciler reads the claims of
// all kinds.
func Reconcilers(e *healthcheck.Environment, takesOver intree.TakesOver) []*healthcheck.Reconciler {
	adoption := &intree.Adoption{Environment: e, TakesOver: takesOver}
	e.Indices = &healthcheck.Indices{All: slices.Concat(machinehealthcheck.Indices(), intree.Indices())}
	e.Claimants = []healthcheck.Claimant{
		machinehealthcheck.Claimant{Observe: e.Observe}, intree.Claimant{Adoption: adoption}, nodehealthcheck.Claimant{Observe: e.Observe},
	}
	return []*healthcheck.Reconciler{machinehealthcheck.New(e), intree.New(adoption)}
}
