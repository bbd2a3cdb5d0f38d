// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// MachineAnnotation is on the Nodes of OpenShift: namespace/name of the Machine.
const MachineAnnotation = "machine.openshift.io/machine"

// nodes is the client of the cluster with the Nodes.
func (r *Remediator) nodes() client.Client {
	if r.Nodes != nil {
		return r.Nodes
	}
	return r.Client
}

// node reads a Node; nil if it does not exist, or the Machine has none.
func (r *Remediator) node(ctx context.Context, name string) (*corev1.Node, error) {
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	err := r.nodes().Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return node, errors.WithStack(err)
}

// setOutOfService adds or removes the taint by which Kubernetes deletes the Pods of a Node, and reports whether that was necessary.
func (r *Remediator) setOutOfService(ctx context.Context, node *corev1.Node, wanted bool) (bool, error) {
	ours := func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService }
	if slices.ContainsFunc(node.Spec.Taints, ours) == wanted {
		return false, nil
	}
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, ours)
	if wanted {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return true, errors.WithStack(client.IgnoreNotFound(r.nodes().Patch(ctx, node, patch)))
}

// isolate keeps new Pods away from a Node, or allows them again.
func (r *Remediator) isolate(ctx context.Context, node *corev1.Node, t *traits, isolated bool) error {
	before := node.DeepCopy()
	if t.taint != "" {
		ours := func(taint corev1.Taint) bool { return taint.Key == t.taint }
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, ours)
		if isolated {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: t.taint, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	if t.cordons {
		node.Spec.Unschedulable = isolated
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return errors.WithStack(client.IgnoreNotFound(r.nodes().Patch(ctx, node, patch)))
}
