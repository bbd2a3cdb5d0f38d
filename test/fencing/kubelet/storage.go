// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"slices"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// SharedStorageClass is the StorageClass whose volumes need not be attached, as those of a network file system. All others must be.
const SharedStorageClass = "shared"

const (
	// driver is the CSI driver of volumes, and attacher the finalizer of its external-attacher.
	driver   = "block.csi.example.com"
	attacher = "external-attacher/block-csi-example-com"
	// sharedDriver is the CSI driver of volumes that are not attached.
	sharedDriver = "shared.csi.example.com"
	// attachedByController lets the attach-detach controller attach the volumes of a Node.
	attachedByController = "volumes.kubernetes.io/controller-managed-attach-detach"
	bindCompleted        = "pv.kubernetes.io/bind-completed"
)

// installDrivers adds the CSI drivers.
func (c *Cluster) installDrivers(ctx context.Context) error {
	for name, attached := range map[string]bool{driver: true, sharedDriver: false} {
		object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
		object.Spec.AttachRequired = ptr.To(attached)
		if err := client.IgnoreAlreadyExists(c.api.Create(ctx, object)); err != nil {
			return errors.Wrap(err, "failed to create a CSIDriver")
		}
	}
	return nil
}

// addDrivers adds what the drivers report of a Node.
func (c *Cluster) addDrivers(ctx context.Context, node string) error {
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	object.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: node}, {Name: sharedDriver, NodeID: node}}
	return errors.Wrap(client.IgnoreAlreadyExists(c.api.Create(ctx, object)), "failed to create a CSINode")
}

// withAttaching lets the attach-detach controller attach the volumes of a Node.
func withAttaching(node *corev1.Node) *corev1.Node {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, attachedByController, "true")
	return node
}

// claimNames are the claims that a Pod mounts.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if claim := pod.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			names = append(names, claim.ClaimName)
		}
	}
	return names
}

// provision binds the claims of a Pod to new volumes, as the provisioner and the volume binder do.
func (c *Cluster) provision(ctx context.Context, pod *corev1.Pod) error {
	for _, name := range claimNames(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.api.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, claim); err != nil {
			return errors.WithStack(err)
		}
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		volume := volumeOf(claim)
		if err := client.IgnoreAlreadyExists(c.api.Create(ctx, volume)); err != nil {
			return errors.WithStack(err)
		}
		before := client.MergeFrom(claim.DeepCopy())
		claim.Spec.VolumeName = volume.Name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, bindCompleted, "yes")
		if err := c.api.Patch(ctx, claim, before); err != nil {
			return errors.WithStack(err)
		}
		before = client.MergeFrom(claim.DeepCopy())
		claim.Status.Phase, claim.Status.AccessModes = corev1.ClaimBound, claim.Spec.AccessModes
		claim.Status.Capacity = claim.Spec.Resources.Requests
		if err := c.api.Status().Patch(ctx, claim, before); err != nil {
			return errors.WithStack(err)
		}
	}
	return nil
}

// volumeOf is a new volume that is bound to a claim.
func volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
		StorageClassName: ptr.Deref(claim.Spec.StorageClassName, ""), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef: &corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		},
	}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: string(claim.UID)}
	if volume.Spec.StorageClassName == SharedStorageClass {
		volume.Spec.CSI.Driver = sharedDriver
	}
	return volume
}

// syncAttachments attaches and detaches volumes at once, as an external-attacher does for the attach-detach controller.
func (c *Cluster) syncAttachments(ctx context.Context) {
	list := &storagev1.VolumeAttachmentList{}
	if err := c.api.List(ctx, list); err != nil {
		return
	}
	for i := range list.Items {
		_ = c.syncAttachment(ctx, &list.Items[i])
	}
}

func (c *Cluster) syncAttachment(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	before := client.MergeFrom(attachment.DeepCopy())
	switch {
	case attachment.DeletionTimestamp != nil:
		if controllerutil.RemoveFinalizer(attachment, attacher) {
			return errors.WithStack(c.api.Patch(ctx, attachment, before))
		}
	case !slices.Contains(attachment.Finalizers, attacher):
		attachment.Finalizers = append(attachment.Finalizers, attacher)
		return errors.WithStack(c.api.Patch(ctx, attachment, before))
	case !attachment.Status.Attached:
		attachment.Status.Attached = true
		return errors.WithStack(c.api.Status().Patch(ctx, attachment, before))
	}
	return nil
}
