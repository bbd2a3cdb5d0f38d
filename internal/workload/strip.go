// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// LegacyControlPlaneLabel is the label of control-plane Nodes before Kubernetes v1.24.
const LegacyControlPlaneLabel = "node-role.kubernetes.io/master"

// ControlPlaneLabel is the label of control-plane Nodes.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// departureTaints announce that a Node will be deleted. Their value or time is when that began.
var departureTaints = [...]string{
	"ToBeDeletedByClusterAutoscaler",
	"karpenter.sh/disrupted",
	"karpenter.sh/disruption",
	"aws-node-termination-handler/spot-itn",
	"aws-node-termination-handler/asg-lifecycle-termination",
	"cloud.google.com/impending-node-termination",
}

// annotationDomains are the domains of annotations that checks read. Other annotations change often.
var annotationDomains = [...]string{"cluster.x-k8s.io", "medik8s.io"}

// StrippedNodes configures a cache to keep stripped Nodes. Every cache of Nodes needs it.
func StrippedNodes() ctrlcache.ByObject {
	return ctrlcache.ByObject{Transform: stripObject}
}

// stripObject strips Nodes, and returns other objects unchanged.
func stripObject(object any) (any, error) {
	if node, is := object.(*corev1.Node); is {
		return Strip(node), nil
	}
	return object, nil
}

// Strip returns a Node with only the fields that checks read. It is a tenth of the size, and a heartbeat changes none of it.
func Strip(node *corev1.Node) *corev1.Node {
	stripped := &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: node.Labels,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec: corev1.NodeSpec{ProviderID: node.Spec.ProviderID},
	}
	for key, value := range node.Annotations {
		if annotationIsRead(key) {
			if stripped.Annotations == nil {
				stripped.Annotations = map[string]string{}
			}
			stripped.Annotations[key] = value
		}
	}
	for i := range node.Spec.Taints {
		if taintIsRead(node.Spec.Taints[i].Key) {
			stripped.Spec.Taints = append(stripped.Spec.Taints, node.Spec.Taints[i])
		}
	}
	if len(node.Status.Conditions) > 0 {
		stripped.Status.Conditions = make([]corev1.NodeCondition, len(node.Status.Conditions))
	}
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		stripped.Status.Conditions[i] = corev1.NodeCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
		}
	}
	return stripped
}

// annotationIsRead reports whether checks read annotations of this domain, or of a domain above it.
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

func taintIsRead(key string) bool { return slices.Contains(departureTaints[:], key) }

// DepartureTaint returns the taint that announces that the Node will be deleted; nil if it has none.
func DepartureTaint(node *corev1.Node) *corev1.Taint {
	if i := nextTaint(node.Spec.Taints, 0); i < len(node.Spec.Taints) {
		return &node.Spec.Taints[i]
	}
	return nil
}

// IsControlPlaneNode reports whether the Node has a label of the control plane.
func IsControlPlaneNode(node *corev1.Node) bool {
	return hasLabel(node, ControlPlaneLabel) || hasLabel(node, LegacyControlPlaneLabel)
}
