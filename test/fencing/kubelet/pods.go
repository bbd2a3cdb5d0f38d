// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/pkg/errors"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// killed is the exit code of a container that was killed, or whose end no kubelet has seen.
const killed = 137

// syncPods schedules Pods of Jobs, and lets the kubelets do what is due for them. Whatever fails is tried again.
func (c *Cluster) syncPods(ctx context.Context) {
	pods := &corev1.PodList{}
	if err := c.api.List(ctx, pods, client.HasLabels{batchv1.JobNameLabel}); err != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch node := c.running(pod.Spec.NodeName); {
		case pod.Spec.NodeName == "":
			_ = c.schedule(ctx, pod)
		case node != nil:
			_ = c.syncPod(ctx, pod)
		}
	}
}

// running returns a Node whose kubelet runs; nil if it does not.
func (c *Cluster) running(name string) *Node {
	c.lock.Lock()
	defer c.lock.Unlock()
	for _, n := range c.nodes {
		if n.Name == name && n.runs.Load() {
			return n
		}
	}
	return nil
}

// schedule binds a Pod to the first Node that runs and that it does not avoid.
func (c *Cluster) schedule(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	c.lock.Lock()
	nodes := slices.Clone(c.nodes)
	c.lock.Unlock()
	for _, n := range nodes {
		if !n.runs.Load() || avoids(pod, n.Name) {
			continue
		}
		binding := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: n.Name},
		}
		return errors.WithStack(c.api.SubResource("binding").Create(ctx, pod, binding))
	}
	return nil
}

// avoids reports whether each term of the required affinity of a Pod excludes a Node by its name.
func avoids(pod *corev1.Pod, node string) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if !slices.ContainsFunc(term.MatchFields, func(field corev1.NodeSelectorRequirement) bool {
			return field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpNotIn && slices.Contains(field.Values, node)
		}) {
			return false
		}
	}
	return true
}

// syncPod does what is due for a Pod.
func (c *Cluster) syncPod(ctx context.Context, pod *corev1.Pod) error {
	c.lock.Lock()
	r := c.runs[pod.UID]
	c.lock.Unlock()
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case ended && pod.DeletionTimestamp != nil:
		return client.IgnoreNotFound(c.api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
	case ended:
		return nil
	case pod.DeletionTimestamp != nil || r != nil && r.overdue():
		// The container ends before the Pod is reported as ended.
		if r != nil {
			r.kill()
		}
		return c.setEnded(ctx, pod, r, killed)
	case r == nil && pod.Status.Phase == corev1.PodRunning:
		// The machine has booted since then.
		return c.setEnded(ctx, pod, nil, killed)
	case r == nil:
		return c.startPod(ctx, pod)
	case r.ended():
		return c.setEnded(ctx, pod, r, r.exitCode())
	}
	return nil
}

// startPod starts the first container of a Pod. Where that is not possible, the Pod stays Pending, and it is tried again.
func (c *Cluster) startPod(ctx context.Context, pod *corev1.Pod) error {
	r, err := c.startContainer(ctx, pod)
	if err != nil {
		return err
	}
	c.lock.Lock()
	c.runs[pod.UID] = r
	c.lock.Unlock()
	now := metav1.Now()
	before := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	return errors.WithStack(c.api.Status().Patch(ctx, pod, before))
}

// setEnded reports how the first container has ended, as a kubelet does.
func (c *Cluster) setEnded(ctx context.Context, pod *corev1.Pod, r *run, exitCode int32) error {
	now := metav1.Now()
	before := client.MergeFrom(pod.DeepCopy())
	terminated := &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: "Completed", FinishedAt: now}
	pod.Status.Phase = corev1.PodSucceeded
	if exitCode != 0 {
		pod.Status.Phase, terminated.Reason = corev1.PodFailed, "Error"
	}
	if r != nil {
		terminated.Message, terminated.StartedAt = r.message(), metav1.NewTime(r.started)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: terminated},
	}}
	if err := c.api.Status().Patch(ctx, pod, before); err != nil || r == nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(os.RemoveAll(r.folder))
}

// loseProcesses ends all processes on a machine that has lost its power.
func (c *Cluster) loseProcesses(node string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for uid, r := range c.runs {
		if r.node == node {
			r.kill()
			delete(c.runs, uid)
		}
	}
}

// overdue reports whether the Pod has a deadline that is over.
func (r *run) overdue() bool { return r.deadline > 0 && time.Since(r.started) > r.deadline }
