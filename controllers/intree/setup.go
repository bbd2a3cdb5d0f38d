// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package intree

import (
	"context"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/machinehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
)

// Checks of Cluster API are not deleted: but some API servers let no client set an owner that could not delete the object.
//
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch

// Kind is the name of the kind in annotations, messages and metrics. It differs from that of Remedy, because a check of each kind may have
// the same name and namespace.
const Kind = string(metrics.InTreeMachineHealthCheck)

// AdoptionPolicy are the flags that select which in-tree checks are adopted.
type AdoptionPolicy struct {
	// OptIn: those with the annotation, and generated ones whose Cluster has it; All: all of them. Replace: all, and the in-tree
	// controller does not run.
	OptIn, All, Replace bool
}

// Adoption adopts and releases in-tree checks.
type Adoption struct {
	AdoptionPolicy
	*healthcheck.Environment
	// memories are the memories of this process, by the names of checks.
	memories sync.Map
}

// New returns the reconciler of adopted in-tree checks. It also runs if no check is to be adopted, to release those that were.
func New(a *Adoption) *healthcheck.Reconciler {
	return &healthcheck.Reconciler{
		Environment: a.Environment, Store: a, Source: machinehealthcheck.Source{}, Actor: machinehealthcheck.Actor{Client: a.Client}, Adoption: a,
		Watches: machinehealthcheck.WatchesFor(a.Cache, a.selections),
	}
}

// selections returns all in-tree checks of a Cluster, because an event may trigger the next step of the adoption of each.
func (a *Adoption) selections(ctx context.Context, cluster client.ObjectKey) []machinehealthcheck.Selection {
	list := &clusterv1.MachineHealthCheckList{}
	if err := a.Cache.List(ctx, list, healthcheck.InCluster(cluster)...); err != nil {
		healthcheck.LogUnread(ctx, cluster, err)
		return nil
	}
	all := make([]machinehealthcheck.Selection, 0, len(list.Items))
	for i := range list.Items {
		if check := &list.Items[i]; a.Responsible(check) || a.HasAdopted(check) {
			all = append(all, machinehealthcheck.Selection{
				Check: client.ObjectKeyFromObject(check), MarkedBy: markedBy(check), Selector: selectorOf(check),
			})
		}
	}
	return all
}

// Indices are those of MachineHealthChecks of Cluster API.
func Indices() []healthcheck.Index {
	byCluster := func(o client.Object) []string { return []string{o.(*clusterv1.MachineHealthCheck).Spec.ClusterName} }
	return []healthcheck.Index{{Object: &clusterv1.MachineHealthCheck{}, Field: healthcheck.ByCluster, Value: byCluster}}
}
