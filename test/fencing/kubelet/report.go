// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"maps"
	"slices"

	"github.com/pkg/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// report renews the Lease, and writes the status of the Node if it has changed.
func (n *Node) report(ctx context.Context) error {
	n.reporting.Lock()
	defer n.reporting.Unlock()
	if err := n.renew(ctx); err != nil {
		return err
	}
	node := &corev1.Node{}
	if err := n.cluster.api.Get(ctx, client.ObjectKey{Name: n.Name}, node); err != nil {
		return errors.WithStack(err)
	}
	before := client.MergeFrom(node.DeepCopy())
	if !n.write(&node.Status) {
		return nil
	}
	return errors.Wrapf(n.cluster.api.Status().Patch(ctx, node, before), "failed to write the status of Node %s", n.Name)
}

// write writes what the kubelet reports, and returns whether that is a change.
func (n *Node) write(status *corev1.NodeStatus) bool {
	n.lock.Lock()
	boot, inUse := n.bootID, slices.Sorted(maps.Keys(n.inUse))
	n.lock.Unlock()
	changed := status.NodeInfo.BootID != boot || !slices.Equal(status.VolumesInUse, inUse)
	status.NodeInfo.BootID, status.NodeInfo.MachineID = boot, n.Name
	// The attach-detach controller does not detach these from a Node.
	status.VolumesInUse = inUse
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
	if n.unready.Load() {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", "container runtime is down"
	}
	ready.LastHeartbeatTime = metav1.Now()
	at := slices.IndexFunc(status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if at < 0 {
		ready.LastTransitionTime = ready.LastHeartbeatTime
		status.Conditions = append(status.Conditions, ready)
		return true
	}
	if ready.LastTransitionTime = status.Conditions[at].LastTransitionTime; status.Conditions[at].Status != ready.Status {
		ready.LastTransitionTime, changed = ready.LastHeartbeatTime, true
	}
	if changed {
		status.Conditions[at] = ready
	}
	return changed
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
