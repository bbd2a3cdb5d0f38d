// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// thousand is the fleet of most benchmarks: one check of 1,000 Machines, whose Nodes have the size of real ones.
var thousand = shape{clusters: 1, checks: 1, targets: 1000, images: 47}

// twenty is the fleet of latencies: 20 checks of ten Machines.
var twenty = shape{clusters: 1, checks: 20, targets: 10, images: 47}

// heartbeats sends so many heartbeats a second, of one Node after the other, until the returned function is called. That returns how many
// were sent.
func (f *fleet) heartbeats(ctx context.Context, perSecond int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	// The times of heartbeats are whole seconds: a second one of the same Node in a second would change nothing.
	nodes := slices.Clone(f.shared)
	for i := 0; len(f.shared) == 0 && i < len(f.members); i++ {
		nodes = append(nodes, f.members[i].node)
	}
	var sent atomic.Int64
	var running sync.WaitGroup
	next := make(chan int)
	for range parallel {
		running.Go(func() {
			for i := range next {
				if f.heartbeat(ctx, nodes[i%len(nodes)]) == nil {
					sent.Add(1)
				}
			}
		})
	}
	running.Go(func() {
		defer close(next)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			select {
			case <-ctx.Done():
				return
			case next <- i:
			}
		}
	})
	return func() int {
		cancel()
		running.Wait()
		return int(sent.Load())
	}
}

const (
	// Each of 1,000 Nodes has a heartbeat: the five minutes of a kubelet in 30 seconds. The in-tree reconciler evaluates a check twice
	// meanwhile.
	heartbeatsPerSecond = 33
	heartbeatTime       = 30 * time.Second
)

// benchmarkHeartbeats sends heartbeats of 1,000 healthy Nodes, and measures what each of them costs. An evaluation is one of one Machine.
func benchmarkHeartbeats(ctx context.Context, b *bench, s *system) {
	if s == floor {
		b.measureReceiver(ctx)
		return
	}
	c := b.prepare(ctx, s, thousand, policy{timeout: 5 * time.Minute})
	defer c.finish(ctx)
	used, count := c.measureHeartbeats(ctx, heartbeatsPerSecond, heartbeatTime)
	sent := float64(count)
	b.results.add("cpu µs/heartbeat", float64(used.cpu.Microseconds())/sent)
	b.results.add("evaluations/heartbeat", used.reconciles*float64(c.targets)/sent)
	b.results.add("allocated bytes/heartbeat", used.allocated/sent)
	b.results.add("allocations/heartbeat", used.mallocs/sent)
	b.results.add("writes", used.writes)
}

func (c *checked) measureHeartbeats(ctx context.Context, perSecond int, duration time.Duration) (used usage, sent int) {
	before := must(c.usage(ctx))
	stop := c.heartbeats(ctx, perSecond)
	sleep(ctx, duration)
	sent = stop()
	after := must(c.usage(ctx))
	const ignored = "remedy_heartbeats_ignored_total"
	if arrived := after.sum(ignored) - before.sum(ignored); c.isRemedy && arrived < 0.9*float64(sent*c.clusters) {
		succeed(fmt.Errorf("%.0f of %d heartbeats have arrived", arrived, sent*c.clusters))
	}
	return after.since(before), sent
}

// measureReceiver measures a process that receives the watch of all Nodes and drops it. A controller cannot cost less.
func (b *bench) measureReceiver(ctx context.Context) {
	f := b.fleet(ctx, thousand)
	program := must(os.Executable())
	b.started++
	wrapped := must(b.group.Wrap(fmt.Sprintf("receiver-%d", b.started), program))
	cmd := exec.CommandContext(ctx, wrapped, "-receive", b.kubeconfig)
	cmd.Stderr = os.Stderr
	succeed(cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	// The watch begins with all Nodes.
	sleep(ctx, 5*time.Second)
	before := must(cpuTime(cmd.Process.Pid))
	stop := f.heartbeats(ctx, heartbeatsPerSecond)
	sleep(ctx, heartbeatTime)
	sent := stop()
	after := must(cpuTime(cmd.Process.Pid))
	b.results.add("cpu µs/heartbeat", float64((after-before).Microseconds())/float64(sent))
}

// receive watches all Nodes in protobuf, as the manager does, and drops what arrives.
func receive(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType, config.DisableCompression = runtime.ContentTypeProtobuf, true
	clients, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	body, err := clients.RESTClient().Get().Resource("nodes").Param("watch", "true").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	_, err = io.Copy(io.Discard, body)
	return err
}

// sleep waits for a time, or until the run is interrupted.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
