// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// target is the Node that a NodeFence is for.
type target struct {
	// cluster is the Cluster of the Node; workload.ManagementCluster for the cluster of the manager.
	cluster client.ObjectKey
	node    string
	// nodeUID is that of the request; empty if it has none.
	nodeUID types.UID
	// machine is the name of its Machine, and providerID that of the Machine; empty without one.
	machine, providerID string
	// gone: its Machine is being deleted, or its Cluster no longer exists. clusterGone is the latter.
	gone, clusterGone bool
	paused            bool
	// problem is why it is not known.
	problem *profile.Problem
}

// findTarget finds the Node: that of the owner Machine; or the one that the annotation or the name has, in the Cluster of the label; or
// in the cluster of the manager. What cannot be read is a problem of a fence that has not begun.
func (r *Reconciler) findTarget(ctx context.Context, fence *fencingv1.NodeFence) (*target, error) {
	t, bound := &target{nodeUID: types.UID(fence.Annotations[remedyv1.NodeUIDAnnotation])}, fence.Status.Node
	err := r.find(ctx, fence, t)
	if bound != nil {
		// A Machine that has lost its Node, or that no longer exists, still had this one.
		t.node, t.problem = bound.Name, nil
		if t.cluster = workload.ManagementCluster; bound.ClusterName != "" {
			t.cluster = client.ObjectKey{Namespace: fence.Namespace, Name: bound.ClusterName}
		}
	}
	switch {
	case err != nil:
	case t.cluster == workload.ManagementCluster:
		r.limitOwnNodes(fence, t)
	default:
		err = r.readCluster(ctx, t)
	}
	if bound != nil || err == nil {
		return t, err
	}
	t.problem = &profile.Problem{Reason: lifecycle.ReasonTargetUnreadable, Message: err.Error()}
	if meta.IsNoMatchError(err) {
		t.problem.Message = "Cluster API is not installed in the cluster of the manager"
	}
	return t, nil
}

func (r *Reconciler) find(ctx context.Context, fence *fencingv1.NodeFence, t *target) error {
	bound, owner := fence.Status.Node, ownerMachine(fence)
	if owner != nil {
		return r.readMachine(ctx, client.ObjectKey{Namespace: fence.Namespace, Name: owner.Name}, owner.UID, t)
	}
	if bound != nil && bound.MachineName != "" {
		return r.readMachine(ctx, client.ObjectKey{Namespace: fence.Namespace, Name: bound.MachineName}, "", t)
	}
	t.node = cmp.Or(fence.Annotations[remedyv1.NodeNameAnnotation], fence.Name)
	name := fence.Labels[clusterv1.ClusterNameLabel]
	if name == "" {
		return nil
	}
	t.cluster = client.ObjectKey{Namespace: fence.Namespace, Name: name}
	if bound != nil {
		return nil
	}
	return r.findMachine(ctx, t)
}

// limitOwnNodes refuses Nodes of the cluster of the manager in other namespaces: each tenant could fence them otherwise.
func (r *Reconciler) limitOwnNodes(fence *fencingv1.NodeFence, t *target) {
	if t.problem == nil && !t.gone && fence.Namespace != r.OwnNodesNamespace {
		t.problem = &profile.Problem{Reason: lifecycle.ReasonNodeNotFound, Message: "a NodeFence without a Cluster fences a Node of the " +
			"cluster of the manager, and only in namespace " + r.OwnNodesNamespace + ": create it there, or set the label " +
			clusterv1.ClusterNameLabel}
	}
}

// ownerMachine is the owner reference to a Machine of Cluster API; nil if there is none.
func ownerMachine(fence *fencingv1.NodeFence) *metav1.OwnerReference {
	for i := range fence.OwnerReferences {
		owner := &fence.OwnerReferences[i]
		version, err := schema.ParseGroupVersion(owner.APIVersion)
		if err == nil && version.Group == clusterv1.GroupVersion.Group && owner.Kind == "Machine" {
			return owner
		}
	}
	return nil
}

// readMachine reads the Machine of the target. One with another UID than the given one is another Machine.
func (r *Reconciler) readMachine(ctx context.Context, key client.ObjectKey, uid types.UID, t *target) error {
	machine := &clusterv1.Machine{}
	err := r.Live.Get(ctx, key, machine)
	if apierrors.IsNotFound(err) || err == nil && uid != "" && machine.UID != uid {
		t.gone = true
		t.problem = &profile.Problem{Reason: lifecycle.ReasonNodeNotFound, Message: "Machine " + key.String() + " no longer exists"}
		return nil
	}
	if err != nil {
		return errors.Wrapf(err, "failed to read Machine %s", key)
	}
	t.cluster = client.ObjectKey{Namespace: key.Namespace, Name: machine.Spec.ClusterName}
	t.set(machine)
	if t.node == "" {
		t.problem = &profile.Problem{Reason: lifecycle.ReasonNodeNotFound, Message: "Machine " + key.String() + " has no Node"}
	}
	return nil
}

func (t *target) set(machine *clusterv1.Machine) {
	t.node, t.machine, t.providerID = machine.Status.NodeRef.Name, machine.Name, machine.Spec.ProviderID
	t.gone = !machine.DeletionTimestamp.IsZero()
}

// findMachine finds the Machine of a Node of a workload cluster. Without one, only its cluster vouches for what the Node is.
func (r *Reconciler) findMachine(ctx context.Context, t *target) error {
	machines, node := &clusterv1.MachineList{}, t.node
	of := client.MatchingLabels{clusterv1.ClusterNameLabel: t.cluster.Name}
	if err := r.Live.List(ctx, machines, client.InNamespace(t.cluster.Namespace), of); err != nil {
		return errors.Wrapf(err, "failed to list the Machines of Cluster %s", t.cluster)
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		if machine.Spec.ClusterName != t.cluster.Name || machine.Status.NodeRef.Name != node {
			continue
		}
		if t.machine != "" {
			t.problem = &profile.Problem{Reason: lifecycle.ReasonNodeNotFound, Message: fmt.Sprintf(
				"Machines %s and %s both have Node %s: delete the one that is not its Machine", t.machine, machine.Name, node)}
			return nil
		}
		t.set(machine)
	}
	return nil
}

func (r *Reconciler) readCluster(ctx context.Context, t *target) error {
	cluster := &clusterv1.Cluster{}
	err := r.Live.Get(ctx, t.cluster, cluster)
	if apierrors.IsNotFound(err) {
		t.gone, t.clusterGone = true, true
		t.problem = &profile.Problem{Reason: lifecycle.ReasonNodeNotFound, Message: "Cluster " + t.cluster.String() + " does not exist"}
		return nil
	}
	t.paused = cluster.Spec.Paused != nil && *cluster.Spec.Paused
	return errors.Wrapf(err, "failed to read Cluster %s", t.cluster)
}
