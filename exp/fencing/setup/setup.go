// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package setup adds the reconcilers of all kinds of fencing to a manager.
package setup

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/checks"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/controller"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/noderemedy"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/clusterapi"
)

// Reconcilers are those of fencing. Each is added once.
type Reconcilers struct{ fences, remedies bool }

// SetUp adds the reconcilers whose kinds are served.
func (r *Reconcilers) SetUp(mgr ctrl.Manager, api clusterapi.Discoverer, o controller.Options) error {
	if !r.fences {
		if err := controller.SetupWithManager(mgr, o); err != nil {
			return err
		}
		if err := setUpChecks(mgr, o); err != nil {
			return err
		}
		r.fences = true
	}
	// Fences work without NodeHealthChecks.
	served := clusterapi.OwnKinds(api, "noderemedies", "nodefencetemplates", "nodehealthchecks") == nil
	if r.remedies || !served {
		return nil
	}
	err := (&noderemedy.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, WatchFilter: o.WatchFilter, OwnNodesNamespace: o.OwnNodesNamespace,
	}).SetupWithManager(mgr)
	r.remedies = err == nil
	return err
}

// setUpChecks adds the reconciler that checks the devices of FenceProfiles.
func setUpChecks(mgr ctrl.Manager, o controller.Options) error {
	counted, err := checks.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	return (&checks.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: o.Events, Metrics: counted, Clock: o.Clock,
		Nodes: func(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
			return o.Clusters.Get(cluster).Client(ctx)
		},
		Observe: o.Observe, WatchFilter: o.WatchFilter, OwnNodesNamespace: o.OwnNodesNamespace,
	}).SetupWithManager(mgr)
}
