// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/test/fencing"
)

// interval is the time between two reads of a timeline.
const interval = 50 * time.Millisecond

// The StatefulSets. The first one runs on a server that is fenced, and the other one on a server that is not.
const (
	orders   = "orders"
	invoices = "invoices"
)

// createDatabases starts the StatefulSets, and the server to which they can move.
func (d *demonstration) createDatabases(ctx context.Context) error {
	if _, err := d.Run(ctx, "kubectl apply -f databases.yaml"); err != nil {
		return err
	}
	for name, server := range map[string]*fencing.Machine{orders: d.servers[fencedServer], invoices: d.servers[unfencedServer]} {
		if err := d.Until(ctx, name+"-0 runs", func(ctx context.Context) (bool, error) {
			runs := d.world.Kubelets.Writes.Runs(namespace, name+"-0")
			return len(runs) == 1 && runs[0].Node == server.Name, ctx.Err()
		}); err != nil {
			return err
		}
	}
	_, err := d.world.AddNode(ctx, spareServer, nil)
	return err
}

// failUnfenced cuts the power of the server that no check monitors.
func (d *demonstration) failUnfenced(ctx context.Context) error {
	d.Heading("In the background: a server without a fence")
	server := d.servers[unfencedServer]
	var err error
	if d.unfenced, err = d.watch(ctx, invoices, server); err != nil {
		return err
	}
	d.Print("%s loses its power, and no check monitors it. The StatefulSet %s runs there, with a volume. The last part shows what "+
		"became of it.", server.Name, invoices)
	return errors.WithStack(server.SetPower(false))
}

// byNodeHealthCheck fences a server with a StatefulSet.
func (d *demonstration) byNodeHealthCheck(ctx context.Context) error {
	d.Heading("Part 4: a NodeHealthCheck, and the workload of the Node")
	server := d.servers[fencedServer]
	d.Print("The StatefulSet %s runs on %s, and has a volume that one Node at a time can write to.", orders, server.Name)
	t, err := d.watch(ctx, orders, server)
	if err != nil {
		return err
	}
	if err := d.fence(ctx, "NodeHealthCheck", server, nil); err != nil {
		return err
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return errors.WithStack(ctx.Err())
	case <-time.After(10 * time.Second):
	}
	d.Print("%s-0 runs on %s since its volume was detached from %s. Its timeline, in seconds from the failure of its server:",
		orders, spareServer, server.Name)
	d.compare(t, d.unfenced)
	if _, err := d.Run(ctx, "kubectl get pods -o wide && kubectl get volumeattachments -o custom-columns="+
		"VOLUME:.spec.source.persistentVolumeName,NODE:.spec.nodeName,ATTACHED:.status.attached"); err != nil {
		return err
	}
	return d.verifyDatabases(ctx, t)
}

// verifyDatabases verifies what the timelines show.
func (d *demonstration) verifyDatabases(ctx context.Context, fenced *timeline) error {
	for _, m := range milestones {
		if !fenced.has(m.text) {
			return errors.Errorf("this was not observed of %s: %s", orders, m.text)
		}
	}
	if overlaps := d.world.Kubelets.Writes.Overlaps(namespace); overlaps != "" {
		return errors.Errorf("two Pods of the same identity have written at the same time:\n%s", overlaps)
	}
	d.Print("At no time did two Pods %s-0 write: each write is in a log outside of the cluster.", orders)
	pod, err := d.pod(ctx, invoices)
	if err != nil {
		return errors.WithStack(err)
	}
	if pod.UID != d.unfenced.pod || pod.DeletionTimestamp == nil || d.unfenced.has("volume is detached") {
		return errors.Errorf("Pod %s-0 should be terminating, and its volume attached", invoices)
	}
	node, err := d.node(ctx, d.servers[unfencedServer].Name)
	if err != nil {
		return err
	}
	if fencing.Ready(node) != corev1.ConditionUnknown {
		return errors.Errorf("Node %s should be Unknown", node.Name)
	}
	d.Print("%s-0 has been terminating for %.0f seconds, and is not replaced: Kubernetes has no proof that it does not run any more. "+
		"Its volume is still attached to %s.", invoices, time.Since(pod.DeletionTimestamp.Time).Seconds(), node.Name)
	return nil
}
