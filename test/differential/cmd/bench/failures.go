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

// lostTimeout leaves enough time to write all Nodes before any of them is unhealthy.
func lostTimeout(count int) time.Duration { return time.Duration(5+count/150) * time.Second }

// benchmarkTenth lets 100 of 1,000 Nodes be lost, and measures until when all their Machines are marked, and how many writes that takes.
func benchmarkTenth(ctx context.Context, b *bench, s *system) error {
	count := thousand.targets / 10
	timeout := lostTimeout(count)
	c, err := b.prepare(ctx, s, thousand, policy{timeout: timeout})
	if err != nil {
		return err
	}
	defer c.finish(ctx)
	lost := c.members[:count]
	o, err := c.observe(ctx)
	if err != nil {
		return err
	}
	defer o.stop()
	before, err := c.usage(ctx)
	if err != nil {
		return err
	}
	since := time.Now().Truncate(time.Second)
	if _, err := c.lose(ctx, lost, since); err != nil {
		return err
	}
	seen, err := o.until(ctx, o.marked, len(lost), 5*time.Minute)
	if err != nil {
		return err
	}
	b.addTimesOf("", "mark s", seen, since.Add(timeout))
	after, err := c.usage(ctx)
	if err != nil {
		return err
	}
	b.results.add("writes/marked Machine", after.since(before).writes/float64(len(lost)))
	return nil
}

// hundred is the fleet of benchmarkRequests.
var hundred = shape{clusters: 1, checks: 1, targets: 100, images: 47}

// benchmarkRequests lets 20 of 100 Nodes be lost, one after the other within 16 seconds, and measures until when each has a remediation
// request.
func benchmarkRequests(ctx context.Context, b *bench, s *system) error {
	c, err := b.prepare(ctx, s, hundred, policy{template: true})
	if err != nil {
		return err
	}
	defer c.finish(ctx)
	o, err := c.observe(ctx)
	if err != nil {
		return err
	}
	defer o.stop()
	lost := c.members[:20]
	began := map[string]time.Time{}
	for _, m := range lost {
		if err := c.setReady(ctx, m, corev1.ConditionUnknown, time.Now()); err != nil {
			return err
		}
		began[m.machine] = time.Now()
		sleep(ctx, failureSpread/time.Duration(len(lost)))
	}
	seen, err := o.until(ctx, o.requested, len(lost), 10*time.Minute)
	if err != nil {
		return err
	}
	var delays, last []float64
	for name, at := range seen {
		delays = append(delays, milliseconds(at.Sub(began[name])))
		last = append(last, at.Sub(began[lost[len(lost)-1].machine]).Seconds())
	}
	b.results.addQuantiles("request", delays)
	// The last request may have been created before the last Node was lost, if that was the first to be seen.
	b.results.add("last request s", max(quantile(last, 1), 0.001))
	return nil
}
