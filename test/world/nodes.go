// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"time"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Nodes plays the kubelets and the node controller of a workload cluster. It goes past the link: a cut network between the clusters
// is no cut inside of them.
type Nodes struct {
	connect func(ctx context.Context) (client.Client, error)
	// real: the API server has a status subresource for Nodes, and Leases. The in-memory one has neither.
	real bool
}

// Nodes are those of the management cluster itself: bare ones, for which there are no Machines. There are none until they Join.
func (w *World) Nodes() *Nodes {
	return &Nodes{connect: func(context.Context) (client.Client, error) { return w.Client, nil }, real: true}
}

// Join is what a kubelet does at first: a Node that is Ready and has no pressure, and its Lease. It can be called again. Only a real API
// server takes Nodes from others; in memory they come with their Machines.
func (n *Nodes) Join(ctx context.Context, node *corev1.Node) error {
	if !n.real {
		return errors.New("in memory, Nodes come with their Machines: see World.Workload")
	}
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, node)); err != nil {
		return errors.Wrapf(err, "failed to make Node %s", node.Name)
	}
	if err := n.SetNodeCondition(ctx, node.Name, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"); err != nil {
		return err
	}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if err := n.SetNodeCondition(ctx, node.Name, pressure, corev1.ConditionFalse, "KubeletHasEnough"); err != nil {
			return err
		}
	}
	return n.RenewLease(ctx, node.Name)
}

// DeleteNode deletes a Node. No controller creates it again.
func (n *Nodes) DeleteNode(ctx context.Context, name string) error {
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Wrapf(c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}), "failed to delete Node %s", name)
}

// Node reads a Node.
func (n *Nodes) Node(ctx context.Context, name string) (*corev1.Node, error) {
	c, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	return node, errors.Wrapf(c.Get(ctx, client.ObjectKey{Name: name}, node), "failed to read Node %s", name)
}

// SetNodeCondition sets a condition of a Node, as the kubelet or the node controller does: the transition time changes when the status
// does. It stays until it is set again.
func (n *Nodes) SetNodeCondition(ctx context.Context, name string, kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) error {
	return n.change(ctx, name, func(node *corev1.Node) {
		now := metav1.Now()
		set := corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: "set by a test", LastHeartbeatTime: now, LastTransitionTime: now}
		for i, c := range node.Status.Conditions {
			if c.Type == kind {
				if c.Status == status {
					set.LastTransitionTime = c.LastTransitionTime
				}
				node.Status.Conditions[i] = set
				return
			}
		}
		node.Status.Conditions = append(node.Status.Conditions, set)
	})
}

// Heartbeat is what a living kubelet does: lastHeartbeatTime of every condition and nothing else, and the Node's Lease where there are
// Leases.
func (n *Nodes) Heartbeat(ctx context.Context, name string) error {
	now := metav1.Now()
	err := n.change(ctx, name, func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			node.Status.Conditions[i].LastHeartbeatTime = now
		}
	})
	if err != nil || !n.real {
		return err
	}
	return n.RenewLease(ctx, name)
}

// HeartbeatAll lets every kubelet that lives, which is one whose Node is not Unknown, beat until the context ends.
func (n *Nodes) HeartbeatAll(ctx context.Context, every time.Duration) error {
	c, err := n.connect(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	// One connection for all beats.
	kubelets := &Nodes{connect: func(context.Context) (client.Client, error) { return c, nil }, real: n.real}
	// Cancelled with the given one, but without its deadline: a client refuses a request that would come too late before it is too late.
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		names, err := kubelets.living(beating)
		for _, name := range names {
			// It may have been deleted by now.
			if beat := kubelets.Heartbeat(beating, name); err == nil && !apierrors.IsNotFound(errors.Cause(beat)) {
				err = beat
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (n *Nodes) living(ctx context.Context) ([]string, error) {
	c, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	list := &corev1.NodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, errors.Wrap(err, "failed to list Nodes")
	}
	var names []string
	for i := range list.Items {
		if readiness(&list.Items[i]) != corev1.ConditionUnknown {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, nil
}

// RenewLease is the other half of a heartbeat. Only a real API server has Leases.
func (n *Nodes) RenewLease(ctx context.Context, name string) error {
	if !n.real {
		return errors.New("the in-memory API server has no Leases: see World.Workload")
	}
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	spec := coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: ptr.To(metav1.NowMicro())}
	err = c.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if apierrors.IsNotFound(err) {
		lease.Spec = spec
		return errors.Wrapf(c.Create(ctx, lease), "failed to make the Lease of Node %s", name)
	}
	if err != nil {
		return errors.Wrapf(err, "failed to read the Lease of Node %s", name)
	}
	lease.Spec = spec
	return errors.Wrapf(c.Update(ctx, lease), "failed to renew the Lease of Node %s", name)
}

// change patches a Node's status: in memory it is a part of the Node like any other.
func (n *Nodes) change(ctx context.Context, name string, change func(*corev1.Node)) error {
	c, err := n.connect(ctx)
	if err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return errors.Wrapf(err, "failed to read Node %s", name)
	}
	before := client.MergeFrom(node.DeepCopy())
	change(node)
	if n.real {
		err = c.Status().Patch(ctx, node, before)
	} else {
		err = c.Patch(ctx, node, before)
	}
	return errors.Wrapf(err, "failed to change Node %s", name)
}

// readiness is the status of the condition Ready, Unknown if there is none.
func readiness(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// ReadyNode reports whether the Node reports that it is ready.
func ReadyNode(node *corev1.Node) bool { return readiness(node) == corev1.ConditionTrue }
