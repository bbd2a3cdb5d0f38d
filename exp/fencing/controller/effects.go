// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/jobs"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/pods"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/workload"
)

// outOfService is the taint with which Kubernetes deletes the terminating Pods of a Node that is not Ready, and detaches their volumes.
var outOfService = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// keptJobs is how many Jobs of a fence are kept: their logs have the reason why a device failed.
const keptJobs = 10

// perform performs an effect. Each can be repeated.
func (r *Reconciler) perform(ctx context.Context, fence *fencingv1.NodeFence, o *observed, effect lifecycle.Effect) error {
	switch effect {
	case lifecycle.AddFinalizer:
		return r.patchFence(ctx, fence, func() {
			controllerutil.AddFinalizer(fence, fencingv1.FenceFinalizer)
			metav1.SetMetaDataAnnotation(&fence.ObjectMeta, fencingv1.BlockMoveAnnotation, "")
		})
	case lifecycle.AddTaint:
		return r.addTaint(ctx, o, corev1.Taint{Key: fencingv1.FencingTaint, Value: string(fence.UID), Effect: corev1.TaintEffectNoSchedule})
	case lifecycle.AddNoExecute:
		return r.addTaint(ctx, o, corev1.Taint{Key: fencingv1.FencingTaint, Value: string(fence.UID), Effect: corev1.TaintEffectNoExecute})
	case lifecycle.AddOutOfService:
		return r.addTaint(ctx, o, outOfService)
	case lifecycle.EvictPods:
		return evictPods(ctx, &fence.Spec, o)
	case lifecycle.TerminatePods:
		return deletePods(ctx, o, pods.Staying(o.pods, int(fence.Spec.Release.PodsPerSecond)))
	case lifecycle.RemovePods:
		return deletePods(ctx, o, pods.Terminating(o.pods), client.GracePeriodSeconds(0))
	case lifecycle.RemoveOutOfService:
		return r.patchNode(ctx, o, func(node *corev1.Node) {
			removeTaints(node, func(t *corev1.Taint) bool { return t.MatchTaint(&outOfService) && t.Value == outOfService.Value })
		})
	case lifecycle.RemoveTaint:
		return r.patchNode(ctx, o, func(node *corev1.Node) {
			removeTaints(node, func(t *corev1.Taint) bool { return t.Key == fencingv1.FencingTaint && t.Value == string(fence.UID) })
			if acted(&fence.Status) {
				stamp := r.Clock.Now().UTC().Format(time.RFC3339)
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, fencingv1.RemediationTimestampAnnotation, stamp)
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, fencingv1.RemediationPodNameAnnotation, client.ObjectKeyFromObject(fence).String())
			}
		})
	case lifecycle.RunJob:
		return r.runJob(ctx, fence, o)
	case lifecycle.DeleteJob:
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: fence.Namespace, Name: jobs.Name(fence.UID, fence.Status.Action.Sequence)}}
		err := r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &o.jobUID})
		return errors.Wrapf(client.IgnoreNotFound(err), "failed to delete Job %s", client.ObjectKeyFromObject(job))
	case lifecycle.Unblock:
		return r.patchFence(ctx, fence, func() {
			delete(fence.Annotations, fencingv1.BlockMoveAnnotation)
			controllerutil.RemoveFinalizer(fence, fencingv1.FenceFinalizer)
		})
	case lifecycle.Finish:
		return r.patchFence(ctx, fence, func() {
			metav1.SetMetaDataAnnotation(&fence.ObjectMeta, fencingv1.FinishedAnnotation, string(fence.Status.Result))
			delete(fence.Annotations, fencingv1.BlockMoveAnnotation)
			controllerutil.RemoveFinalizer(fence, fencingv1.FenceFinalizer)
		})
	case lifecycle.NoEffect:
	}
	return nil
}

// acted reports whether anything was done to the Node.
func acted(s *fencingv1.NodeFenceStatus) bool {
	return len(methodsOf(s, func(m *fencingv1.MethodRecord) bool { return m.OffRequested != nil || m.Ran != nil })) > 0
}

// patchFence changes the metadata of the NodeFence, unless it has changed since it was read.
func (r *Reconciler) patchFence(ctx context.Context, fence *fencingv1.NodeFence, change func()) error {
	base := fence.DeepCopy()
	change()
	err := r.Client.Patch(ctx, fence, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	return errors.Wrapf(err, "failed to patch NodeFence %s", client.ObjectKeyFromObject(base))
}

// patchNode changes the Node, unless it has changed since it was read.
func (*Reconciler) patchNode(ctx context.Context, o *observed, change func(*corev1.Node)) error {
	if o.node == nil {
		return errors.Errorf("Node %s was not read", o.Node.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	node := o.node.DeepCopy()
	change(node)
	err := o.nodes.Patch(ctx, node, client.MergeFromWithOptions(o.node, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		return nil
	}
	return errors.Wrapf(nodeError{err}, "failed to patch Node %s", o.node.Name)
}

// addTaint adds a taint to the Node.
func (r *Reconciler) addTaint(ctx context.Context, o *observed, taint corev1.Taint) error {
	return r.patchNode(ctx, o, func(node *corev1.Node) {
		now := metav1.NewTime(r.Clock.Now())
		taint.TimeAdded = &now
		node.Spec.Taints = append(node.Spec.Taints, taint)
	})
}

func removeTaints(node *corev1.Node, which func(*corev1.Taint) bool) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return which(&taint) })
}

// nodeError is an error of a cluster, whose own text can be anything.
type nodeError struct{ cause error }

func (e nodeError) Error() string { return workload.CauseOf(e.cause) }

func (e nodeError) Unwrap() error { return e.cause }

// runJob creates the Job of the action of the record, unless it exists, and deletes the oldest one that is no longer kept.
func (r *Reconciler) runJob(ctx context.Context, fence *fencingv1.NodeFence, o *observed) error {
	action, node := fence.Status.Action, *fence.Status.Node
	node.ProviderID = o.Plan.ProviderID
	job, err := jobs.Build(jobs.Request{
		Fence: client.ObjectKeyFromObject(fence), FenceUID: fence.UID, ProfileName: o.Plan.ProfileName, Node: node,
		Action: *action, Method: o.Plan.Methods[action.Method],
		// Also for a Node of another cluster: a management cluster can be its own workload cluster.
		AvoidNode: node.Name,
	})
	if err != nil {
		return errors.Wrapf(err, "failed to build the Job for method %s", action.Method)
	}
	if err := r.Client.Create(ctx, job); apierrors.IsAlreadyExists(err) {
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return errors.Wrapf(err, "failed to read Job %s", client.ObjectKeyFromObject(job))
		}
		if !ownedBy(job, fence) {
			return errors.Errorf("Job %s/%s belongs to another object: delete it", job.Namespace, job.Name)
		}
	} else if err != nil {
		return errors.Wrapf(err, "failed to create Job %s", client.ObjectKeyFromObject(job))
	}
	if action.Sequence <= keptJobs {
		return nil
	}
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: fence.Namespace, Name: jobs.Name(fence.UID, action.Sequence-keptJobs)}}
	err = client.IgnoreNotFound(r.Client.Delete(ctx, old, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	return errors.Wrapf(err, "failed to delete Job %s", client.ObjectKeyFromObject(old))
}
