// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/remediator"
)

// installRemediator installs the kinds of Metal3 with its template and its role, and runs a remediator that follows the contract of Metal3.
// It reboots servers as soon as it may, so that the demo can print the request before.
func (d *demonstration) installRemediator(ctx context.Context) error {
	if err := d.world.Plane.InstallCRDObjects(remediator.Metal3.CRDs()...); err != nil {
		return err
	}
	for _, o := range []client.Object{
		remediator.Metal3.ClusterRole(),
		remediator.Metal3.NewTemplate(namespace, "reboot", map[string]any{"strategy": map[string]any{"type": "Reboot"}}),
	} {
		if err := d.world.Client.Create(ctx, o); err != nil {
			return errors.Wrapf(err, "failed to create the remediator's %s", o.GetName())
		}
	}
	provider := &remediator.Remediator{
		Kind: remediator.Metal3, Client: d.world.Client,
		Outcome: func(*unstructured.Unstructured) remediator.Outcome {
			if d.mayReboot.Load() {
				return remediator.Succeeds
			}
			return remediator.Hangs
		},
		Worked: func(ctx context.Context, node string) error {
			return d.cluster.SetNodeCondition(ctx, node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")
		},
	}
	go func() {
		for d.life.Err() == nil {
			if provider.Nodes == nil {
				// The workload cluster may not exist yet.
				provider.Nodes, _ = d.cluster.Client(d.life)
			}
			// A conflict is tried again.
			_, _ = provider.Act(d.life)
			select {
			case <-d.life.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return nil
}

// hasRequest reports whether there is a remediation request.
func (d *demonstration) hasRequest(ctx context.Context) (bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(remediator.Metal3.GroupVersion().WithKind(remediator.Metal3.Kind + "List"))
	err := d.world.Client.List(ctx, list, client.InNamespace(namespace))
	return len(list.Items) > 0, errors.WithStack(err)
}
