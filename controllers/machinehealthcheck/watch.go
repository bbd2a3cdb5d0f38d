// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/healthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/report"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// Selection is a check as an event finds it: by what it selects, or what it has marked.
type Selection struct {
	Check    types.NamespacedName
	MarkedBy string
	// Selector is nil if it is invalid.
	Selector labels.Selector
	// Newer is a check that starts no remediation, because the Cluster has too many.
	Newer bool
}

func (s *Selection) selects(m *clusterv1.Machine) bool {
	return !s.Newer && s.Selector != nil && s.Selector.Matches(labels.Set(m.Labels))
}

// selections are the MachineHealthChecks of a Cluster that this instance is responsible for, from the cache.
func selections(e *healthcheck.Environment) func(context.Context, client.ObjectKey) []Selection {
	return func(ctx context.Context, cluster client.ObjectKey) []Selection {
		list := &remedyv1.MachineHealthCheckList{}
		if err := e.Cache.List(ctx, list, e.OfInstance(healthcheck.InCluster(cluster))...); err != nil {
			healthcheck.LogUnread(ctx, cluster, err)
			return nil
		}
		oldest, newer := healthcheck.Oldest(list.Items)
		all := make([]Selection, 0, len(list.Items))
		for i, check := range slices.Concat(oldest, newer) {
			if e.Responsible(check) {
				all = append(all, Selection{
					Check: client.ObjectKeyFromObject(check), MarkedBy: Kind + "/" + check.Name, Newer: i >= len(oldest),
					Selector: healthcheck.Compiled(check, check.Spec.Selector.Labels),
				})
			}
		}
		return all
	}
}

// WatchesFor are those of checks of Machines, whichever kind of object they are.
func WatchesFor(cache client.Reader, selections func(context.Context, client.ObjectKey) []Selection) healthcheck.Watches {
	w := watches{cache: cache, selections: selections}
	return healthcheck.Watches{
		Objects: []healthcheck.Watch{
			{
				Object:  &clusterv1.Cluster{},
				Changes: healthcheck.ClusterChanged,
				Checks: func(ctx context.Context, o client.Object) []types.NamespacedName {
					return w.concerned(ctx, client.ObjectKeyFromObject(o), func(*Selection) bool { return true })
				},
			},
			{Object: &clusterv1.Machine{}, Changes: machineChanged, Checks: w.ofMachine},
		},
		Node: w.ofNode, Cluster: w.ofCluster,
	}
}

type watches struct {
	cache      client.Reader
	selections func(context.Context, client.ObjectKey) []Selection
}

// concerned are the checks of a Cluster that a change concerns.
func (w watches) concerned(ctx context.Context, cluster client.ObjectKey, concerns func(*Selection) bool) []types.NamespacedName {
	var checks []types.NamespacedName
	for _, s := range w.selections(ctx, cluster) {
		if concerns(&s) {
			checks = append(checks, s.Check)
		}
	}
	return checks
}

// ofCluster concerns every check of a Cluster that can start remediations.
func (w watches) ofCluster(ctx context.Context, cluster client.ObjectKey) []types.NamespacedName {
	return w.concerned(ctx, cluster, func(s *Selection) bool { return !s.Newer })
}

// ofMachine concerns the checks that select a Machine, and the one that has signed it.
func (w watches) ofMachine(ctx context.Context, o client.Object) []types.NamespacedName {
	m := o.(*clusterv1.Machine)
	author := notes.ResponsibleCheck(m.Annotations)
	return w.concerned(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, func(s *Selection) bool {
		return s.MarkedBy == author || s.selects(m)
	})
}

// ofNode concerns the checks that select the Machine of a Node. A Node of no Machine may be the one that a Machine waits for.
func (w watches) ofNode(ctx context.Context, change workload.NodeChange) []types.NamespacedName {
	if change.Cluster == workload.ManagementCluster {
		return nil
	}
	machines := &clusterv1.MachineList{}
	err := w.cache.List(ctx, machines, client.InNamespace(change.Cluster.Namespace),
		client.MatchingFields{byNode: nodeKey(change.Cluster.Name, change.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil || len(machines.Items) == 0 {
		return w.ofCluster(ctx, change.Cluster)
	}
	return w.concerned(ctx, change.Cluster, func(s *Selection) bool {
		return slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return s.selects(&m) })
	})
}

// machineChanged leaves out what no rule reads.
var machineChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*clusterv1.Machine), e.ObjectNew.(*clusterv1.Machine)
	return healthcheck.MetadataChanged(before, after) ||
		before.Status.NodeRef.Name != after.Status.NodeRef.Name || failure(before) != failure(after) ||
		!slices.EqualFunc(before.OwnerReferences, after.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameCondition) || olderAnswer(before) != olderAnswer(after)
}}

// sameCondition compares what is read of a condition.
func sameCondition(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// olderAnswer is the response of an owner that reads and sets only v1beta1 conditions.
func olderAnswer(m *clusterv1.Machine) string {
	return report.V1Beta1Reason(m, explain.OwnerRemediated)
}
