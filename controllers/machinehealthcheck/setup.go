// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
)

// What the manager does in the cluster that it runs in. Machines get annotations and conditions, and are never deleted. Checks are not
// deleted, either: but some API servers let no client set an owner that could not delete the object.
//
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=machinehealthchecks,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=machinehealthchecks/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets,verbs=get
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// New returns the reconciler of MachineHealthChecks.
func New(e *healthcheck.Environment) *healthcheck.Reconciler {
	return &healthcheck.Reconciler{
		Environment: e, Store: store{e.Client}, Source: Source{}, Actor: Actor{e.Client}, Watches: WatchesFor(e.Cache, selections(e)),
	}
}

// Indices by which Machines and checks are found in the cache.
const (
	ByMarkedBy = "remedy.author"
	byNode     = "remedy.node"
)

// Indices are those of Machines and MachineHealthChecks.
func Indices() []healthcheck.Index {
	return []healthcheck.Index{
		{Object: &clusterv1.Machine{}, Field: healthcheck.ByCluster, Value: func(o client.Object) []string {
			return []string{o.(*clusterv1.Machine).Spec.ClusterName}
		}},
		{Object: &clusterv1.Machine{}, Field: byNode, Value: func(o client.Object) []string { return nodeKeys(o.(*clusterv1.Machine)) }},
		{Object: &clusterv1.Machine{}, Field: ByMarkedBy, Value: markedBy},
		{Object: &remedyv1.MachineHealthCheck{}, Field: healthcheck.ByCluster, Value: func(o client.Object) []string {
			return []string{o.(*remedyv1.MachineHealthCheck).Spec.ClusterName}
		}},
	}
}

// nodeKeys is the Node of a Machine. The same name means another Node in another Cluster.
func nodeKeys(m *clusterv1.Machine) []string {
	if m.Status.NodeRef.Name == "" {
		return nil
	}
	return []string{nodeKey(m.Spec.ClusterName, m.Status.NodeRef.Name)}
}

func nodeKey(cluster, node string) string { return cluster + "/" + node }

// markedBy is the check that has signed a Machine.
func markedBy(machine client.Object) []string {
	if author := notes.ResponsibleCheck(machine.GetAnnotations()); author != "" {
		return []string{author}
	}
	return nil
}
