// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/controllers/nodehealthcheck"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/metrics"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// The kinds of checks in messages.
const (
	ourKind    = string(metrics.MachineHealthCheck)
	nodeKind   = nodehealthcheck.Kind
	inTreeKind = "machinehealthchecks.cluster.x-k8s.io"
)

// check is a check of a Cluster.
type check struct {
	// kind is that of its reconciler; empty if the in-tree controller reconciles it.
	kind   string
	object client.Object
	// selects: it selects the target.
	selects bool
}

// title names a check so that the two kinds of MachineHealthChecks differ.
func (c *check) title() string {
	switch c.kind {
	case nodeKind:
		return titleOf(nodeKind, c.object)
	case ourKind:
		return titleOf(ourKind, c.object)
	}
	return titleOf(inTreeKind, c.object)
}

func titleOf(kind string, o client.Object) string {
	if o.GetNamespace() == "" {
		return kind + " " + o.GetName()
	}
	return kind + " " + client.ObjectKeyFromObject(o).String()
}

// machineChecks returns the checks of Machines of the Cluster of a target that can be read.
func (c *Cluster) machineChecks(ctx context.Context, t *target, p *permitted) ([]check, error) {
	cluster := t.capi()
	if cluster.Name == "" || p.unread[machinesOfSelf] {
		return nil, nil
	}
	selected := func(selector labels.Selector, err error) bool {
		return t.machine != nil && err == nil && selector.Matches(labels.Set(t.machine.Labels))
	}
	ours, all := &remedyv1.MachineHealthCheckList{}, []check(nil)
	if err := c.client.List(ctx, ours, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, readError(err, "the MachineHealthChecks of namespace "+cluster.Namespace)
	}
	for i := range ours.Items {
		one := &ours.Items[i]
		if one.Spec.ClusterName == cluster.Name {
			all = append(all, check{ourKind, one, selected(one.Spec.Selector.Labels())})
		}
	}
	inTree := &clusterv1.MachineHealthCheckList{}
	if !p.readable(&clusterv1.MachineHealthCheck{}) {
		return all, nil
	}
	if err := c.client.List(ctx, inTree, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, readError(err, "the checks of Cluster API in namespace "+cluster.Namespace)
	}
	for i := range inTree.Items {
		one := &inTree.Items[i]
		if one.Spec.ClusterName != cluster.Name {
			continue
		}
		kind := ""
		if adopted(one) {
			kind = string(metrics.InTreeMachineHealthCheck)
		}
		all = append(all, check{kind, one, selected(metav1.LabelSelectorAsSelector(&one.Spec.Selector))})
	}
	return all, nil
}

// nodeChecks returns the NodeHealthChecks of the cluster of a target that can be read. Which of them select it depends on its Node. If this
// cluster manages itself, it has two names.
func (c *Cluster) nodeChecks(ctx context.Context, t *target, p *permitted) ([]check, error) {
	if !p.readable(&remedyv1.NodeHealthCheck{}) {
		return nil, nil
	}
	list := &remedyv1.NodeHealthCheckList{}
	if err := c.client.List(ctx, list); err != nil {
		return nil, readError(err, "the NodeHealthChecks")
	}
	local := func(one remedyv1.NodeHealthCheck) bool { return one.Spec.ClusterRef == nil }
	if t.cluster != workload.ManagementCluster && t.self.Name == "" && slices.ContainsFunc(list.Items, local) {
		if err := c.permit(ctx, p, needsOfSelf...); err != nil {
			return nil, err
		}
		if !p.unread["nodes"] {
			if selves, err := c.selves(ctx); err == nil && slices.Contains(selves, t.cluster) {
				t.self = t.cluster
			}
		}
	}
	var all []check
	for i := range list.Items {
		one := &list.Items[i]
		cluster := nodehealthcheck.Claimant{}.Cluster(one)
		if cluster == t.cluster || t.self.Name != "" && (cluster == t.self || cluster == workload.ManagementCluster) {
			all = append(all, check{kind: nodeKind, object: one})
		}
	}
	return all, nil
}

// selectsNode reports whether a NodeHealthCheck selects the Node of a target. A Node that could not be read is selected if the status of
// the check lists it.
func selectsNode(one *remedyv1.NodeHealthCheck, node *corev1.Node, name string) bool {
	if node == nil {
		return reportedTarget(&one.Status.CheckStatus, name) != nil
	}
	selector := nodehealthcheck.CheckOf(one).Selector
	return selector != nil && selector.Matches(labels.Set(node.Labels))
}

// reportedTarget returns what a status reports about a target; nil if nothing.
func reportedTarget(status *remedyv1.CheckStatus, name string) *remedyv1.UnhealthyTarget {
	for i := range status.UnhealthyTargets {
		if t := &status.UnhealthyTargets[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// adopted reports whether the manager reconciles an in-tree check.
func adopted(check *clusterv1.MachineHealthCheck) bool {
	return check.Annotations[clusterv1.PausedAnnotation] == remedyv1.Pause
}
