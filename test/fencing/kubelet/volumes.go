// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claimedVolume is a volume that a container mounts.
type claimedVolume struct {
	// volume is the PersistentVolume, and storageClass its StorageClass.
	volume, storageClass string
	// unique is how the attach-detach controller names it. It is empty for a volume that is not attached.
	unique corev1.UniqueVolumeName
}

func classes(volumes []claimedVolume) []string {
	all := make([]string, 0, len(volumes))
	for _, v := range volumes {
		all = append(all, v.storageClass)
	}
	return all
}

// claimedVolumes are the volumes of the claims of a Pod.
func (c *Cluster) claimedVolumes(ctx context.Context, pod *corev1.Pod) ([]claimedVolume, error) {
	var volumes []claimedVolume
	for _, name := range claimNames(pod) {
		claim, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim); err != nil {
			return nil, errors.WithStack(err)
		}
		if err := c.api.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
			return nil, errors.WithStack(err)
		}
		claimed := claimedVolume{volume: volume.Name, storageClass: volume.Spec.StorageClassName}
		if volume.Spec.CSI.Driver == driver {
			claimed.unique = corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + volume.Spec.CSI.VolumeHandle)
		}
		volumes = append(volumes, claimed)
	}
	return volumes, nil
}

// attached returns an error unless volumes are attached to this Node and to no other.
func (n *Node) attached(ctx context.Context, volumes []claimedVolume) error {
	if len(volumes) == 0 {
		return nil
	}
	list := &storagev1.VolumeAttachmentList{}
	if err := n.cluster.api.List(ctx, list); err != nil {
		return errors.WithStack(err)
	}
	for _, v := range volumes {
		attached := v.unique == ""
		for i := range list.Items {
			attachment := &list.Items[i]
			switch {
			case ptr.Deref(attachment.Spec.Source.PersistentVolumeName, "") != v.volume || !attachment.Status.Attached:
			case attachment.Spec.NodeName != n.Name:
				return errors.Errorf("PersistentVolume %s is attached to Node %s", v.volume, attachment.Spec.NodeName)
			default:
				attached = attachment.DeletionTimestamp == nil
			}
		}
		if !attached {
			return errors.Errorf("PersistentVolume %s is not attached to Node %s", v.volume, n.Name)
		}
	}
	return nil
}

// setInUse reports volumes as in use before their container starts, and as not in use when it has ended. What is in use is not detached
// from a Node that has become silent.
func (n *Node) setInUse(ctx context.Context, volumes []claimedVolume, inUse bool) error {
	if len(volumes) == 0 {
		return nil
	}
	n.lock.Lock()
	changed := false
	for _, v := range volumes {
		if v.unique == "" {
			continue
		}
		changed = changed || n.inUse[v.unique] != inUse
		if delete(n.inUse, v.unique); inUse {
			n.inUse[v.unique] = true
		}
	}
	n.lock.Unlock()
	if !changed {
		return nil
	}
	return n.report(ctx)
}
