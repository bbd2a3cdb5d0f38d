// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
)

// OnlyOurs are the conditions that nobody but us writes to a check of Cluster API that we take care of, or are about to. TakenOver is always among them,
// and stays the longest: it says why anything else of ours is still there.
var OnlyOurs = []string{
	remedyv1.TakenOverCondition, remedyv1.ReadyCondition, remedyv1.ClusterReachableCondition, remedyv1.TemplatesResolvedCondition, remedyv1.SelectorsDisjointCondition,
}

// StatusPatch changes the status of a check of Cluster API as it was seen, or not at all. A status must not be empty: where nothing is left in it, it
// goes as a whole.
func StatusPatch(before, after *clusterv1.MachineHealthCheck) client.Patch {
	if equality.Semantic.DeepEqual(after.Status, clusterv1.MachineHealthCheckStatus{}) {
		return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":null}`, before.ResourceVersion))
	}
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
