// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
)

// Instance is the manager that sets the condition Adopted on MachineHealthChecks of Cluster API.
type Instance struct {
	// Filter is the value of --watch-filter.
	Filter string
	// Observes: --mode=Observe is set.
	Observes bool
}

// Adopted returns the condition Adopted in a state of adoption; nil if the in-tree controller reconciles the check.
func (i Instance) Adopted(state adoption.State) *metav1.Condition {
	const release = "or run 'kubectl remedy release'"
	switch state {
	case adoption.Adopted:
		if i.Observes {
			return i.condition(metav1.ConditionFalse, remedyv1.OnlyObservedReason, "Remedy has adopted this check, and the manager only observes: "+
				"no controller remediates its Machines. Start the manager without --mode=Observe, "+release)
		}
		return i.condition(metav1.ConditionTrue, remedyv1.AdoptedReason, "Remedy has adopted this check and reconciles it. "+
			"To release it, remove the annotation "+remedyv1.AdoptAnnotation+", "+release)
	case adoption.Waiting:
		return i.condition(metav1.ConditionFalse, remedyv1.WaitingForHandoverReason, "The in-tree controller has not acknowledged yet, "+
			"in the condition Paused, that this check is paused for it. Remedy does nothing before. Check that the in-tree controller runs, "+
			"and that its --watch-filter selects this check. If it is not meant to run, set --in-tree-machinehealthchecks=Replace")
	case adoption.PauseConflict:
		return i.condition(
			metav1.ConditionFalse,
			remedyv1.PauseConflictReason,
			"The annotation cluster.x-k8s.io/paused that Remedy set was removed "+
				"three times within ten minutes, so Remedy has released this check for an hour. The in-tree controller reconciles it. Let the tool "+
				"that writes the annotations of this check, usually a GitOps tool, ignore cluster.x-k8s.io/paused",
		)
	case adoption.Paused:
		return i.condition(metav1.ConditionFalse, remedyv1.PausedByOthersReason,
			"A user or another tool has paused this check or its Cluster. No controller reconciles it until it is unpaused")
	case adoption.InTree:
	}
	return nil
}

// NotCleanedUp returns the condition of a released check, if some annotations could not be removed. The cause is cut: it may name thousands
// of Machines.
func (i Instance) NotCleanedUp(why error) *metav1.Condition {
	return i.condition(metav1.ConditionFalse, remedyv1.NotCleanedUpReason, "This check was released to the in-tree controller, which "+
		"reconciles it. Some annotations of Remedy could not be removed, and the removal is retried: "+cut(why.Error(), MaxMessage))
}

func (i Instance) condition(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	if i.Filter != "" {
		message += " (by the manager with --watch-filter=" + i.Filter + ")"
	}
	c := condition(remedyv1.AdoptedCondition, status, reason, message)
	return &c
}
