// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet plays the kubelets of machines whose power a test can switch, and the scheduler. A kubelet runs while its machine has
// power: it renews its Lease, reports Ready with the ID of the boot, and runs the first container of Pods of Jobs as a process of this
// machine. It pulls no images, and runs no other Pods. The real node-lifecycle controller notices when it stops. Start reading at Cluster.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
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

// Cluster is all kubelets of a cluster, and its scheduler.
type Cluster struct {
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

// Start starts the scheduler. A client that may do everything is needed.
func Start(api client.Client, boot time.Duration) *Cluster {
	c := &Cluster{api: api, boot: boot, runs: map[types.UID]*run{}, logs: map[string]string{}}
	c.life, c.end = context.WithCancel(context.Background())
	c.wait.Go(func() { c.every(interval, c.syncPods) })
	return c
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
	hung    atomic.Bool
	runs    atomic.Bool

	boots    int
	bootID   string
	starts   time.Time
	reported time.Time
	lease    *coordinationv1.Lease
}

// Join starts the kubelet of a machine. It returns when the Node is Ready. Pods run on the Nodes that joined first.
func (c *Cluster) Join(ctx context.Context, node *corev1.Node, machine Machine) (*Node, error) {
	n := &Node{Name: node.Name, cluster: c, machine: machine, boots: machine.Boots(), bootID: string(uuid.NewUUID())}
	if err := client.IgnoreAlreadyExists(c.api.Create(ctx, node)); err != nil {
		return nil, errors.Wrapf(err, "failed to create Node %s", node.Name)
	}
	if err := n.report(ctx); err != nil {
		return nil, err
	}
	n.runs.Store(true)
	c.lock.Lock()
	c.nodes = append(c.nodes, n)
	c.lock.Unlock()
	c.wait.Go(func() { c.every(interval, n.sync) })
	return n, nil
}

// Hang stops the kubelet while its machine has power. A boot or Recover ends that.
func (n *Node) Hang() { n.hung.Store(true) }

// Recover lets a kubelet continue that hangs.
func (n *Node) Recover() { n.hung.Store(false) }

// sync follows the power of the machine, and reports while the kubelet runs.
func (n *Node) sync(ctx context.Context) {
	boots, power := n.machine.Boots(), n.machine.Power()
	if boots != n.boots || !power {
		n.runs.Store(false)
		n.cluster.loseProcesses(n.Name)
	}
	if boots != n.boots && power {
		n.boots, n.bootID, n.starts, n.reported = boots, string(uuid.NewUUID()), time.Now().Add(n.cluster.boot), time.Time{}
		n.hung.Store(false)
	}
	if !power || time.Now().Before(n.starts) {
		return
	}
	if n.hung.Load() {
		n.runs.Store(false)
		return
	}
	n.runs.Store(true)
	if time.Since(n.reported) < heartbeat {
		return
	}
	// An error is tried again.
	if err := n.report(ctx); err == nil {
		n.reported = time.Now()
	}
}

// report renews the Lease, and writes the status of the Node if it has changed.
func (n *Node) report(ctx context.Context) error {
	if err := n.renew(ctx); err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := n.cluster.api.Get(ctx, client.ObjectKey{Name: n.Name}, node); err != nil {
		return errors.WithStack(err)
	}
	ready := &corev1.NodeCondition{}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			ready = &node.Status.Conditions[i]
		}
	}
	if ready.Status == corev1.ConditionTrue && node.Status.NodeInfo.BootID == n.bootID {
		return nil
	}
	before := client.MergeFrom(node.DeepCopy())
	now := metav1.Now()
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.MachineID = n.bootID, n.Name
	if ready.Type == "" {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady})
		ready = &node.Status.Conditions[len(node.Status.Conditions)-1]
	}
	if ready.Status != corev1.ConditionTrue {
		ready.LastTransitionTime = now
	}
	ready.Status, ready.Reason, ready.Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	ready.LastHeartbeatTime = now
	return errors.Wrapf(n.cluster.api.Status().Patch(ctx, node, before), "failed to write the status of Node %s", n.Name)
}

func (n *Node) renew(ctx context.Context) error {
	if n.lease == nil {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: n.Name}}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &n.Name, ptr.To[int32](40)
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		err := n.cluster.api.Create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			err = n.cluster.api.Get(ctx, client.ObjectKeyFromObject(lease), lease)
		}
		if err == nil {
			n.lease = lease
		}
		return errors.Wrapf(err, "failed to create the Lease of Node %s", n.Name)
	}
	n.lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	if err := n.cluster.api.Update(ctx, n.lease); err != nil {
		n.lease = nil
		return errors.Wrapf(err, "failed to renew the Lease of Node %s", n.Name)
	}
	return nil
}
