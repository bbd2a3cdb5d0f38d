// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// NodeOf is the Node that a request is for, as most of medik8s find it: by an annotation, or else by the name of the request.
func NodeOf(request *unstructured.Unstructured) string {
	if node := request.GetAnnotations()[remedyv1.NodeNameAnnotation]; node != "" {
		return node
	}
	return request.GetName()
}

func byAnnotation(request *unstructured.Unstructured) (string, error) { return NodeOf(request), nil }

func byName(request *unstructured.Unstructured) (string, error) { return request.GetName(), nil }

// byOwner is as self-node-remediation finds the Node. The groups of the owners do not matter to it: a Machine is always OpenShift's.
func byOwner(request *unstructured.Unstructured) (string, error) {
	owners := request.GetOwnerReferences()
	owner := func(kind string) int {
		return slices.IndexFunc(owners, func(o metav1.OwnerReference) bool { return o.Kind == kind })
	}
	if machine := owner("Machine"); machine >= 0 && owner("NodeHealthCheck") < 0 {
		return "", stuck("failed to get Machine %s of machine.openshift.io: not found", owners[machine].Name)
	}
	return NodeOf(request), nil
}
