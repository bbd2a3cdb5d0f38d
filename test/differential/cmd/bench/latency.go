// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// benchmarkFloor patches the status of Machines without any controller, and measures the time until a watch delivers it.
func benchmarkFloor(ctx context.Context, b *bench, _ *system) {
	f := b.fleet(ctx, twenty)
	o := must(f.observe(ctx))
	defer o.stop()
	delays := make([]float64, 0, len(f.members))
	for _, m := range f.members {
		began := time.Now()
		succeed(f.markByHand(ctx, m))
		seen := must(o.until(ctx, o.marked, len(delays)+1, time.Minute))
		delays = append(delays, milliseconds(seen[m.machine].Sub(began)))
	}
	b.results.addQuantiles("write", delays)
	began := time.Now()
	succeed(each(f.members, func(m member) error { return f.reset(ctx, m) }))
	// A reset reads the Machine and writes its status and that of its Node.
	b.results.add("writes/s with 16 clients", float64(2*len(f.members))/time.Since(began).Seconds())
}

func (f *fleet) markByHand(ctx context.Context, m member) error {
	f.touched.Store(m.node, true)
	machine := &clusterv1.Machine{ObjectMeta: f.meta(m.machine)}
	condition := `{"type":"OwnerRemediated","status":"False","reason":"Floor","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	patch := `{"status":{"conditions":[` + condition + `]}}`
	return f.api.Status().Patch(ctx, machine, mergePatch(patch))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// failureSpread is longer than the rate limit of the in-tree reconciler, so that a failure meets it at any time.
const failureSpread = 16 * time.Second

// benchmarkLatency lets one Node of each of 20 checks fail, at times of their own, while heartbeats arrive. The timeout of the checks is 0.
func benchmarkLatency(ctx context.Context, b *bench, s *system) {
	c := b.prepare(ctx, s, twenty, policy{})
	defer c.finish(ctx)
	o := must(c.observe(ctx))
	defer o.stop()
	stop := c.heartbeats(ctx, 50)
	defer stop()
	began := make([]time.Time, c.shape.checks)
	var failures sync.WaitGroup
	for k := range c.shape.checks {
		failures.Go(func() {
			sleep(ctx, rand.N(failureSpread)) //nolint:gosec // a draw of a benchmark.
			_ = c.setReady(ctx, c.members[k*c.targets], corev1.ConditionUnknown, time.Now())
			began[k] = time.Now()
		})
	}
	failures.Wait()
	seen := must(o.until(ctx, o.marked, c.shape.checks, time.Minute))
	lost := make([]member, 0, c.shape.checks)
	for k := range c.shape.checks {
		lost = append(lost, c.members[k*c.targets])
	}
	succeed(o.verify(o.marked, lost, time.Time{}, len(lost)))
	delays := make([]float64, 0, c.shape.checks)
	for k := range c.shape.checks {
		delays = append(delays, milliseconds(seen[c.members[k*c.targets].machine].Sub(began[k])))
	}
	b.results.addQuantiles("decision", delays)
}

// deadlineTimeout is the timeout of the checks in benchmarkDeadlines. The deadlines are between five and 20 seconds ahead: the
// in-tree reconciler evaluates a check once in 15.
const (
	deadlineTimeout = 40 * time.Second
	deadlineAhead   = 5
	deadlineSpread  = 15
)

func benchmarkDeadlines(ctx context.Context, b *bench, s *system) {
	deadlines(ctx, b, s, 0)
}

func benchmarkDeadlinesUnderLoad(ctx context.Context, b *bench, s *system) {
	deadlines(ctx, b, s, 50)
}

// deadlines lets 200 Nodes be Unknown since times whose timeouts expire at different seconds, and measures how late each decision is.
func deadlines(ctx context.Context, b *bench, s *system, heartbeats int) {
	c := b.prepare(ctx, s, twenty, policy{timeout: deadlineTimeout})
	defer c.finish(ctx)
	o := must(c.observe(ctx))
	defer o.stop()
	// A time before the creation of its Node is not believed.
	sleep(ctx, time.Until(c.created.Add(deadlineTimeout)))
	// Conditions have times of whole seconds.
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	due := map[string]time.Time{}
	for i, m := range c.members {
		due[m.machine] = begin.Add(time.Duration(deadlineAhead+i%deadlineSpread) * time.Second)
	}
	succeed(each(c.members, func(m member) error {
		return c.setReady(ctx, m, corev1.ConditionUnknown, due[m.machine].Add(-deadlineTimeout))
	}))
	if heartbeats > 0 {
		stop := c.heartbeats(ctx, heartbeats)
		defer stop()
	}
	seen := must(o.until(ctx, o.unhealthy, len(c.members), 2*time.Minute))
	late := make([]float64, 0, len(due))
	early := 0
	for name, at := range due {
		late = append(late, milliseconds(seen[name].Sub(at)))
		if seen[name].Before(at) {
			early++
		}
	}
	b.results.addQuantiles("lateness", late)
	b.results.add("decisions before their deadline", float64(early))
}
