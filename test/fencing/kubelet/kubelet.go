// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet plays the kubelets of machines whose power a test can switch, the scheduler, and the storage of the cluster. A kubelet
// runs while its machine has power: it renews its Lease, reports Ready with the ID of the boot, and runs Pods. The first container of a Pod
// of a Job is a process of this machine. Every other Pod is played: its container writes to a log for as long as it could write to its
// storage, whatever the API server has. It pulls no images. The real node-lifecycle controller notices when a kubelet stops. Start reading
// at Cluster.
package kubelet

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// interval is how often power and Pods are read, and heartbeat how often a kubelet reports.
	interval  = 100 * time.Millisecond
	heartbeat = time.Second
)

// Machine is what a kubelet runs on.
type Machine interface {
	// Power is whether it has power, and Boots how often it was switched on.
	Power() bool
	Boots() int
}

// AlwaysOn is a machine that never loses its power.
type AlwaysOn struct{}

// Power is true.
func (AlwaysOn) Power() bool { return true }

// Boots is one.
func (AlwaysOn) Boots() int { return 1 }

// Cluster is all kubelets of a cluster, its scheduler and its storage.
type Cluster struct {
	// Writes are those of all containers that are played.
	Writes *Writes

	api client.Client
	// boot is how long a machine takes from its power to its kubelet.
	boot time.Duration

	lock  sync.Mutex
	nodes []*Node
	runs  map[types.UID]*run
	logs  map[string]string
	wait  sync.WaitGroup
	life  context.Context //nolint:containedctx // it is the life of all kubelets.
	end   context.CancelFunc
}

// Start starts the scheduler and the storage. A client that may do everything is needed.
func Start(ctx context.Context, api client.Client, boot time.Duration) (*Cluster, error) {
	c := &Cluster{api: api, boot: boot, runs: map[types.UID]*run{}, logs: map[string]string{}, Writes: &Writes{}}
	c.life, c.end = context.WithCancel(context.Background())
	if err := c.installDrivers(ctx); err != nil {
		return nil, err
	}
	c.wait.Go(func() { c.every(interval, c.syncPods) })
	c.wait.Go(func() { c.every(interval, c.syncAttachments) })
	return c, nil
}

// Stop ends all kubelets, and the processes of Pods.
func (c *Cluster) Stop() {
	c.end()
	c.wait.Wait()
	for _, r := range c.runs {
		r.kill()
	}
}

// Logs are what the container of each Pod has printed, by the name of the Pod.
func (c *Cluster) Logs() map[string]string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.logs)
}

func (c *Cluster) every(interval time.Duration, do func(context.Context)) {
	for c.life.Err() == nil {
		do(c.life)
		select {
		case <-c.life.Done():
		case <-time.After(interval):
		}
	}
}

// Node is a kubelet, and the Node that it reports.
type Node struct {
	Name string

	cluster *Cluster
	machine Machine
	// hung, unready, crashed and failing are faults; left is the end.
	hung, unready, crashed, failing, left atomic.Bool

	// lock is for what belongs to a boot.
	lock sync.Mutex
	runs bool
	// since is when the kubelet began to run, or when it last did what was due for its Pods. What was read before is outdated.
	since  time.Time
	boots  int
	bootID string
	starts time.Time
	// inUse are the volumes of containers, as the attach-detach controller names them.
	inUse map[corev1.UniqueVolumeName]bool
	// storage has what connects the machine to a StorageClass.
	storage map[string]func() bool

	// reporting is for a report.
	reporting sync.Mutex
	reported  time.Time
	lease     *coordinationv1.Lease

	// busy: it syncs its Pods. Only that uses containers.
	busy       atomic.Bool
	containers map[types.UID]*container
}

