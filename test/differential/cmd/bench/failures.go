// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// lose sets Ready=Unknown on Nodes, at the same time as far as the API server allows, and returns when the last one was written.
func (f *fleet) lose(ctx context.Context, members []member, since time.Time) (time.Time, error) {
	err := each(members, func(m member) error { return f.setReady(ctx, m, corev1.ConditionUnknown, since) })
	return time.Now(), err
}

// shiftPhase waits for a part of the 15 seconds after which the in-tree reconciler evaluates a check again, another one in each round.
// Otherwise the failure would always meet it at the same time after the start.
func (b *bench) shiftPhase(ctx context.Context, rounds int) {
	sleep(ctx, time.Duration(b.results.round)*15*time.Second/time.Duration(rounds))
}

// lostTimeout leaves enough time to write all Nodes before any of them is unhealthy.
func lostTimeout(count int) time.Duration { return time.Duration(5+count/150) * time.Second }

// benchmarkTenth lets 100 of 1,000 Nodes be lost, and measures until when all their Machines are marked, and how many writes that takes.
func benchmarkTenth(ctx context.Context, b *bench, s *system) {
	count := thousand.targets / 10
	timeout := lostTimeout(count)
	c := b.prepare(ctx, s, thousand, policy{timeout: timeout})
	defer c.finish(ctx)
	lost := c.members[:count]
	o := must(c.observe(ctx))
	defer o.stop()
	before := must(c.usage(ctx))
	b.shiftPhase(ctx, 5)
	since := time.Now().Truncate(time.Second)
	must(c.lose(ctx, lost, since))
	seen := must(o.until(ctx, o.marked, len(lost), 5*time.Minute))
	b.addTimesOf("", "condition s", seen, since.Add(timeout))
	succeed(c.untilQuiet(ctx))
	succeed(o.verify(o.marked, lost, since.Add(timeout), count))
	after := must(c.usage(ctx))
	b.results.add("writes/condition", after.since(before).writes/float64(len(lost)))
}

// hundred is the fleet of benchmarkRequests.
var hundred = shape{clusters: 1, checks: 1, targets: 100, images: 47}

// requestTime is how long benchmarkRequests waits. In-tree creates no more requests in a reconcile after the first Machine that has one, so
// it can need minutes for all of them.
const requestTime = time.Minute

// benchmarkRequests lets 20 of 100 Nodes be lost, one after the other within 16 seconds, while heartbeats arrive. It measures until when
// each has a remediation request, and how many have one when a minute is over.
func benchmarkRequests(ctx context.Context, b *bench, s *system) {
	c := b.prepare(ctx, s, hundred, policy{template: true})
	defer c.finish(ctx)
	o := must(c.observe(ctx))
	defer o.stop()
	stop := c.heartbeats(ctx, 50)
	defer stop()
	lost := c.members[:20]
	began := map[string]time.Time{}
	for _, m := range lost {
		succeed(c.setReady(ctx, m, corev1.ConditionUnknown, time.Now()))
		began[m.machine] = time.Now()
		sleep(ctx, failureSpread/time.Duration(len(lost)))
	}
	seen, err := o.until(ctx, o.requested, len(lost), requestTime)
	succeed(ctx.Err())
	succeed(o.verify(o.requested, lost, time.Time{}, len(lost)))
	// Without all requests, the time is a lower bound.
	last := requestTime.Seconds()
	if err == nil {
		last = 0
	}
	delays := make([]float64, 0, len(seen))
	for name, at := range seen {
		delays = append(delays, milliseconds(at.Sub(began[name])))
		if err == nil {
			last = max(last, at.Sub(began[lost[len(lost)-1].machine]).Seconds())
		}
	}
	for range len(lost) - len(seen) {
		delays = append(delays, milliseconds(requestTime))
	}
	b.results.addQuantiles("request", delays)
	b.results.add("requests in a minute", float64(len(seen)))
	b.results.add("last request s", last)
}
