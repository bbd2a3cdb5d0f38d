// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// remediatorStatus is what a remediator reports in the status of a request.
type remediatorStatus struct {
	succeeded, failed, nodeDeletion bool
}

// The conditions of the contract with remediators.
const (
	succeededCondition    = "Succeeded"
	nodeDeletionCondition = "PermanentNodeDeletionExpected"
)

// failures are how some remediators report a failure without the condition of the contract.
var failures = map[schema.GroupKind]func(status map[string]any, conditions map[string]string) bool{
	{Group: "infrastructure.cluster.x-k8s.io", Kind: "Metal3Remediation"}: func(status map[string]any, _ map[string]string) bool {
		phase, _ := status["phase"].(string)
		return phase == "Failed" || phase == "Deleting machine"
	},
	{Group: "storage-based-remediation.medik8s.io", Kind: "StorageBasedRemediation"}: func(
		_ map[string]any, conditions map[string]string,
	) bool {
		return conditions["Ready"] == "False" && conditions["FencingInProgress"] == "False"
	},
}

// readStatus reads the status of a request. Invalid parts are ignored.
func readStatus(request *unstructured.Unstructured) remediatorStatus {
	status, _ := request.Object["status"].(map[string]any)
	conditions := conditionsOf(status)
	s := remediatorStatus{
		succeeded:    conditions[succeededCondition] == "True",
		failed:       conditions[succeededCondition] == "False",
		nodeDeletion: conditions[nodeDeletionCondition] == "True",
	}
	if failed := failures[request.GroupVersionKind().GroupKind()]; failed != nil && !s.succeeded {
		s.failed = s.failed || failed(status, conditions)
	}
	return s
}

// conditionsOf are the statuses of conditions by type. A type that is there twice with different statuses is ignored.
func conditionsOf(status map[string]any) map[string]string {
	list, _ := status["conditions"].([]any)
	conditions := make(map[string]string, len(list))
	for _, item := range list {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		value, _ := condition["status"].(string)
		if before, found := conditions[kind]; found && before != value {
			value = ""
		}
		conditions[kind] = value
	}
	return conditions
}