// Join starts the kubelet of a machine. It returns when the Node is Ready. Pods run on the Nodes that joined first.
func (c *Cluster) Join(ctx context.Context, node *corev1.Node, machine Machine) (*Node, error) {
	n := &Node{
		Name: node.Name, cluster: c, machine: machine, boots: machine.Boots(), bootID: string(uuid.NewUUID()),
		inUse: map[corev1.UniqueVolumeName]bool{}, storage: map[string]func() bool{}, containers: map[types.UID]*container{},
	}
	if err := client.IgnoreAlreadyExists(c.api.Create(ctx, withAttaching(node))); err != nil {
		return nil, errors.Wrapf(err, "failed to create Node %s", node.Name)
	}
	if err := c.addDrivers(ctx, node.Name); err != nil {
		return nil, err
	}
	if err := n.report(ctx); err != nil {
		return nil, err
	}
	n.setRuns(true)
	c.lock.Lock()
	c.nodes = append(c.nodes, n)
	c.lock.Unlock()
	c.wait.Go(func() {
		c.every(interval, func(ctx context.Context) {
			if !n.left.Load() {
				n.sync(ctx)
			}
		})
	})
	return n, nil
}

// Hang stops the kubelet while its machine has power. Its containers do not stop. A boot or Recover ends that.
func (n *Node) Hang() { n.hung.Store(true) }

// Crash stops the kernel while its machine has power: the kubelet and all containers. Only a boot ends that.
func (n *Node) Crash() {
	n.crashed.Store(true)
	n.hung.Store(true)
}

// FailToStart lets each kubelet hang that a boot starts, until Recover.
func (n *Node) FailToStart() { n.failing.Store(true) }

// ReportNotReady lets the kubelet report Ready=False, as one whose container runtime has failed. A boot or Recover ends that.
func (n *Node) ReportNotReady() { n.unready.Store(true) }

// Recover ends all faults but a crash.
func (n *Node) Recover() {
	n.failing.Store(false)
	n.unready.Store(false)
	n.hung.Store(n.crashed.Load())
}

// Leave ends the kubelet and its containers for good: a scenario does not need it any more.
func (n *Node) Leave() {
	n.left.Store(true)
	n.setRuns(false)
}

// Connect makes containers that use a StorageClass write only while a function returns true: while the machine is not cut off from it.
func (n *Node) Connect(storageClass string, connected func() bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.storage[storageClass] = connected
}

// connected reports whether the machine reaches all of some StorageClasses.
func (n *Node) connected(storageClasses []string) bool {
	n.lock.Lock()
	defer n.lock.Unlock()
	for _, class := range storageClasses {
		if connected := n.storage[class]; connected != nil && !connected() {
			return false
		}
	}
	return true
}

// sync follows the power of the machine, and reports while the kubelet runs.
func (n *Node) sync(ctx context.Context) {
	power, boots := n.machine.Power(), n.machine.Boots()
	if boots != n.boots || !power || n.crashed.Load() {
		n.setRuns(false)
		n.cluster.loseProcesses(n.Name)
	}
	if boots != n.boots && power {
		n.boot(boots)
	}
	if !power || time.Now().Before(n.starts) {
		return
	}
	if n.hung.Load() {
		n.setRuns(false)
		return
	}
	n.setRuns(true)
	if time.Since(n.reported) < heartbeat {
		return
	}
	// An error is tried again.
	if err := n.report(ctx); err == nil {
		n.reported = time.Now()
	}
}

// boot begins a boot: no container has survived the last one.
func (n *Node) boot(boots int) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.boots, n.bootID, n.starts, n.reported = boots, string(uuid.NewUUID()), time.Now().Add(n.cluster.boot), time.Time{}
	n.inUse = map[corev1.UniqueVolumeName]bool{}
	n.crashed.Store(false)
	n.unready.Store(false)
	n.hung.Store(n.failing.Load())
}

func (n *Node) setRuns(runs bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	if runs && !n.runs {
		n.since = time.Now()
	}
	n.runs = runs
}

// synced makes outdated what was read until now.
func (n *Node) synced() {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.since = time.Now()
	n.busy.Store(false)
}

// running returns since when what is read is not outdated, and the boot in which the kubelet runs. A kubelet whose machine has just lost
// its power does not run.
func (n *Node) running() (since time.Time, boots int, running bool) {
	n.lock.Lock()
	defer n.lock.Unlock()
	running = n.runs && !n.hung.Load() && n.machine.Power() && n.machine.Boots() == n.boots
	return n.since, n.boots, running
}
