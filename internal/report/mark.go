// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/explain"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/notes"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// OwnerRemediation returns the owner remediation that the conditions of a Machine report. It belongs to the check that an annotation names.
func OwnerRemediation(m *clusterv1.Machine, check string) remediation.OwnerRemediation {
	healthy, owned := conditions.Get(m, explain.HealthCheckSucceeded), conditions.Get(m, explain.OwnerRemediated)
	mark := remediation.OwnerRemediation{
		Unhealthy:    healthy != nil && healthy.Status == metav1.ConditionFalse,
		MarkedByThis: notes.ResponsibleCheck(m.Annotations) == check,
	}
	if owned == nil || owned.Status != metav1.ConditionFalse {
		return mark
	}
	mark.Since = owned.LastTransitionTime.Time
	mark.RequestedByThis = mark.MarkedByThis && ownerRequested(m)
	if mark.Refused = owned.Reason == clusterv1.MachineSetMachineCannotBeRemediatedReason; mark.Refused {
		mark.OwnerMessage = owned.Message
	}
	// An owner that supports only v1beta1 sets only that condition.
	older := V1Beta1Reason(m, explain.OwnerRemediated)
	mark.Waiting = owned.Reason == explain.WaitingForRemediation && (older == "" || older == explain.WaitingForRemediation)
	if !mark.Waiting {
		mark.OwnerReason = owned.Reason
		if owned.Reason == explain.WaitingForRemediation {
			mark.OwnerReason = older
		}
	}
	// Without HealthCheckSucceeded=False, no owner acts.
	mark.Requested = mark.Unhealthy
	return mark
}
