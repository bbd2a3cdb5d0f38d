// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// container is the first container of a Pod that belongs to no Job. Once it has started, it writes until it is stopped, or until the boot
// has ended.
type container struct {
	node *Node
	boot int
	run  *Run
	// volumes are in use from before it starts.
	volumes []claimedVolume
	started bool
	// stopAt is when it is stopped; zero until its Pod is deleted.
	stopAt      time.Time
	stop, ended chan struct{}
}

// syncContainers does what is due for the Pods of a Node that belong to no Job. These are all that its kubelet has read in this boot.
func (n *Node) syncContainers(ctx context.Context, boot int, pods []*corev1.Pod) {
	read := map[types.UID]bool{}
	for _, pod := range pods {
		read[pod.UID] = true
		_ = n.syncContainer(ctx, boot, pod)
	}
	for uid, c := range n.containers {
		switch {
		case c.boot != boot:
			delete(n.containers, uid)
		case !read[uid]:
			// Its Pod does not exist any more.
			_ = n.removeContainer(ctx, uid)
		}
	}
}

// syncContainer does what is due for a Pod.
func (n *Node) syncContainer(ctx context.Context, boot int, pod *corev1.Pod) error {
	c := n.containers[pod.UID]
	if c != nil && c.boot != boot {
		c = nil
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return n.stopContainer(ctx, c, pod)
	case c == nil || !c.started:
		return n.startContainer(ctx, boot, pod)
	case !isPodReady(pod):
		// The node-lifecycle controller sets Ready=False while the kubelet does not report.
		return n.reportPod(ctx, pod, corev1.PodRunning)
	}
	return nil
}

// startContainer starts the container of a Pod with its volumes. Where that is not possible, it is tried again.
func (n *Node) startContainer(ctx context.Context, boot int, pod *corev1.Pod) error {
	if pod.Status.StartTime == nil {
		if err := n.reportPod(ctx, pod, corev1.PodPending); err != nil {
			return err
		}
	}
	c := n.containers[pod.UID]
	if c == nil || c.boot != boot {
		volumes, err := n.cluster.claimedVolumes(ctx, pod)
		if err != nil {
			return err
		}
		c = &container{
			node: n, boot: boot, volumes: volumes, stop: make(chan struct{}), ended: make(chan struct{}),
			run: &Run{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: n.Name},
		}
		n.containers[pod.UID] = c
		if err := n.setInUse(ctx, volumes, true); err != nil {
			return err
		}
	}
	if err := n.attached(ctx, c.volumes); err != nil {
		return err
	}
	// A Pod that is deleted is not started, so what was read some time ago does not count.
	fresh := &corev1.Pod{}
	if err := n.cluster.api.Get(ctx, client.ObjectKeyFromObject(pod), fresh); err != nil {
		return errors.WithStack(err)
	}
	if fresh.UID != pod.UID || fresh.DeletionTimestamp != nil {
		return nil
	}
	c.started = true
	n.cluster.wait.Go(func() { c.write(n.cluster.life) })
	return n.reportPod(ctx, fresh, corev1.PodRunning)
}

// write writes for as long as the machine has the power of this boot. Nothing that happens in the API ends it: only its kubelet does.
func (c *container) write(ctx context.Context) {
	defer close(c.ended)
	defer c.node.cluster.Writes.end(c.run)
	ticker := time.NewTicker(writeInterval)
	defer ticker.Stop()
	for {
		at := time.Now()
		// After it is switched off and on, it has another boot.
		if !c.node.executes(c.boot) {
			return
		}
		if c.node.connected(classes(c.volumes)) {
			c.node.cluster.Writes.add(c.run, at)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.stop:
			return
		case <-ticker.C:
		}
	}
}

// executes reports whether containers of a boot still run.
func (n *Node) executes(boot int) bool {
	return n.machine.Power() && n.machine.Boots() == boot && !n.crashed.Load() && !n.left.Load()
}

// removeContainer ends a container, and unmounts its volumes.
func (n *Node) removeContainer(ctx context.Context, uid types.UID) error {
	c := n.containers[uid]
	if c.started {
		close(c.stop)
		<-c.ended
	}
	delete(n.containers, uid)
	return n.setInUse(ctx, c.volumes, false)
}

// stopContainer stops the container of a Pod that is deleted, and removes the Pod. A container that is nil does not exist in this boot.
func (n *Node) stopContainer(ctx context.Context, c *container, pod *corev1.Pod) error {
	if c != nil {
		if c.stopAt.IsZero() {
			c.stopAt = time.Now().Add(time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
		}
		if c.started && time.Now().Before(c.stopAt) {
			return nil
		}
		if err := n.removeContainer(ctx, pod.UID); err != nil {
			return err
		}
	}
	return client.IgnoreNotFound(n.cluster.api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
}

func isPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// reportPod writes the status of a Pod. A Pod that runs is Ready.
func (n *Node) reportPod(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) error {
	now, before := metav1.Now(), client.MergeFrom(pod.DeepCopy())
	status, reason := corev1.ConditionTrue, ""
	if phase == corev1.PodPending {
		status, reason = corev1.ConditionFalse, "ContainersNotReady"
	}
	pod.Status.Phase = phase
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &now
	}
	for _, name := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		setCondition(&pod.Status, corev1.PodCondition{Type: name, Status: status, Reason: reason, LastTransitionTime: now})
	}
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	if phase == corev1.PodRunning {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: phase == corev1.PodRunning, State: state,
	}}
	return errors.WithStack(n.cluster.api.Status().Patch(ctx, pod, before))
}

func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == condition.Type {
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
