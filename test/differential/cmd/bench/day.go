// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The day of benchmarkDay, compressed.
const (
	// The manager lists Nodes every 30 seconds.
	idleTime   = 40 * time.Second
	outageTime = 15 * time.Second
	flaps      = 5
	failed     = 3
	rolledOut  = 50
	// A new Machine takes a minute or more in a real rollout.
	replaceTime = time.Second
)

// benchmarkDay lets 1,000 Machines live through a quiet time, Nodes that flap, Machines that fail and are replaced, an outage of the
// workload cluster and a rollout, and counts the requests that a system sends to both API servers. Heartbeats arrive all the time.
func benchmarkDay(ctx context.Context, b *bench, s *system) {
	day := thousand
	day.linked = true
	c := b.prepare(ctx, s, day, policy{timeout: 10 * time.Second})
	defer c.finish(ctx)
	stop := c.heartbeats(ctx, 20)
	defer stop()
	begin := must(c.usage(ctx))
	sleep(ctx, idleTime)
	quiet := must(c.usage(ctx))
	for _, step := range []func(context.Context){c.flap, c.fail, c.outage, c.rollOut} {
		step(ctx)
	}
	sleep(ctx, 5*time.Second)
	end := must(c.usage(ctx))
	b.results.add("writes while nothing happens", quiet.since(begin).writes)
	b.results.add("API requests", end.since(begin).requests)
	b.results.add("API writes", end.since(begin).writes)
	b.results.add("reconciles", end.since(begin).reconciles)
}

// flap lets Nodes be Unknown for less than the timeout.
func (f *fleet) flap(ctx context.Context) {
	for _, m := range f.members[:flaps] {
		succeed(f.setReady(ctx, m, corev1.ConditionUnknown, time.Now()))
		sleep(ctx, 2*time.Second)
		succeed(f.setReady(ctx, m, corev1.ConditionTrue, time.Now()))
	}
}

// fail lets Nodes be lost, and replaces their Machines when remediation is requested, as their owner does.
func (f *fleet) fail(ctx context.Context) {
	o := must(f.observe(ctx))
	defer o.stop()
	for _, m := range f.members[:failed] {
		succeed(f.setReady(ctx, m, corev1.ConditionUnknown, time.Now()))
	}
	must(o.until(ctx, o.marked, failed, 2*time.Minute))
	succeed(o.verify(o.marked, f.members[:failed], time.Time{}, failed))
	f.replace(ctx, failed)
}

// replace deletes the first Machines and creates as many new ones.
func (f *fleet) replace(ctx context.Context, count int) {
	for i := range count {
		m := f.members[i]
		f.replaced++
		next := member{m.cluster, m.check, fmt.Sprintf("%s-new-%d", m.check, f.replaced), ""}
		next.node = f.namespace + "-" + next.machine
		succeed(f.addMember(ctx, next))
		succeed(f.api.Delete(ctx, &clusterv1.Machine{ObjectMeta: f.meta(m.machine)}))
		succeed(f.api.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node}}))
		f.members[i] = next
	}
}

func (f *fleet) outage(ctx context.Context) {
	f.links[0].setCut(true)
	sleep(ctx, outageTime)
	f.links[0].setCut(false)
	sleep(ctx, outageTime)
}

func (f *fleet) rollOut(ctx context.Context) {
	for range rolledOut {
		f.replace(ctx, 1)
		sleep(ctx, replaceTime)
		f.members = append(f.members[1:], f.members[0])
	}
}
