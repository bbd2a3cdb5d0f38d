// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

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
