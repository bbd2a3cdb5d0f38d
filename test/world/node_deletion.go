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
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteNode deletes a Node for good. The in-memory infrastructure would make it again at the next occasion, so that its DevMachine is
// paused until somebody deletes the Machine.
func (c *Cluster) DeleteNode(ctx context.Context, name string) error {
	// The DevMachine has the name of its Node.
	if err := c.pauseDevMachine(ctx, name, true); err != nil {
		return err
	}
	err := eventually(ctx, "DevMachine "+name+" does not pause", func() error {
		machine, err := c.devMachine(ctx, name)
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
	workload, err := c.Client(ctx)
	if err != nil {
		return err
	}
	if err := workload.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return errors.Wrapf(err, "failed to delete Node %s", name)
	}
	c.world.background.Go(func() { c.resumeWhenDeleted(c.world.life, name) })
	return nil
}

// resumeWhenDeleted lets a paused DevMachine go when its Machine does: paused, it would keep its finalizer for ever.
func (c *Cluster) resumeWhenDeleted(ctx context.Context, name string) {
	for {
		machine, err := c.devMachine(ctx, name)
		if apierrors.IsNotFound(errors.Cause(err)) {
			return
		}
		if err == nil && machine.GetDeletionTimestamp() != nil && c.pauseDevMachine(ctx, name, false) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Cluster) devMachine(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	machine := newDevMachine(c.Namespace, name)
	return machine, errors.Wrapf(c.world.Client.Get(ctx, client.ObjectKeyFromObject(machine), machine), "no DevMachine for Node %s", name)
}

func (c *Cluster) pauseDevMachine(ctx context.Context, name string, paused bool) error {
	value := "null"
	if paused {
		value = `""`
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":`+value+`}}}`))
	return errors.Wrapf(c.world.Client.Patch(ctx, newDevMachine(c.Namespace, name), patch), "failed to pause or resume DevMachine %s", name)
}

func newDevMachine(namespace, name string) *unstructured.Unstructured {
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta2")
	machine.SetKind("DevMachine")
	machine.SetNamespace(namespace)
	machine.SetName(name)
	return machine
}
