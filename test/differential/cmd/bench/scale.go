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

// nodesPerCluster is how many Nodes each cluster has. The Machine of each cluster has one of its own: the in-tree reconciler ignores a Node
// that Machines of several clusters name.
const nodesPerCluster = 300

// point is what was measured at one size.
type point struct {
	size, cpuPerEvent, cpuPerChange, memory, start float64
	// idle is the milliseconds of CPU time in each second without an event, resident the bytes of the process after heartbeats, and peak the
	// most that it has had.
	idle, resident, peak float64
}

// benchmarkScale measures one check of more and more Machines, then more and more clusters with a check of one Machine, and how steep the
// curves are: an exponent of 0 is a flat one, 1 is a line, 2 is a square.
func benchmarkScale(ctx context.Context, b *bench, s *system) {
	f := b.emptyFleet(ctx, shape{clusters: 1, checks: 1, images: 10})
	b.measureSizes(ctx, s, f, "Nodes", nodeCounts, f.growNodes)
	f = b.emptyFleet(ctx, shape{checks: 1, targets: 1, images: 10, linked: true, sharedNodes: nodesPerCluster})
	b.measureSizes(ctx, s, f, "clusters", clusterCounts, f.growClusters)
}

// emptyFleet returns a fleet on an API server of its own: what the system before has measured would be part of each size.
func (b *bench) emptyFleet(ctx context.Context, of shape) *fleet {
	b.stop()
	b.start(ctx)
	return b.fleet(ctx, of)
}

func (b *bench) measureSizes(
	ctx context.Context, s *system, f *fleet, by string, counts []int, grow func(context.Context, int),
) {
	points := make([]point, 0, len(counts))
	for _, count := range counts {
		grow(ctx, count)
		p := f.measureSize(ctx, s)
		p.size = float64(count)
		points = append(points, p)
		b.addPoint(fmt.Sprintf("%d %s", count, by), &p)
	}
	b.addExponents(by, points)
}

func (b *bench) addPoint(name string, p *point) {
	b.results.add(name+": cpu µs/heartbeat above idle", p.cpuPerEvent)
	if p.cpuPerChange > 0 {
		b.results.add(name+": cpu µs/change", p.cpuPerChange)
	}
	b.results.add(name+": idle cpu ms/s", p.idle)
	b.results.add(name+": heap MiB", p.memory/(1<<20))
	b.results.add(name+": resident MiB", p.resident/(1<<20))
	b.results.add(name+": peak resident MiB", p.peak/(1<<20))
	b.results.add(name+": start to first decision s", p.start)
}

func (b *bench) addExponents(by string, points []point) {
	for name, value := range map[string]func(*point) float64{
		"cpu/event":          func(p *point) float64 { return p.cpuPerEvent },
		"cpu/change":         func(p *point) float64 { return p.cpuPerChange },
		"memory":             func(p *point) float64 { return p.memory },
		"the first decision": func(p *point) float64 { return p.start },
	} {
		if value(&points[0]) > 0 {
			b.results.add("exponent of "+name+" by "+by, exponent(points, value))
		}
	}
}

// exponent is the slope between the last two sizes, with two logarithmic axes: at a small size, most is what any size costs.
func exponent(points []point, value func(*point) float64) float64 {
	last, before := &points[len(points)-1], &points[len(points)-2]
	return math.Log(value(last)/value(before)) / math.Log(last.size/before.size)
}

// growNodes adds Machines to the only check of a fleet.
func (f *fleet) growNodes(ctx context.Context, count int) {
	have := len(f.members)
	for i := have; i < count; i++ {
		machine := fmt.Sprintf("check-0-0-%d", i)
		f.members = append(f.members, member{"cluster-0", "check-0-0", machine, f.namespace + "-" + machine})
	}
	f.targets = count
	succeed(each(f.members[have:], func(m member) error { return f.addMember(ctx, m) }))
}

// growClusters adds clusters to a fleet.
func (f *fleet) growClusters(ctx context.Context, count int) {
	have := len(f.members)
	for ; f.clusters < count; f.clusters++ {
		f.addClusterWithChecks(ctx, f.clusters)
	}
	succeed(each(f.members[have:], func(m member) error { return f.addMember(ctx, m) }))
}

// measureSize measures a system at the present size of a fleet.
func (f *fleet) measureSize(ctx context.Context, s *system) (p point) {
	lost := f.members[len(f.members)-1]
	const timeout = 5 * time.Second
	// Remedy believes Ready=Unknown only 50 seconds after a start.
	succeed(f.setReady(ctx, lost, corev1.ConditionFalse, time.Now()))
	sleep(ctx, timeout+time.Second)
	o := must(f.observe(ctx))
	defer o.stop()
	c := must(f.checkUnsettled(ctx, s, policy{timeout: timeout}))
	var seen map[string]time.Time
	// The conditions stay: the next size begins with a restart, and not with thousands of writes.
	defer c.leave(ctx)
	for marked := false; !marked; _, marked = seen[lost.machine] {
		seen = must(o.until(ctx, o.marked, len(seen)+1, settleTimeout))
	}
	p.start = seen[lost.machine].Sub(c.began).Seconds()
	succeed(f.setReady(ctx, lost, corev1.ConditionTrue, time.Now()))
	succeed(c.untilHealthy(ctx))
	succeed(c.untilQuiet(ctx))
	p.memory = must(c.heap(ctx))
	// It is the period in which the manager lists the Nodes of each cluster, and three of those in which it probes the connections.
	const duration = 30 * time.Second
	p.idle = c.measureIdle(ctx, duration)
	perSecond := heartbeatsPerSecond
	if f.linked {
		// Each heartbeat arrives once for each cluster: always as many in all.
		perSecond = max(1, clusterCounts[len(clusterCounts)-1]/f.clusters)
	}
	used, sent := c.measureHeartbeats(ctx, perSecond, duration)
	p.cpuPerEvent = (float64(used.cpu.Microseconds()) - 1000*p.idle*duration.Seconds()) / float64(sent*f.clusters)
	p.resident = used.sum("process_resident_memory_bytes")
	if !f.linked {
		p.cpuPerChange = c.measureChanges(ctx, 50)
	}
	p.peak = must(peakMemory(c.cmd.Process.Pid))
	return p
}

// measureIdle returns the CPU time in milliseconds that a system uses each second while nothing happens.
func (c *checked) measureIdle(ctx context.Context, duration time.Duration) float64 {
	before := must(c.usage(ctx))
	sleep(ctx, duration)
	after := must(c.usage(ctx))
	return milliseconds(after.since(before).cpu) / duration.Seconds()
}

// measureChanges lets Nodes flap for less than the timeout of their check, and returns the CPU time of each change in microseconds.
func (c *checked) measureChanges(ctx context.Context, count int) float64 {
	before := must(c.usage(ctx))
	for i := range count {
		m := c.members[i%len(c.members)]
		for _, status := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue} {
			succeed(c.setReady(ctx, m, status, time.Now()))
			// Longer than a reconcile of 10,000 Machines by Remedy: two changes in one reconcile would cost half.
			sleep(ctx, 250*time.Millisecond)
		}
	}
	after := must(c.usage(ctx))
	used := after.since(before)
	return float64(used.cpu.Microseconds()) / float64(2*count)
}
