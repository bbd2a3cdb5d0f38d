// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
)

// What the manager does in the cluster that it runs in, besides requests. Nodes get annotations, and are never deleted. The namespace and
// the Leases are those of other operators that remediate or maintain Nodes, and of kubelets.
//
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=remedy.cluster.x-k8s.io,resources=nodehealthchecks/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=medik8s-leases,verbs=get
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list

// Indices are those of NodeHealthChecks: by the cluster of their Nodes.
func Indices() []healthcheck.Index {
	return []healthcheck.Index{{Object: &remedyv1.NodeHealthCheck{}, Field: healthcheck.ByCluster, Value: func(o client.Object) []string {
		return []string{clusterKey(&o.(*remedyv1.NodeHealthCheck).Spec).String()}
	}}}
}

// New returns the reconciler of NodeHealthChecks.
func New(e *healthcheck.Environment) *healthcheck.Reconciler {
	return &healthcheck.Reconciler{
		Environment: e, Store: store{e}, Source: source{e}, Actor: actor{e.Clusters}, Watches: watchesFor(e), Others: &medik8s{Environment: e},
	}
}
