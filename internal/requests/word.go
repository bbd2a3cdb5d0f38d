// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// word is what a remediator says of its work.
type word struct {
	succeeded, failed, nodeDeletion bool
}

// The conditions of the contract with remediators.
const (
	succeededCondition    = "Succeeded"
	nodeDeletionCondition = "PermanentNodeDeletionExpected"
)

// dialects are how remediators say that they have failed that do not say it by the condition of the contract.
var dialects = map[schema.GroupKind]func(status map[string]any, conditions map[string]string) bool{
	{Group: "infrastructure.cluster.x-k8s.io", Kind: "Metal3Remediation"}: func(status map[string]any, _ map[string]string) bool {
		phase, _ := status["phase"].(string)
		return phase == "Failed" || phase == "Deleting machine"
	},
	{Group: "storage-based-remediation.medik8s.io", Kind: "StorageBasedRemediation"}: func(_ map[string]any, conditions map[string]string) bool {
		return conditions["Ready"] == "False" && conditions["FencingInProgress"] == "False"
	},
}

// heard is what the remediator of a request says. What it says in a way that nobody understands is not said.
func heard(request *unstructured.Unstructured) word {
	status, _ := request.Object["status"].(map[string]any)
	conditions := conditionsOf(status)
	w := word{
		succeeded:    conditions[succeededCondition] == "True",
		failed:       conditions[succeededCondition] == "False",
		nodeDeletion: conditions[nodeDeletionCondition] == "True",
	}
	if failed := dialects[request.GroupVersionKind().GroupKind()]; failed != nil && !w.succeeded {
		w.failed = w.failed || failed(status, conditions)
	}
	return w
}

// conditionsOf are the statuses of conditions by their type. A type that is there twice is as good as not there.
func conditionsOf(status map[string]any) map[string]string {
	list, _ := status["conditions"].([]any)
	conditions := make(map[string]string, len(list))
	for _, item := range list {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		said, _ := condition["status"].(string)
		if before, found := conditions[kind]; found && before != said {
			said = ""
		}
		conditions[kind] = said
	}
	return conditions
}
