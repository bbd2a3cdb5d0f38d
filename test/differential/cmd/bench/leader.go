// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseNamespace is that of the Lease of the leader.
const leaseNamespace = "default"

// manyClusters is the fleet of benchmarkFailover. All clusters have the same API server, so each connection caches the Nodes of all.
var manyClusters = shape{clusters: 50, checks: 1, targets: 5, linked: true}

var failoverSystems = []*system{remedy, remedyColdStandby, inTree, remedyShortLease, inTreeShortLease}

// benchmarkFailover kills the leader of two instances, lets a Node fail, and measures until the other instance has decided. Remedy's
// standby has its caches and connections, unless it is a cold one. Then the benchmark stops the leader gracefully.
func benchmarkFailover(ctx context.Context, b *bench, s *system) {
	f := b.fleet(ctx, manyClusters)
	succeed(b.api.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(leaseNamespace)))
	defer b.leadControllers(ctx)()
	args := []string{"--leader-elect"}
	if s.isRemedy && s != remedyColdStandby {
		args = append(args, "--feature-gates=WarmStandby=true")
	}
	c := must(f.check(ctx, s, policy{}, args...))
	defer c.finish(ctx)
	o := must(f.observe(ctx))
	defer o.stop()
	killed := c.failOver(ctx, o, os.Kill, 0, args)
	b.results.add("decision after last renewal s", killed.decided.Sub(killed.renewed).Seconds())
	b.results.add("decision after acquired Lease s", killed.decided.Sub(killed.acquired).Seconds())
	if s != remedy && s != remedyColdStandby {
		return
	}
	stopped := c.failOver(ctx, o, syscall.SIGTERM, 1, args)
	b.results.add("decision after a graceful stop s", stopped.decided.Sub(stopped.signalled).Seconds())
}

// leadControllers renews the Lease of kube-controller-manager, which has led for an hour, until the returned function is called: the bench
// has none, and every cluster has.
func (b *bench) leadControllers(ctx context.Context) (stop func()) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-controller-manager"}}
	lease.Spec.HolderIdentity, lease.Spec.AcquireTime = ptr.To("bench"), &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
	_ = b.api.Delete(ctx, lease.DeepCopy())
	succeed(b.api.Create(ctx, lease))
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			_ = b.api.Update(ctx, lease)
		}, 2*time.Second)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// failoverTimes are when the leader last renewed its Lease and got a signal, the next one acquired the Lease, and decided.
type failoverTimes struct{ renewed, signalled, acquired, decided time.Time }

// failOver starts a standby, ends the leader by a signal, and lets a Node fail. The standby is the next leader.
func (c *checked) failOver(ctx context.Context, o *observer, signal os.Signal, failed int, args []string) (at failoverTimes) {
	standby := must(c.run(ctx, c.system, args...))
	leader := c.process
	defer leader.end()
	// finish ends the standby.
	c.process = standby
	// The standby connects its clusters, and the leader renews its Lease several times.
	sleep(ctx, 10*time.Second)
	standby.untilTrusted(ctx)
	before := must(c.lease(ctx))
	at.signalled = time.Now()
	_ = leader.cmd.Process.Signal(signal)
	<-leader.exited
	if signal == os.Kill {
		// It may have renewed its Lease. A leader that stops gracefully has released it.
		before = must(c.lease(ctx))
	}
	lost := c.members[len(c.members)/2+failed*c.targets]
	succeed(c.setReady(ctx, lost, corev1.ConditionUnknown, time.Now()))
	seen := must(o.until(ctx, o.marked, failed+1, 3*time.Minute))
	if seen[lost.machine].IsZero() || len(seen) > failed+1 {
		succeed(fmt.Errorf("another Machine than %s was remediated", lost.machine))
	}
	after := must(c.lease(ctx))
	at.renewed, at.acquired, at.decided = before.Spec.RenewTime.Time, after.Spec.AcquireTime.Time, seen[lost.machine]
	return at
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
