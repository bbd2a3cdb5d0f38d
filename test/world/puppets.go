// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	puppetCluster      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "PuppetCluster"}
	puppetMachine      = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "PuppetMachine"}
	puppetControlPlane = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1", Kind: "PuppetControlPlane"}
)

// pullStrings reports the cluster and its control plane as ready, and gives every new PuppetMachine a machine and a Node, until the
// context ends. Like the controllers of a provider, it reports that again after the status was lost, as in a move.
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
	if err := l.report(ctx, puppetCluster, map[string]any{"initialization": map[string]any{"provisioned": true}}); err != nil {
		return err
	}
	// It has no Machines of its own: those of the manifest stand alone.
	initialized := map[string]any{"initialization": map[string]any{"controlPlaneInitialized": true}, "externalManagedControlPlane": true}
	if err := l.report(ctx, puppetControlPlane, initialized); err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(puppetMachine)
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: l.Name}
	if err := l.world.Client.List(ctx, list, client.InNamespace(l.Namespace), labels); err != nil {
		return errors.WithStack(err)
	}
	for i := range list.Items {
		machine := &list.Items[i]
		if machine.GetDeletionTimestamp() != nil {
			continue
		}
		// A machine that has booted does not boot again: its Node is unchanged, or does not exist any more.
		if id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID"); id == "" {
			if l.held.Load() {
				continue
			}
			if err := l.boot(ctx, machine); err != nil {
				return err
			}
		}
		if err := l.say(ctx, machine, map[string]any{"initialization": map[string]any{"provisioned": true}}); err != nil {
			return err
		}
	}
	return nil
}

// report writes the status of what has the name of the cluster, if it has none.
func (l *Workload) report(ctx context.Context, kind schema.GroupVersionKind, status map[string]any) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := l.world.Client.Get(ctx, l.Key(), object); err != nil {
		return errors.WithStack(err)
	}
	return l.say(ctx, object, status)
}

func (l *Workload) say(ctx context.Context, object *unstructured.Unstructured, status map[string]any) error {
	if _, said, _ := unstructured.NestedMap(object.Object, "status", "initialization"); said {
		return nil
	}
	before := client.MergeFrom(object.DeepCopy())
	if err := unstructured.SetNestedMap(object.Object, status, "status"); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(l.world.Client.Status().Patch(ctx, object, before))
}

// boot makes the Node of a machine, and then notes which machine it is.
func (l *Workload) boot(ctx context.Context, machine *unstructured.Unstructured) error {
	id := "puppet://" + machine.GetName()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.GetName()}, Spec: corev1.NodeSpec{ProviderID: id}}
	if err := l.Join(ctx, node); err != nil {
		return err
	}
	before := client.MergeFrom(machine.DeepCopy())
	if err := unstructured.SetNestedField(machine.Object, id, "spec", "providerID"); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(l.world.Client.Patch(ctx, machine, before))
}

// DeleteNode deletes a Node. No controller creates it again.
func (l *Workload) DeleteNode(ctx context.Context, name string) error {
	return l.Nodes.DeleteNode(ctx, name)
}
