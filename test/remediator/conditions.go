// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediator

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is the status of a condition; empty if it is not there.
func Condition(request *unstructured.Unstructured, kind string) string {
	return field(request, kind, "status")
}

// Reason is the reason of a condition; empty if it is not there.
func Reason(request *unstructured.Unstructured, kind string) string {
	return field(request, kind, "reason")
}

func field(request *unstructured.Unstructured, kind, name string) string {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, is := condition.(map[string]any); is && c["type"] == kind {
			text, _ := c[name].(string)
			return text
		}
	}
	return ""
}

// report writes the conditions of a progress, and keeps the others.
func (r *Remediator) report(ctx context.Context, request *unstructured.Unstructured, made report) error {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	conditions = slices.DeleteFunc(conditions, func(condition any) bool {
		c, _ := condition.(map[string]any)
		kind, _ := c["type"].(string)
		return made.conditions[kind] != ""
	})
	for _, kind := range slices.Sorted(maps.Keys(made.conditions)) {
		conditions = append(conditions, map[string]any{
			"type": kind, "status": string(made.conditions[kind]), "reason": made.reason, "message": "",
		})
	}
	return r.say(ctx, request, conditions, "conditions")
}

// isIn reports whether a request has all conditions of a report.
func (made report) isIn(request *unstructured.Unstructured) bool {
	for kind, status := range made.conditions {
		if corev1.ConditionStatus(Condition(request, kind)) != status {
			return false
		}
	}
	return len(made.conditions) > 0
}
