// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// killed is the exit code of a container that was killed, or whose end no kubelet has seen.
const killed = 137

// unended selects Pods that have not ended. Those of Jobs are kept for their logs, and become many.
var unended = client.MatchingFieldsSelector{Selector: fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)}

// syncPods schedules Pods, and lets each kubelet do what is due for its Pods, unless it is still busy. Whatever fails is tried again.
func (c *Cluster) syncPods(ctx context.Context) {
	read, list := time.Now(), &corev1.PodList{}
	if err := c.api.List(ctx, list, unended); err != nil {
		return
	}
	var unscheduled []*corev1.Pod
	bound := map[string][]*corev1.Pod{}
	for i := range list.Items {
		switch pod := &list.Items[i]; {
		case pod.Spec.NodeName != "":
			bound[pod.Spec.NodeName] = append(bound[pod.Spec.NodeName], pod)
		case pod.DeletionTimestamp == nil:
			unscheduled = append(unscheduled, pod)
		}
	}
	c.lock.Lock()
	nodes := slices.Clone(c.nodes)
	c.lock.Unlock()
	for _, n := range nodes {
		if !n.busy.CompareAndSwap(false, true) {
			continue
		}
		since, boot, running := n.running()
		if !running || since.After(read) {
			n.busy.Store(false)
			continue
		}
		pods := bound[n.Name]
		c.wait.Go(func() {
			defer n.synced()
			n.syncPods(ctx, boot, pods)
		})
	}
	c.schedule(ctx, unscheduled)
}

// syncPods does what is due for the Pods of a Node. The devices of Jobs are slow, so no Job waits for another one.
func (n *Node) syncPods(ctx context.Context, boot int, pods []*corev1.Pod) {
	var ofJobs, others []*corev1.Pod
	for _, pod := range pods {
		if ofJob(pod) {
			ofJobs = append(ofJobs, pod)
		} else {
			others = append(others, pod)
		}
	}
	var done sync.WaitGroup
	for _, pod := range ofJobs {
		done.Go(func() { _ = n.cluster.syncPod(ctx, pod) })
	}
	n.syncContainers(ctx, boot, others)
	done.Wait()
}

// syncPod does what is due for a Pod of a Job.
func (c *Cluster) syncPod(ctx context.Context, pod *corev1.Pod) error {
	c.lock.Lock()
	r := c.runs[pod.UID]
	c.lock.Unlock()
	switch {
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
	if err := c.api.Status().Patch(ctx, pod, before); err != nil {
		return errors.WithStack(err)
	}
	if r != nil {
		_ = os.RemoveAll(r.folder)
	}
	if pod.DeletionTimestamp == nil {
		return nil
	}
	return client.IgnoreNotFound(c.api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
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
