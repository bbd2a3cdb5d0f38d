// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseNamespace is that of the Lease of the leader.
const leaseNamespace = "default"

// manyClusters is the fleet of benchmarkFailover. All clusters have the same API server, so each connection caches the Nodes of all.
var manyClusters = shape{clusters: 50, checks: 1, targets: 5, linked: true}

// benchmarkFailover kills the leader of two instances, lets a Node fail, and measures until the other instance has decided. Remedy's
// standby has its caches and connections.
func benchmarkFailover(ctx context.Context, b *bench, s *system) error {
	f, err := b.fleet(ctx, manyClusters)
	if err != nil {
		return err
	}
	if err := b.api.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(leaseNamespace)); err != nil {
		return err
	}
	args := []string{"--leader-elect"}
	if s.isRemedy {
		args = append(args, "--feature-gates=WarmStandby=true")
	}
	c, err := f.check(ctx, s, policy{}, args...)
	if err != nil {
		return err
	}
	defer c.finish(ctx)
	standby, err := b.run(ctx, s, args...)
	if err != nil {
		return err
	}
	defer standby.end()
	// The standby connects its clusters, and the leader renews its Lease several times.
	sleep(ctx, 10*time.Second)
	o, err := f.observe(ctx)
	if err != nil {
		return err
	}
	defer o.stop()
	_ = c.cmd.Process.Kill()
	<-c.exited
	lease, err := b.lease(ctx)
	if err != nil {
		return err
	}
	lost := f.members[len(f.members)/2]
	if err := f.setReady(ctx, lost, corev1.ConditionUnknown, time.Now()); err != nil {
		return err
	}
	seen, err := o.until(ctx, o.marked, 1, 3*time.Minute)
	if err != nil {
		return err
	}
	next, err := b.lease(ctx)
	if err != nil {
		return err
	}
	at := seen[lost.machine]
	b.results.add("decision after last renewal s", at.Sub(lease.Spec.RenewTime.Time).Seconds())
	b.results.add("decision after acquired Lease s", at.Sub(next.Spec.AcquireTime.Time).Seconds())
	return nil
}

// lease returns the only Lease that has a holder.
func (b *bench) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	var found *coordinationv1.Lease
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		all := &coordinationv1.LeaseList{}
		if err := b.api.List(ctx, all, client.InNamespace(leaseNamespace)); err != nil {
			return false, err
		}
		for i := range all.Items {
			if ptr.Deref(all.Items[i].Spec.HolderIdentity, "") != "" {
				found = &all.Items[i]
			}
		}
		return found != nil, nil
	})
	return found, err
}
