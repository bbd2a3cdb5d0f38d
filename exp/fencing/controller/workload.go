// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/pods"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/profile"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// podPage is how many Pods are read at the same time. They are large.
const podPage = 100

// evictionTimeout is how long one eviction can take: the client waits if the API server asks for it, and other Pods must not.
const evictionTimeout = 2 * time.Second

// maxNames is how many Pods and VolumeAttachments are named.
const maxNames = 10

// readWorkload reads live what runs on the Node, if the decision needs it.
func (r *Reconciler) readWorkload(ctx context.Context, fence *fencingv1.NodeFence, o *observed) {
	scope := lifecycle.NeedsWorkload(&fence.Status, &fence.Spec)
	if scope == lifecycle.NoWorkload || o.node == nil || scope == lifecycle.StorageScope && o.Plan == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	found, all, err := &lifecycle.Workload{}, []corev1.Pod(nil), error(nil)
	if err = eachPage(ctx, o.nodes, func(page *corev1.PodList) { all = append(all, page.Items...) },
		client.MatchingFields{"spec.nodeName": o.node.Name}, client.Limit(podPage)); err != nil {
		o.Unreadable = "the Pods of Node " + o.node.Name + " cannot be listed: " + workload.CauseOf(err)
		return
	}
	o.pods = pods.Select(all, scope, fence.UID, func(claim types.NamespacedName) bool {
		object := &corev1.PersistentVolumeClaim{}
		if err == nil {
			err = o.nodes.Get(ctx, claim, object)
		}
		if apierrors.IsNotFound(err) {
			err = nil
			return false
		}
		class := object.Spec.StorageClassName
		return err == nil && class != nil && slices.Contains(storageClasses(o.Plan), *class)
	})
	if err != nil {
		o.Unreadable = "a PersistentVolumeClaim of the Pods of Node " + o.node.Name + " cannot be read: " + workload.CauseOf(err)
		return
	}
	for i := range o.pods {
		found.Names = append(found.Names, "Pod "+client.ObjectKeyFromObject(&o.pods[i]).String())
	}
	found.Pods, found.Staying = len(o.pods), len(pods.Staying(o.pods, 0))
	if scope == lifecycle.NodeScope {
		err = eachPage(ctx, o.nodes, func(page *storagev1.VolumeAttachmentList) {
			for i := range page.Items {
				if attachment := &page.Items[i]; attachment.Spec.NodeName == o.node.Name {
					found.Attachments++
					found.Names = append(found.Names, "VolumeAttachment "+attachment.Name)
				}
			}
		}, client.Limit(nodePage))
	}
	if err != nil {
		o.Unreadable = "the VolumeAttachments of Node " + o.node.Name + " cannot be listed: " + workload.CauseOf(err)
		return
	}
	slices.Sort(found.Names)
	found.Names = found.Names[:min(len(found.Names), maxNames)]
	o.Workload = found
}

// storageClasses are the classes of storage that the isolation cuts the Node off from.
func storageClasses(plan *profile.Plan) []string {
	var all []string
	for _, name := range plan.Isolation {
		for _, class := range plan.Methods[name].StorageClasses {
			all = append(all, string(class))
		}
	}
	return all
}

// eachPage lists objects and uses each page of them.
func eachPage[L any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, api client.Client, use func(page P), options ...client.ListOption) error {
	for token := ""; ; {
		// A decoder would write into the objects of the last page.
		page := P(new(L))
		if err := api.List(ctx, page, append(slices.Clip(options), client.Continue(token))...); err != nil {
			return err
		}
		use(page)
		if token = page.GetContinue(); token == "" {
			return nil
		}
	}
}

// evictPods evicts the Pods of a drain.
func evictPods(ctx context.Context, spec *fencingv1.NodeFenceSpec, o *observed) error {
	return eachPod(ctx, pods.ToEvict(o.pods, spec.Drain.WaitFor), "evict", func(ctx context.Context, pod *corev1.Pod) error {
		ctx, cancel := context.WithTimeout(ctx, evictionTimeout)
		defer cancel()
		err := o.nodes.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
		})
		if err != nil && !apierrors.IsTooManyRequests(err) && ctx.Err() == nil {
			return err
		}
		// A disruption budget does not allow it yet. The client waits if the API server asks for it, until the time is over.
		return nil
	})
}

// deletePods deletes Pods.
func deletePods(ctx context.Context, o *observed, some []corev1.Pod, options ...client.DeleteOption) error {
	return eachPod(ctx, some, "delete", func(ctx context.Context, pod *corev1.Pod) error {
		return o.nodes.Delete(ctx, pod, append(slices.Clip(options), client.Preconditions{UID: &pod.UID})...)
	})
}

// eachPod changes Pods, also after one of them was not changed, and returns the first error. A Pod that no longer exists, or that is
// another Pod of this name, is none.
func eachPod(ctx context.Context, some []corev1.Pod, verb string, change func(context.Context, *corev1.Pod) error) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	var first error
	for i := range some {
		err := change(ctx, &some[i])
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && first == nil {
			first = errors.Wrapf(nodeError{err}, "failed to %s Pod %s", verb, client.ObjectKeyFromObject(&some[i]))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}
