// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/adoption"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// InTreeConditions returns the conditions of a check of Cluster API. Those that Cluster API defines are as its controller sets them. One
// that its controller would not set now is left out, and stays as it is. What else blocks remediation is in Remedy's condition Ready. The
// limits are those in the spec.
func InTreeConditions(own []metav1.Condition, p *Evaluation, maxUnhealthy, unhealthyRange string) []metav1.Condition {
	all := slices.Clone(own)
	allowed := meta.FindStatusCondition(all, remedyv1.RemediationAllowedCondition)
	ready := meta.FindStatusCondition(all, remedyv1.ReadyCondition)
	inTree := allowedInTree(p, maxUnhealthy, unhealthyRange)
	if allowed != nil && ready != nil && ready.Status != metav1.ConditionTrue && ready.Reason == allowed.Reason &&
		(inTree == nil || inTree.Reason != allowed.Reason) {
		ready.Message = allowed.Message
	}
	if paused := meta.FindStatusCondition(all, remedyv1.PausedCondition); paused != nil && paused.Status == metav1.ConditionTrue {
		paused.Message = pausedInTree(p)
	}
	if allowed == nil {
		return all
	} else if inTree == nil {
		meta.RemoveStatusCondition(&all, allowed.Type)
		return all
	}
	// The time of the last transition is that of Remedy's own condition, which may have had another status.
	inTree.ObservedGeneration = allowed.ObservedGeneration
	*allowed = *inTree
	return all
}

// allowedInTree returns the condition RemediationAllowed of Cluster API, which depends only on the limit; nil if its controller would not
// set it, because the check is paused, its Cluster cannot be read, or its range is invalid.
func allowedInTree(p *Evaluation, maxUnhealthy, unhealthyRange string) *metav1.Condition {
	check, gate := &p.Situation.Check, &p.Planned.LimitState
	if check.Paused || check.Unreachable || check.Reconnecting || check.Cluster == remediation.ClusterIsMissing ||
		gate.Limit.Field == "unhealthyRange" && gate.Limit.Max < gate.Limit.Min {
		return nil
	}
	if gate.Allowed {
		allowed := condition(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, remedyv1.RemediationAllowedReason, "")
		return &allowed
	}
	const blocked = "Remediation is not allowed, the number of not started or unhealthy machines "
	limit := "exceeds maxUnhealthy (total: %d, unhealthy: %d, maxUnhealthy: %s)"
	value := maxUnhealthy
	if unhealthyRange != "" {
		limit, value = "does not fall within the range (total: %d, unhealthy: %d, unhealthyRange: %s)", unhealthyRange
	}
	return &metav1.Condition{
		Type: remedyv1.RemediationAllowedCondition, Status: metav1.ConditionFalse, Reason: remedyv1.TooManyUnhealthyReason,
		Message: fmt.Sprintf(blocked+limit, p.Assessment.Counts.Expected, p.Assessment.Counts.Unhealthy, value),
	}
}

// pausedInTree returns the message of the condition Paused of Cluster API.
func pausedInTree(p *Evaluation) string {
	var causes []string
	if p.Context.ClusterPaused {
		causes = append(causes, "Cluster spec.paused is set to true")
	}
	if p.Context.CheckPaused {
		causes = append(causes, "MachineHealthCheck has the cluster.x-k8s.io/paused annotation")
	}
	return strings.Join(causes, ", ")
}

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
			"in the condition Paused, that this check is paused for it. Remedy reconciles after the acknowledgment. Check that the in-tree "+
			"controller runs, and that its --watch-filter selects this check. If it is not meant to run, set --in-tree-machinehealthchecks=Replace")
	case adoption.PauseConflict:
		return i.condition(
			metav1.ConditionFalse,
			remedyv1.PauseConflictReason,
			"The annotation cluster.x-k8s.io/paused that Remedy set was removed "+
				"three times within ten minutes, so Remedy has released this check for an hour. The in-tree controller reconciles it. Configure the "+
				"tool that writes the annotations of this check, usually a GitOps tool, to ignore cluster.x-k8s.io/paused",
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
