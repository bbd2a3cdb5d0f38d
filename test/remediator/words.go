// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// NodeOf is the Node that a request is for, as those of medik8s find it: by an annotation, or else by the name of the request.
func NodeOf(request *unstructured.Unstructured) string {
	if node := request.GetAnnotations()[remedyv1.NodeNameAnnotation]; node != "" {
		return node
	}
	return request.GetName()
}

// Condition is the status of a condition; empty if it is not there.
func Condition(request *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, is := condition.(map[string]any); is && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

func ownedByMachine(owner metav1.OwnerReference) bool {
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return group == "cluster.x-k8s.io" && owner.Kind == "Machine"
}
