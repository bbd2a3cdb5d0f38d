// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods selects the Pods of a Node that a drain or a release changes. It does not decide when: exp/fencing/lifecycle does. It reads
// and changes nothing: exp/fencing/controller does. Start with Select.
package pods

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	fencingv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/exp/fencing/lifecycle"
)

// Select returns the Pods of a scope, sorted by namespace and name. isolated reports whether the Node is cut off from the storage of a
// PersistentVolumeClaim.
func Select(
	all []corev1.Pod, scope lifecycle.WorkloadScope, fence types.UID, isolated func(claim types.NamespacedName) bool,
) []corev1.Pod {
	selected := slices.DeleteFunc(slices.Clone(all), func(pod corev1.Pod) bool {
		return !isWorkload(&pod) || scope == lifecycle.NodeScope && toleratesFence(&pod, fence) ||
			scope == lifecycle.StorageScope && !usesOnly(&pod, isolated)
	})
	slices.SortFunc(selected, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return selected
}

// isWorkload reports whether a Pod can run elsewhere and has not ended.
func isWorkload(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(pod)
	daemon := owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == "apps/v1"
	return !mirror && !daemon && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// toleratesFence reports whether the taint of the fence does not evict a Pod. As in the taint-eviction controller, the first toleration
// that matches counts.
func toleratesFence(pod *corev1.Pod, fence types.UID) bool {
	taint := corev1.Taint{Key: fencingv1.FencingTaint, Value: string(fence), Effect: corev1.TaintEffectNoExecute}
	first := slices.IndexFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Background(), &taint, false)
	})
	return first >= 0 && pod.Spec.Tolerations[first].TolerationSeconds == nil
}

// usesOnly reports whether a Pod has claims, all of them isolated, and no other storage that it could write to after it was removed.
func usesOnly(pod *corev1.Pod, isolated func(claim types.NamespacedName) bool) bool {
	claims := false
	for i := range pod.Spec.Volumes {
		volume, name := &pod.Spec.Volumes[i], ""
		switch {
		case volume.PersistentVolumeClaim != nil:
			name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			name = pod.Name + "-" + volume.Name
		case volume.ConfigMap != nil, volume.Secret != nil, volume.DownwardAPI != nil, volume.Projected != nil, volume.EmptyDir != nil:
			continue
		}
		// Any other volume has no name, and is a disk or a folder that the isolation does not cover.
		if name == "" || !isolated(types.NamespacedName{Namespace: pod.Namespace, Name: name}) {
			return false
		}
		claims = true
	}
	return claims
}

// ToEvict returns the Pods that a drain evicts: not those that terminate, and not those that end by themselves.
func ToEvict(of []corev1.Pod, waitFor *remedyv1.Selector) []corev1.Pod {
	ending := labels.Nothing()
	if waitFor != nil {
		var err error
		if ending, err = waitFor.Labels(); err != nil {
			// Admission rejects such a selector.
			return nil
		}
	}
	return slices.DeleteFunc(Staying(of, 0), func(pod corev1.Pod) bool { return ending.Matches(labels.Set(pod.Labels)) })
}

// Staying returns the Pods that do not terminate: the first ones up to a maximum, if there is one.
func Staying(of []corev1.Pod, most int) []corev1.Pod {
	staying := slices.DeleteFunc(slices.Clone(of), func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if most > 0 {
		staying = staying[:min(len(staying), most)]
	}
	return staying
}

// Terminating returns the Pods that terminate.
func Terminating(of []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(of), func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}
