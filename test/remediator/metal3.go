// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Metal3Finalizer is the finalizer of Metal3.
const Metal3Finalizer = "metal3remediation.infrastructure.cluster.x-k8s.io"

// These annotations on a request of Metal3 keep the metadata of the Node that it has deleted.
const (
	nodeLabelsAnnotation      = "remediation.metal3.io/node-labels"
	nodeAnnotationsAnnotation = "remediation.metal3.io/node-annotations"
)

// metal3 goes through the phases: Running, Waiting, and, if the Machine does not get better, Running again or Deleting machine. It reads
// neither the deletion timestamp nor the timed-out annotation.
func (r *Remediator) metal3(ctx context.Context, request *unstructured.Unstructured, outcome Outcome) (bool, error) {
	machine, err := r.machine(ctx, request)
	if err != nil {
		return false, err
	}
	if machine == nil {
		return false, stuck("unable to retrieve the owner Machine of Metal3Remediation %s", request.GetName())
	}
	host := r.memory().Host(client.ObjectKeyFromObject(machine))
	switch phase := Phase(request); {
	case phase == failedPhase, phase == deletingPhase:
		return false, nil
	case host.Offline:
		return true, r.say(ctx, request, failedPhase, "phase")
	case phase == "":
		return true, r.run(ctx, request, 0)
	case phase == runningPhase:
		return r.powerOff(ctx, request, machine, host, outcome)
	}
	return r.powerOn(ctx, request, machine, host, outcome)
}

// run begins the next reboot.
func (r *Remediator) run(ctx context.Context, request *unstructured.Unstructured, retries int64) error {
	for field, value := range map[string]any{"retryCount": retries, "lastRemediated": time.Now().UTC().Format(time.RFC3339)} {
		if err := unstructured.SetNestedField(request.Object, value, "status", field); err != nil {
			return errors.WithStack(err)
		}
	}
	return r.say(ctx, request, runningPhase, "phase")
}

// powerOff ends when the host is off, and when no Pod of the Node is terminating and no volume is attached, or the Node is deleted.
func (r *Remediator) powerOff(
	ctx context.Context, request *unstructured.Unstructured, machine *clusterv1.Machine, host *Host, outcome Outcome,
) (bool, error) {
	if controllerutil.AddFinalizer(request, Metal3Finalizer) {
		return true, r.update(ctx, request)
	}
	if !host.Reboots[request.GetUID()] {
		host.Reboots[request.GetUID()] = true
		return true, nil
	}
	if outcome == Hangs && !host.Off {
		return false, nil
	}
	host.Off = true
	node, err := r.node(ctx, machine.Status.NodeRef.Name)
	switch {
	case err != nil:
		return false, err
	case node == nil:
	case r.NodeDeletion:
		if keepsMetadata(request, node) {
			return true, r.update(ctx, request)
		}
		if err := r.nodes().Delete(ctx, node); client.IgnoreNotFound(err) != nil {
			return false, errors.WithStack(err)
		}
	default:
		if changed, err := r.setOutOfService(ctx, node, true); changed || err != nil {
			return true, err
		}
		if waits, err := r.inUse(ctx, node.Name); waits || err != nil {
			return false, err
		}
	}
	return true, r.say(ctx, request, waitingPhase, "phase")
}

// powerOn ends when the Node exists, and then waits until its timeout is over.
func (r *Remediator) powerOn(
	ctx context.Context, request *unstructured.Unstructured, machine *clusterv1.Machine, host *Host, outcome Outcome,
) (bool, error) {
	name := machine.Status.NodeRef.Name
	if host.Reboots[request.GetUID()] {
		if err := r.work(ctx, name); err != nil {
			return false, err
		}
		delete(host.Reboots, request.GetUID())
		host.Off = len(host.Reboots) > 0
		return true, nil
	}
	node, err := r.node(ctx, name)
	if err != nil {
		return false, err
	}
	if node != nil && controllerutil.ContainsFinalizer(request, Metal3Finalizer) {
		if _, err := r.setOutOfService(ctx, node, false); err != nil {
			return false, err
		}
		if err := r.restore(ctx, request, node); err != nil {
			return false, err
		}
		return r.release(ctx, request, Metal3Finalizer)
	}
	if outcome != Fails {
		return false, nil
	}
	retries, _, _ := unstructured.NestedInt64(request.Object, "status", "retryCount")
	limit, found, _ := unstructured.NestedInt64(request.Object, "spec", "strategy", "retryLimit")
	if !found {
		limit = 1
	}
	if retries < limit {
		return true, r.run(ctx, request, retries+1)
	}
	if err := r.handOver(ctx, machine, false); err != nil {
		return false, err
	}
	host.Unhealthy = true
	return true, r.say(ctx, request, deletingPhase, "phase")
}

// keepsMetadata writes labels and annotations of a Node to its request, and reports whether they were not there.
func keepsMetadata(request *unstructured.Unstructured, node *corev1.Node) bool {
	annotations := request.GetAnnotations()
	if _, kept := annotations[nodeLabelsAnnotation]; kept {
		return false
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, values := range map[string]map[string]string{nodeLabelsAnnotation: node.Labels, nodeAnnotationsAnnotation: node.Annotations} {
		// Strings can always be marshaled.
		text, _ := json.Marshal(values)
		annotations[key] = string(text)
	}
	request.SetAnnotations(annotations)
	return true
}

// restore sets the labels and annotations of the Node that was deleted.
func (r *Remediator) restore(ctx context.Context, request *unstructured.Unstructured, node *corev1.Node) error {
	if request.GetAnnotations()[nodeLabelsAnnotation] == "" {
		return nil
	}
	before := node.DeepCopy()
	for key, values := range map[string]*map[string]string{
		nodeLabelsAnnotation: &node.Labels, nodeAnnotationsAnnotation: &node.Annotations,
	} {
		if text := request.GetAnnotations()[key]; text != "" {
			if err := json.Unmarshal([]byte(text), values); err != nil {
				return errors.WithStack(err)
			}
		}
	}
	return errors.WithStack(client.IgnoreNotFound(r.nodes().Patch(ctx, node, client.MergeFrom(before))))
}

// inUse reports whether a Pod of the Node is terminating, or a volume is attached to it.
func (r *Remediator) inUse(ctx context.Context, node string) (bool, error) {
	pods, volumes := &corev1.PodList{}, &storagev1.VolumeAttachmentList{}
	if err := r.nodes().List(ctx, pods); err != nil {
		return false, errors.WithStack(err)
	}
	// A simulated cluster may not serve them.
	if err := r.nodes().List(ctx, volumes); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return false, errors.WithStack(err)
	}
	used := false
	for i := range pods.Items {
		used = used || pods.Items[i].Spec.NodeName == node && pods.Items[i].DeletionTimestamp != nil
	}
	for i := range volumes.Items {
		used = used || volumes.Items[i].Spec.NodeName == node
	}
	return used, nil
}
