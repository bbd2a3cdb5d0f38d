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
func benchmarkFloor(ctx context.Context, b *bench, _ *system) error {
	f, err := b.fleet(ctx, twenty)
	if err != nil {
		return err
	}
	o, err := f.observe(ctx)
	if err != nil {
		return err
	}
	defer o.stop()
	var delays []float64
	for _, m := range f.members {
		began := time.Now()
		if err := f.markByHand(ctx, m); err != nil {
			return err
		}
		seen, err := o.until(ctx, o.marked, len(delays)+1, time.Minute)
		if err != nil {
			return err
		}
		delays = append(delays, milliseconds(seen[m.machine].Sub(began)))
	}
	b.results.addQuantiles("write", delays)
	began := time.Now()
	if err := each(f.members, func(m member) error { return f.reset(ctx, m) }); err != nil {
		return err
	}
	// A reset reads the Machine and writes its status and that of its Node.
	b.results.add("writes/s with 16 clients", float64(2*len(f.members))/time.Since(began).Seconds())
	return nil
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
func benchmarkLatency(ctx context.Context, b *bench, s *system) error {
	c, err := b.prepare(ctx, s, twenty, policy{})
	if err != nil {
		return err
	}
	defer c.finish(ctx)
	o, err := c.observe(ctx)
	if err != nil {
		return err
	}
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
	seen, err := o.until(ctx, o.marked, c.shape.checks, time.Minute)
	if err != nil {
		return err
	}
	lost := make([]member, 0, c.shape.checks)
	for k := range c.shape.checks {
		lost = append(lost, c.members[k*c.targets])
	}
	if err := o.verify(o.marked, lost, time.Time{}, len(lost)); err != nil {
		return err
	}
	var delays []float64
	for k := range c.shape.checks {
		delays = append(delays, milliseconds(seen[c.members[k*c.targets].machine].Sub(began[k])))
	}
	b.results.addQuantiles("decision", delays)
	return nil
}

// deadlineTimeout is the timeout of the checks in benchmarkDeadlines. The deadlines are between five and 20 seconds ahead: the
// in-tree reconciler evaluates a check once in 15.
const (
	deadlineTimeout = 40 * time.Second
	deadlineAhead   = 5
	deadlineSpread  = 15
)

func benchmarkDeadlines(ctx context.Context, b *bench, s *system) error {
	return deadlines(ctx, b, s, 0)
}

func benchmarkDeadlinesUnderLoad(ctx context.Context, b *bench, s *system) error {
	return deadlines(ctx, b, s, 50)
}

// deadlines lets 200 Nodes be Unknown since times whose timeouts expire at different seconds, and measures how late each decision is.
func deadlines(ctx context.Context, b *bench, s *system, heartbeats int) error {
	c, err := b.prepare(ctx, s, twenty, policy{timeout: deadlineTimeout})
	if err != nil {
		return err
	}
	defer c.finish(ctx)
	o, err := c.observe(ctx)
	if err != nil {
		return err
	}
	defer o.stop()
	// A time before the creation of its Node is not believed.
	sleep(ctx, time.Until(c.created.Add(deadlineTimeout)))
	// Conditions have times of whole seconds.
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	due := map[string]time.Time{}
	for i, m := range c.members {
		due[m.machine] = begin.Add(time.Duration(deadlineAhead+i%deadlineSpread) * time.Second)
	}
	if err := each(c.members, func(m member) error {
		return c.setReady(ctx, m, corev1.ConditionUnknown, due[m.machine].Add(-deadlineTimeout))
	}); err != nil {
		return err
	}
	if heartbeats > 0 {
		stop := c.heartbeats(ctx, heartbeats)
		defer stop()
	}
	seen, err := o.until(ctx, o.unhealthy, len(c.members), 2*time.Minute)
	if err != nil {
		return err
	}
	var late []float64
	early := 0
	for name, at := range due {
		late = append(late, milliseconds(seen[name].Sub(at)))
		if seen[name].Before(at) {
			early++
		}
	}
	b.results.addQuantiles("lateness", late)
	b.results.add("decisions before their deadline", float64(early))
	return nil
}
