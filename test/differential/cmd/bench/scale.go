// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The sizes of benchmarkScale.
var (
	nodeCounts    = []int{100, 1000, 5000, 10_000}
	clusterCounts = []int{1, 50, 300}
)

// point is what was measured at one size.
type point struct {
	size, cpuPerEvent, cpuPerChange, memory, start float64
}

// benchmarkScale measures one check of more and more Machines, then more and more clusters of one Machine, and how steep the curves are: an
// exponent of 0 is a flat one, 1 is a line, 2 is a square.
func benchmarkScale(ctx context.Context, b *bench, s *system) error {
	f, err := b.fleet(ctx, shape{clusters: 1, checks: 1, images: 10})
	if err != nil {
		return err
	}
	var points []point
	for _, count := range nodeCounts {
		if err := f.grow(ctx, count); err != nil {
			return err
		}
		p, err := f.measureSize(ctx, s, 1)
		if err != nil {
			return err
		}
		p.size = float64(count)
		points = append(points, p)
		b.addPoint(fmt.Sprintf("%d Nodes", count), &p)
	}
	b.addExponents("Nodes", points)
	points = nil
	for _, count := range clusterCounts {
		f, err := b.fleet(ctx, shape{clusters: count, checks: 1, targets: 1, linked: true})
		if err != nil {
			return err
		}
		p, err := f.measureSize(ctx, s, count)
		if err != nil {
			return err
		}
		p.size = float64(count)
		points = append(points, p)
		b.addPoint(fmt.Sprintf("%d clusters", count), &p)
	}
	b.addExponents("clusters", points)
	return nil
}

func (b *bench) addPoint(name string, p *point) {
	b.results.add(name+": cpu µs/heartbeat", p.cpuPerEvent)
	b.results.add(name+": cpu µs/change", p.cpuPerChange)
	b.results.add(name+": heap MiB", p.memory/(1<<20))
	b.results.add(name+": start to first decision s", p.start)
}

func (b *bench) addExponents(by string, points []point) {
	for name, value := range map[string]func(*point) float64{
		"cpu/event":          func(p *point) float64 { return p.cpuPerEvent },
		"cpu/change":         func(p *point) float64 { return p.cpuPerChange },
		"memory":             func(p *point) float64 { return p.memory },
		"the first decision": func(p *point) float64 { return p.start },
	} {
		b.results.add("exponent of "+name+" by "+by, exponent(points, value))
	}
}

// exponent is the slope of the line through the logarithms, by least squares.
func exponent(points []point, value func(*point) float64) float64 {
	var n, sumX, sumY, sumXX, sumXY float64
	for i := range points {
		y := value(&points[i])
		if y <= 0 {
			continue
		}
		x := math.Log(points[i].size)
		y = math.Log(y)
		n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}

// grow adds Machines to the only check of a fleet.
func (f *fleet) grow(ctx context.Context, count int) error {
	have := len(f.members)
	for i := have; i < count; i++ {
		machine := fmt.Sprintf("check-0-0-%d", i)
		f.members = append(f.members, member{"cluster-0", "check-0-0", machine, f.namespace + "-" + machine})
	}
	f.targets = count
	if have > count {
		return nil
	}
	return each(f.members[have:], func(m member) error { return f.addMember(ctx, m) })
}

// measureSize measures a system at the present size of a fleet. Each heartbeat reaches the caches of all clusters.
func (f *fleet) measureSize(ctx context.Context, s *system, caches int) (p point, err error) {
	lost := f.members[len(f.members)-1]
	if err := f.setReady(ctx, lost, corev1.ConditionUnknown, time.Now()); err != nil {
		return p, err
	}
	o, err := f.observe(ctx)
	if err != nil {
		return p, err
	}
	defer o.stop()
	began := time.Now()
	c, err := f.checkUnsettled(ctx, s, policy{timeout: time.Second})
	if err != nil {
		return p, err
	}
	defer c.finish(ctx)
	seen, err := o.until(ctx, o.marked, 1, settleTimeout)
	if err != nil {
		return p, err
	}
	p.start = seen[lost.machine].Sub(began).Seconds()
	if err := f.setReady(ctx, lost, corev1.ConditionTrue, time.Now()); err != nil {
		return p, err
	}
	if err := c.untilHealthy(ctx); err != nil {
		return p, err
	}
	if err := c.untilQuiet(ctx); err != nil {
		return p, err
	}
	if p.memory, err = c.heap(ctx); err != nil {
		return p, err
	}
	used, sent, err := c.measureHeartbeats(ctx, 50, 10*time.Second)
	if err != nil {
		return p, err
	}
	p.cpuPerEvent = float64(used.cpu.Microseconds()) / float64(sent*caches)
	p.cpuPerChange, err = c.measureChanges(ctx, 50)
	return p, err
}

// measureChanges lets Nodes flap for less than the timeout of their check, and returns the CPU time of each change in microseconds.
func (c *checked) measureChanges(ctx context.Context, count int) (float64, error) {
	before, err := c.usage(ctx)
	if err != nil {
		return 0, err
	}
	for i := range count {
		m := c.members[i%len(c.members)]
		for _, status := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue} {
			if err := c.setReady(ctx, m, status, time.Now()); err != nil {
				return 0, err
			}
			sleep(ctx, 50*time.Millisecond)
		}
	}
	after, err := c.usage(ctx)
	used := after.since(before)
	return float64(used.cpu.Microseconds()) / float64(2*count), err
}
