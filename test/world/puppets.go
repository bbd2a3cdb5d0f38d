// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pullStrings gives every new PuppetMachine a machine and a Node, until the context ends.
func (l *Workload) pullStrings(ctx context.Context) {
	for ctx.Err() == nil {
		// An API server that is away, or was changed at the same moment, is tried again.
		_ = l.pullOnce(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (l *Workload) pullOnce(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1")
	list.SetKind("PuppetMachineList")
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: l.Name}
	if err := l.world.Client.List(ctx, list, client.InNamespace(l.Namespace), labels); err != nil {
		return errors.WithStack(err)
	}
	for i := range list.Items {
		machine := &list.Items[i]
		id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
		if id != "" || machine.GetDeletionTimestamp() != nil {
			continue
		}
		if err := l.boot(ctx, machine); err != nil {
			return err
		}
	}
	return nil
}

// boot makes the Node of a machine, and then says that the machine is there.
func (l *Workload) boot(ctx context.Context, machine *unstructured.Unstructured) error {
	id := "puppet://" + machine.GetName()
	workload, err := l.Client(ctx)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.GetName()}, Spec: corev1.NodeSpec{ProviderID: id}}
	if err := workload.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return errors.WithStack(err)
	}
	if err := l.SetNodeCondition(ctx, node.Name, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"); err != nil {
		return err
	}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if err := l.SetNodeCondition(ctx, node.Name, pressure, corev1.ConditionFalse, "KubeletHasEnough"); err != nil {
			return err
		}
	}
	if err := l.RenewLease(ctx, node.Name); err != nil {
		return err
	}
	before := client.MergeFrom(machine.DeepCopy())
	if err := unstructured.SetNestedField(machine.Object, id, "spec", "providerID"); err != nil {
		return errors.WithStack(err)
	}
	if err := unstructured.SetNestedField(machine.Object, true, "status", "initialization", "provisioned"); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(l.world.Client.Patch(ctx, machine, before))
}

// DeleteNode deletes a Node. Nobody makes it again.
func (l *Workload) DeleteNode(ctx context.Context, name string) error {
	workload, err := l.Client(ctx)
	if err != nil {
		return err
	}
	return errors.Wrapf(workload.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}), "failed to delete Node %s", name)
}
