// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// OnlyOurs are the conditions that only Remedy writes to an in-tree check that it has adopted or is about to adopt. Adopted is always set
// while one of the others is set, and is removed last, because it reports why the others are set.
var OnlyOurs = []string{
	remedyv1.AdoptedCondition,
	remedyv1.ReadyCondition,
	remedyv1.ClusterReachableCondition,
	remedyv1.TemplatesResolvedCondition,
	remedyv1.SelectorsDisjointCondition,
}

// RemoveConditions removes the conditions that only Remedy sets from the status of a MachineHealthCheck of Cluster API, except those of the
// types to keep.
func RemoveConditions(check *clusterv1.MachineHealthCheck, keep ...string) {
	for _, conditionType := range OnlyOurs {
		if !slices.Contains(keep, conditionType) {
			meta.RemoveStatusCondition(&check.Status.Conditions, conditionType)
		}
	}
}

// StatusPatch returns a patch of the status of an in-tree check that fails if the check has changed since before was read. The API server
// rejects an empty status, so the patch removes the whole field in that case.
func StatusPatch(before, after *clusterv1.MachineHealthCheck) client.Patch {
	if equality.Semantic.DeepEqual(after.Status, clusterv1.MachineHealthCheckStatus{}) {
		patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":null}`, before.ResourceVersion)
		return client.RawPatch(types.MergePatchType, patch)
	}
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// RemediatingOwner is the controller of a Machine, as kind/name. A MachinePool never replaces single Machines.
func RemediatingOwner(m *clusterv1.Machine) string {
	owner := metav1.GetControllerOfNoCopy(m)
	if owner == nil || owner.Kind == "MachinePool" {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

// Milestone is reached when its condition is True.
func Milestone(conditions []metav1.Condition, kind string) health.Milestone {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return health.Milestone{}
	}
	return health.Milestone{Reached: c.Status == metav1.ConditionTrue, Since: health.KnownTime(c.LastTransitionTime.Time, time.Time{})}
}
