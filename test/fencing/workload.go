// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// StorageClass is the StorageClass of the volumes of NewStatefulSet. No object has its name: the provisioner of the world needs none.
const StorageClass = "block"

// SiteLabel is on Nodes that run the same workload.
const SiteLabel = "test/site"

// NewStatefulSet returns a StatefulSet of one Pod with one volume, which runs on the Nodes of a site.
func NewStatefulSet(namespace, name, site string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.ServiceName = ptr.To[int32](1), &metav1.LabelSelector{MatchLabels: labels}, name
	set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: NewPodSpec(site)}
	set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.StorageClassName = ptr.To(StorageClass)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	return set
}

// NewPodSpec returns a Pod without a volume, which runs on the Nodes of a site.
func NewPodSpec(site string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector:                  map[string]string{SiteLabel: site},
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		Containers:                    []corev1.Container{{Name: "main", Image: "registry.example.com/database:1"}},
	}
}

// EvictAfter sets how long a Pod stays on a Node that is Unknown. The default of Kubernetes is 300 seconds.
func EvictAfter(spec *corev1.PodSpec, after time.Duration) {
	spec.Tolerations = nil
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To(int64(after / time.Second)),
		})
	}
}
