// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NodeChange is a Node that was created, was deleted, or changed in a field that Strip keeps. The Nodes must not be changed.
type NodeChange struct {
	// Cluster is the cluster of the Node: Nodes of two clusters may have the same name. It is Home for the management cluster.
	Cluster client.ObjectKey
	Name    string
	// Before is nil if the Node was created, After is nil if it was deleted. Both are stripped.
	Before, After *corev1.Node
}

// changed reports whether a field differs that Strip keeps. A heartbeat changes none. The function does not allocate, because every
// kubelet sends heartbeats.
func changed(before, after *corev1.Node) bool {
	if before == after || (before.ResourceVersion == after.ResourceVersion && before.ResourceVersion != "" && before.UID == after.UID) {
		return false
	}
	return before.UID != after.UID ||
		!sameTime(before.DeletionTimestamp, after.DeletionTimestamp) ||
		before.Spec.ProviderID != after.Spec.ProviderID ||
		!slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, sameCondition) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!sameAnnotations(before.Annotations, after.Annotations) ||
		!sameTaints(before.Spec.Taints, after.Spec.Taints)
}

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Time.Equal(b.LastTransitionTime.Time)
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Time.Equal(b.Time)
}

// sameAnnotations compares the annotations that Strip keeps. It also works for Nodes that were not stripped.
func sameAnnotations(a, b map[string]string) bool {
	return hasAnnotations(a, b) && hasAnnotations(b, a)
}

func hasAnnotations(has, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, found := has[key]; (!found || got != value) && annotationIsRead(key) {
			return false
		}
	}
	return true
}

// sameTaints compares the taints that Strip keeps, in their order.
func sameTaints(a, b []corev1.Taint) bool {
	i, j := nextTaint(a, 0), nextTaint(b, 0)
	for i < len(a) && j < len(b) {
		if a[i].Key != b[j].Key || a[i].Value != b[j].Value || a[i].Effect != b[j].Effect || !sameTime(a[i].TimeAdded, b[j].TimeAdded) {
			return false
		}
		i, j = nextTaint(a, i+1), nextTaint(b, j+1)
	}
	return i == len(a) && j == len(b)
}

// nextTaint returns the index of the next taint that Strip keeps, beginning at from.
func nextTaint(taints []corev1.Taint, from int) int {
	for from < len(taints) && !taintIsRead(taints[from].Key) {
		from++
	}
	return from
}
