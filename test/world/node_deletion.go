// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var devMachine = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "DevMachine"}

// nodeDeleted is the value of the pause of a DevMachine whose Node has been deleted here.
const nodeDeleted = "node-deleted"

// DeleteNode deletes a Node for good. The in-memory infrastructure would make it again at the next occasion, so that its DevMachine is
// paused until the Machine is deleted.
func (c *Cluster) DeleteNode(ctx context.Context, name string) error {
	// The DevMachine has the name of its Node.
	if err := c.world.pauseDevMachine(ctx, c.Namespace, name, true); err != nil {
		return err
	}
	err := eventually(ctx, "DevMachine "+name+" does not pause", func() error {
		machine, err := c.world.devMachine(ctx, c.Namespace, name)
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions")
		for _, condition := range conditions {
			if m, is := condition.(map[string]any); is && m["type"] == clusterv1.PausedCondition && m["status"] == string(metav1.ConditionTrue) {
				return nil
			}
		}
		return errors.New("it is not paused yet")
	})
	if err != nil {
		return err
	}
	if err := c.Nodes.DeleteNode(ctx, name); err != nil {
		return err
	}
	c.world.background.Go(func() { c.world.resumeWhenDeleted(c.world.life, c.Namespace, name) })
	return nil
}

// resumeWhenDeleted lets a paused DevMachine go when its Machine does: paused, it would keep its finalizer for ever.
func (w *World) resumeWhenDeleted(ctx context.Context, namespace, name string) {
	for {
		machine, err := w.devMachine(ctx, namespace, name)
		if apierrors.IsNotFound(errors.Cause(err)) {
			return
		}
		if err == nil && machine.GetDeletionTimestamp() != nil && w.pauseDevMachine(ctx, namespace, name, false) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (w *World) devMachine(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	machine := newDevMachine(namespace, name)
	return machine, errors.Wrapf(w.Client.Get(ctx, client.ObjectKeyFromObject(machine), machine), "no DevMachine for Node %s", name)
}

func (w *World) pauseDevMachine(ctx context.Context, namespace, name string, paused bool) error {
	value := "null"
	if paused {
		value = `"` + nodeDeleted + `"`
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":`+value+`}}}`))
	return errors.Wrapf(w.Client.Patch(ctx, newDevMachine(namespace, name), patch), "failed to pause or resume DevMachine %s", name)
}

func newDevMachine(namespace, name string) *unstructured.Unstructured {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(devMachine)
	machine.SetNamespace(namespace)
	machine.SetName(name)
	return machine
}
