// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package nodehealthcheck

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// watchesFor are those of NodeHealthChecks.
func watchesFor(e *healthcheck.Environment) healthcheck.Watches {
	w := watches{e}
	return healthcheck.Watches{
		Objects: []healthcheck.Watch{
			{
				Object: &clusterv1.Cluster{}, Changes: healthcheck.ClusterChanged,
				Checks: func(ctx context.Context, o client.Object) []types.NamespacedName {
					return w.ofCluster(ctx, client.ObjectKeyFromObject(o))
				},
			},
			{Object: &clusterv1.Machine{}, Changes: machineChanged, Checks: w.ofMachine},
		},
		Node: w.ofNode, Cluster: w.ofCluster,
	}
}

type watches struct{ *healthcheck.Environment }

// concerned are the checks of a cluster that a change concerns, and that this instance is responsible for.
func (w watches) concerned(
	ctx context.Context, cluster client.ObjectKey, concerns func(*remedyv1.NodeHealthCheck) bool,
) []types.NamespacedName {
	list := &remedyv1.NodeHealthCheckList{}
	if err := w.Cache.List(ctx, list, w.OfInstance(inCluster(cluster))...); err != nil {
		healthcheck.LogUnread(ctx, cluster, err)
		return nil
	}
	var checks []types.NamespacedName
	for i := range list.Items {
		if check := &list.Items[i]; w.Responsible(check) && concerns(check) {
			checks = append(checks, client.ObjectKeyFromObject(check))
		}
	}
	return checks
}

// ofCluster concerns every check of a cluster.
func (w watches) ofCluster(ctx context.Context, cluster client.ObjectKey) []types.NamespacedName {
	return w.concerned(ctx, cluster, func(*remedyv1.NodeHealthCheck) bool { return true })
}

// ofMachine concerns the checks of the cluster of a Machine, which may be the management cluster: another check may be responsible now.
func (w watches) ofMachine(ctx context.Context, o client.Object) []types.NamespacedName {
	m := o.(*clusterv1.Machine)
	if m.Status.NodeRef.Name == "" {
		return nil
	}
	key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}
	return append(w.ofCluster(ctx, key), w.ofCluster(ctx, workload.ManagementCluster)...)
}

// ofNode concerns the checks that select a Node before or after a change, and those that remediate it.
func (w watches) ofNode(ctx context.Context, change workload.NodeChange) []types.NamespacedName {
	return w.concerned(ctx, change.Cluster, func(check *remedyv1.NodeHealthCheck) bool {
		if _, inFlight := check.Status.InFlightRemediations[change.Name]; inFlight {
			return true
		}
		selects := healthcheck.Compiled(check, func() (labels.Selector, error) { return selector(&check.Spec) })
		matches := func(node *corev1.Node) bool { return node != nil && selects.Matches(labels.Set(node.Labels)) }
		return selects != nil && (matches(change.Before) || matches(change.After))
	})
}

// machineChanged leaves out what does not decide which check is responsible for its Node.
var machineChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*clusterv1.Machine), e.ObjectNew.(*clusterv1.Machine)
	return before.Status.NodeRef.Name != after.Status.NodeRef.Name || healthcheck.MetadataChanged(before, after)
}}
