// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
)

// The kinds of checks in messages.
const (
	ourKind    = string(metrics.MachineHealthCheck)
	inTreeKind = "machinehealthchecks.cluster.x-k8s.io"
)

// check is a check of a Cluster.
type check struct {
	// kind is that of its reconciler; empty if the in-tree controller reconciles it.
	kind   string
	object client.Object
	// selects: it selects the Machine.
	selects bool
}

// title names a check so that the two kinds of MachineHealthChecks differ.
func (c *check) title() string {
	kind := ourKind
	if c.kind != ourKind {
		kind = inTreeKind
	}
	return kind + " " + client.ObjectKeyFromObject(c.object).String()
}

// checksOf returns the checks of the Cluster of a Machine that can be read.
func (c *Cluster) checksOf(ctx context.Context, m *clusterv1.Machine, readable func(client.Object) bool) ([]check, error) {
	ours, all := &remedyv1.MachineHealthCheckList{}, []check(nil)
	if err := c.client.List(ctx, ours, client.InNamespace(m.Namespace)); err != nil {
		return nil, readError(err, "the MachineHealthChecks of namespace "+m.Namespace)
	}
	for i := range ours.Items {
		one := &ours.Items[i]
		if one.Spec.ClusterName == m.Spec.ClusterName {
			selector, err := one.Spec.Selector.Labels()
			all = append(all, check{ourKind, one, err == nil && selector.Matches(labels.Set(m.Labels))})
		}
	}
	inTree := &clusterv1.MachineHealthCheckList{}
	if !readable(&clusterv1.MachineHealthCheck{}) {
		return all, nil
	}
	if err := c.client.List(ctx, inTree, client.InNamespace(m.Namespace)); err != nil {
		return nil, readError(err, "the checks of Cluster API in namespace "+m.Namespace)
	}
	for i := range inTree.Items {
		one := &inTree.Items[i]
		if one.Spec.ClusterName != m.Spec.ClusterName {
			continue
		}
		kind := ""
		if adopted(one) {
			kind = string(metrics.InTreeMachineHealthCheck)
		}
		selector, err := metav1.LabelSelectorAsSelector(&one.Spec.Selector)
		all = append(all, check{kind, one, err == nil && selector.Matches(labels.Set(m.Labels))})
	}
	return all, nil
}

// adopted reports whether the manager reconciles an in-tree check.
func adopted(check *clusterv1.MachineHealthCheck) bool {
	return check.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause
}
