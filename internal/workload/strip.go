// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// LegacyControlPlaneLabel is what Nodes of a control plane were labelled with before Kubernetes v1.24.
const LegacyControlPlaneLabel = "node-role.kubernetes.io/master"

// ControlPlaneLabel is what Nodes of a control plane are labelled with.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// departureTaints announce that a Node is about to go. Their value or time tells since when.
var departureTaints = [...]string{
	"ToBeDeletedByClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption",
	"aws-node-termination-handler/spot-itn",
	"aws-node-termination-handler/asg-lifecycle-termination",
	"cloud.google.com/impending-node-termination",
}

// annotationDomains are whose annotations on Nodes mean something to a check. Others come and go by the minute.
var annotationDomains = [...]string{"cluster.x-k8s.io", "medik8s.io"}

// StrippedNodes is how every cache has to keep its Nodes. Who reads them gets what the cache holds, and must not change it.
func StrippedNodes() ctrlcache.ByObject {
	return ctrlcache.ByObject{Transform: stripObject}
}

// stripObject is Strip for whatever a cache is about to keep.
func stripObject(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		return Strip(node), nil
	}
	return object, nil
}

// Strip returns what is read of a Node: a tenth of it, and what a heartbeat changes is not in it.
func Strip(node *corev1.Node) *corev1.Node {
	slim := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID},
	}
	for key, value := range node.Annotations {
		if annotationIsRead(key) {
			if slim.Annotations == nil {
				slim.Annotations = map[string]string{}
			}
			slim.Annotations[key] = value
		}
	}
	for i := range node.Spec.Taints {
		if taintIsRead(node.Spec.Taints[i].Key) {
			slim.Spec.Taints = append(slim.Spec.Taints, node.Spec.Taints[i])
		}
	}
	if len(node.Status.Conditions) > 0 {
		slim.Status.Conditions = make([]corev1.NodeCondition, len(node.Status.Conditions))
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		slim.Status.Conditions[i] = corev1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}
	}
	return slim
}

// annotationIsRead says whether an annotation is of a domain, or a part of one, that means something to a check.
func annotationIsRead(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	for _, read := range annotationDomains {
		if front, is := strings.CutSuffix(domain, read); is && (front == "" || front[len(front)-1] == '.') {
			return true
		}
	}
	return false
}

func taintIsRead(key string) bool {
	for _, read := range departureTaints {
		if key == read {
			return true
		}
	}
	return false
}

// DepartureTaint is the taint that announces that the Node is about to go; nil if none does.
func DepartureTaint(node *corev1.Node) *corev1.Taint {
	for i := range node.Spec.Taints {
		if taintIsRead(node.Spec.Taints[i].Key) {
			return &node.Spec.Taints[i]
		}
	}
	return nil
}

// OfControlPlane says whether the Node is labelled as one of the control plane.
func OfControlPlane(node *corev1.Node) bool {
	_, now := node.Labels[ControlPlaneLabel]
	_, before := node.Labels[LegacyControlPlaneLabel]
	return now || before
}
