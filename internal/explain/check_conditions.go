// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Conditions are all that a check has, the summary first. They have neither generation nor time: those are for whoever compares them with
// what is there.
func Conditions(p *Pass) []metav1.Condition {
	all := []metav1.Condition{{}, allowedCondition(p), pausedCondition(p), reachableCondition(p), templatesCondition(p), selectorsCondition(p)}
	all[0] = readyCondition(p, all[1:])
	return all
}

// WhilePaused are those of a check that is paused. They rest on the pause only: whatever else happens meanwhile is not told.
func WhilePaused(p *Pass) []metav1.Condition {
	allowed := condition(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, remedyv1.PausedReason, notAllowed(paused(p)))
	all := []metav1.Condition{{}, allowed, pausedCondition(p)}
	all[0] = readyCondition(p, all[1:])
	return all
}

// pausedCondition says whether nothing at all is done, and which pause it is.
func pausedCondition(p *Pass) metav1.Condition {
	if p.Situation.Check.Frozen {
		return condition(remedyv1.PausedCondition, metav1.ConditionTrue, remedyv1.PausedReason, capital(paused(p)))
	}
	return condition(remedyv1.PausedCondition, metav1.ConditionFalse, remedyv1.NotPausedReason, "")
}

// readyCondition sums up the others. A check that was told to observe, or to act only on many, does its work.
func readyCondition(p *Pass, others []metav1.Condition) metav1.Condition {
	if left := leftBehind(p); left != "" {
		return condition(remedyv1.ReadyCondition, metav1.ConditionFalse, remedyv1.CleaningUpReason, left)
	}
	status, said := metav1.ConditionUnknown, []string(nil)
	for i := range others {
		other := &others[i]
		if untroubled(other) {
			continue
		}
		if other.Status != metav1.ConditionUnknown {
			status = metav1.ConditionFalse
		}
		said = append(said, fmt.Sprintf("%s is %s (%s)", other.Type, other.Status, other.Reason))
	}
	if len(said) > 0 {
		return condition(remedyv1.ReadyCondition, status, remedyv1.NotReadyReason, listed(said, ", ", MaxMessage))
	}
	for _, trouble := range [...]struct {
		hold           remediation.Reason
		reason, prefix string
	}{
		{remediation.EscalationExhausted, remedyv1.EscalationExhaustedReason, "Every step has been tried, and these are still not healthy: "},
		{remediation.InBackoff, remedyv1.EscalationExhaustedReason, "The remediation of these has failed, and is tried again after a wait: "},
		{remediation.OwnerNotActing, remedyv1.OwnerNotActingReason, "The owners of these were asked to remediate them, and have not acted: "},
	} {
		if held := heldBy(p, trouble.hold); len(held) > 0 {
			return condition(remedyv1.ReadyCondition, metav1.ConditionFalse, trouble.reason, trouble.prefix+names(held, MaxMessage-len(trouble.prefix)))
		}
	}
	return condition(remedyv1.ReadyCondition, metav1.ConditionTrue, remedyv1.ReadyReason, "")
}

func heldBy(p *Pass, hold remediation.Reason) []string {
	var held []string
	for i := range p.Planned.Decisions {
		if p.Planned.Decisions[i].Hold.Reason == hold {
			held = append(held, p.Snapshot.Targets[i].Name)
		}
	}
	return held
}

// selectorsCondition says whether another check looks after some of the same targets, and which one takes care of them.
func selectorsCondition(p *Pass) metav1.Condition {
	carers := map[string][]string{}
	for i := range p.Situation.Targets {
		if t := &p.Situation.Targets[i]; t.CoveredBy != "" {
			carer := or(t.CoveredBy, "Another check")
			carers[carer] = append(carers[carer], t.Name)
		}
	}
	if len(carers) == 0 {
		return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionTrue, remedyv1.SelectorsDisjointReason, "")
	}
	said := make([]string, 0, len(carers))
	for _, carer := range slices.Sorted(maps.Keys(carers)) {
		covered := carers[carer]
		said = append(said, fmt.Sprintf("%s takes care of %s: %s", carer, counted(len(covered), "target", "targets"), names(covered, maxForeign)))
	}
	return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionFalse, remedyv1.SelectorsOverlapReason, listed(said, "; ", MaxMessage-len(disjoin))+disjoin)
}

// disjoin says how each target comes into the care of one check.
const disjoin = ". Change the selectors, so that no two of them select the same targets, or delete the checks that are one too many"

// templatesCondition says whether requests can be made from every template that the check names, and what is in the way.
func templatesCondition(p *Pass) metav1.Condition {
	troubles := slices.Clone(p.Around.Templates)
	if len(troubles) == 0 {
		reason := remedyv1.TemplatesResolvedReason
		if !slices.ContainsFunc(p.Policy.Steps, func(s remediation.Step) bool { return !s.Owner }) {
			reason = remedyv1.NoTemplatesReason
		}
		return condition(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, reason, "")
	}
	slices.SortFunc(troubles, func(a, b TemplateTrouble) int {
		return slices.Compare([]string{a.Template, a.Reason, a.Detail, a.ClusterRole}, []string{b.Template, b.Reason, b.Detail, b.ClusterRole})
	})
	said := make([]string, 0, len(troubles))
	for i := range troubles {
		said = append(said, troubles[i].sentence())
	}
	return condition(remedyv1.TemplatesResolvedCondition, metav1.ConditionFalse, troubles[0].Reason, listed(said, ". ", MaxMessage))
}

func (t *TemplateTrouble) sentence() string {
	said := or(t.Template, "A template")
	switch detail := foreign(t.Detail); {
	case detail != "":
		said += ": " + detail
	default:
		for i := range conditionWords {
			if conditionWords[i].reason == t.Reason {
				said += ": " + strings.TrimSuffix(strings.ReplaceAll(conditionWords[i].means, "`", ""), ".")
			}
		}
	}
	if role := foreign(t.ClusterRole); role != "" {
		said += fmt.Sprintf(". Apply the ClusterRole %s, with the label %s=true", role, remedyv1.AggregateToManagerLabel)
	}
	return said
}
