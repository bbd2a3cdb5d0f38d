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
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// Conditions returns all conditions of a check, Ready first. Package report sets their generation and time.
func Conditions(p *Evaluation) []metav1.Condition {
	return withReady(p, allowedCondition(p), pausedCondition(p), reachableCondition(p), templatesCondition(p), selectorsCondition(p))
}

// WhilePaused returns the conditions of a paused check, which report only the pause. The others stay as they are.
func WhilePaused(p *Evaluation) []metav1.Condition {
	allowed := condition(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, remedyv1.PausedReason, blockedPrefix+paused(p))
	return []metav1.Condition{allowed, pausedCondition(p)}
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func withReady(p *Evaluation, others ...metav1.Condition) []metav1.Condition {
	return append([]metav1.Condition{readyCondition(p, others)}, others...)
}

// readyCondition summarizes the others. It is False only if an administrator has to act, and has the reason of the first cause.
func readyCondition(p *Evaluation, others []metav1.Condition) metav1.Condition {
	if message := cleanup(p); message != "" {
		status := metav1.ConditionUnknown
		if p.Context.UnlistableRequests != "" || p.Context.UnreleasedLease != "" {
			status = metav1.ConditionFalse
		}
		return condition(remedyv1.ReadyCondition, status, remedyv1.CleaningUpReason, message)
	}
	var cause *metav1.Condition
	var notReady []string
	// What blocks all remediations is the result of another cause, if there is one.
	for _, other := range slices.Concat(others[1:], others[:1]) {
		onlyPaused := other.Reason == remedyv1.LimitIsZeroReason && p.Planned.LimitState.Allowed && limitWithoutPauses(p) > 0
		if needsNoAction(&other) || onlyPaused {
			continue
		}
		if cause == nil || cause.Status == metav1.ConditionUnknown && other.Status == metav1.ConditionFalse {
			cause = &other
		}
		notReady = append(notReady, fmt.Sprintf("%s is %s (%s)", other.Type, other.Status, other.Reason))
	}
	if cause != nil {
		return condition(remedyv1.ReadyCondition, cause.Status, cause.Reason, listed(notReady, ", ", MaxMessage))
	}
	if why := forbidden(p); why != "" {
		return condition(remedyv1.ReadyCondition, metav1.ConditionFalse, remedyv1.ForbiddenReason, capital(why))
	}
	for _, failure := range [...]struct {
		targets        []string
		reason, prefix string
	}{
		{requestsDeleted(p), remedyv1.RequestsDeletedReason, "Other clients delete the requests for these targets before they are healthy: "},
		{blockedBy(p, remediation.EscalationExhausted), remedyv1.EscalationExhaustedReason, "All steps failed for these targets: "},
		{blockedBy(p, remediation.InBackoff), remedyv1.RemediationFailedReason, "Remediation of these targets failed and is retried: "},
		{blockedBy(p, remediation.OwnerNotActing), remedyv1.OwnerNotActingReason, "Owners of these Machines did not act: "},
		{blockedBy(p, remediation.RequestFailed), remedyv1.RequestFailedReason, "Requests for these targets could not be created: "},
		{notActing(p), remedyv1.RemediatorNotActingReason, "Remediators have written nothing to the requests for these targets: "},
		{p.Planned.Kept, remedyv1.PreviousStepNotReleasedReason, ""},
		{
			blockedBy(p, remediation.RecoveryNotConfirmed), remedyv1.RecoveryNotConfirmedReason,
			"A person has to confirm that these targets are healthy again: ",
		},
	} {
		if len(failure.targets) > 0 {
			message := failure.prefix + names(failure.targets, MaxMessage-len(failure.prefix))
			if failure.reason == remedyv1.PreviousStepNotReleasedReason {
				message = keptMessage(p)
			}
			return condition(remedyv1.ReadyCondition, metav1.ConditionFalse, failure.reason, message)
		}
	}
	return condition(remedyv1.ReadyCondition, metav1.ConditionTrue, remedyv1.ReadyReason, "")
}

// forbidden is what a permission is missing for, of a remediation that is blocked or of a write that has failed; empty if none is missing.
func forbidden(p *Evaluation) string {
	for i := range p.Planned.Decisions {
		if why := sanitized(p.Planned.Decisions[i].Block.Details.Cause); strings.Contains(why, lacksPermission) {
			return why
		}
	}
	return sanitized(p.Context.ForbiddenWrite)
}

// lacksPermission is in all causes of that kind.
const lacksPermission = "lacks a permission"

// needsNoAction reports whether a condition is as intended, or becomes so without an administrator.
func needsNoAction(c *metav1.Condition) bool {
	switch c.Reason {
	case remedyv1.PausedReason,
		remedyv1.PauseRequestedReason,
		remedyv1.StormReason,
		remedyv1.CheckDeletingReason,
		remedyv1.ClusterDeletingReason:
		return true
	}
	return asIntended(c)
}

// blockedBy are the targets that are blocked for a reason, with the time of the next try.
func blockedBy(p *Evaluation, reason remediation.Reason) []string {
	var blocked []string
	for i := range p.Planned.Decisions {
		if block := &p.Planned.Decisions[i].Block; block.Reason == reason {
			name := p.Snapshot.Targets[i].Name
			if !block.Until.IsZero() {
				name += " (next try" + when("at", block.Until) + ")"
			}
			blocked = append(blocked, name)
		}
	}
	return blocked
}

// deletedTimes is how often the request of a target has to be deleted by other clients until that is reported: a person may delete one.
const deletedTimes = 3

// requestsDeleted are the targets whose requests other clients delete, with the number of deletions.
func requestsDeleted(p *Evaluation) []string {
	var targets []string
	for i := range p.Situation.Targets {
		t := &p.Situation.Targets[i]
		if t.DeletedRequests.Times >= deletedTimes {
			targets = append(targets, fmt.Sprintf("%s (%s)", t.Name, counted(t.DeletedRequests.Times, "request", "requests")))
		}
	}
	return targets
}

// cleanup is what a check that is being deleted has to clean up first; empty if there is nothing, or if it is paused.
func cleanup(p *Evaluation) string {
	left := p.Planned.Finalizer || p.Context.UnlistableRequests != "" || p.Context.UnreleasedLease != ""
	if !p.Situation.Check.Deleting || p.Situation.Check.Paused || !left {
		return ""
	}
	var requests, marks []string
	blocked := false
	add := func(name string, r *remediation.Request, marked, paused bool) {
		name = sanitized(name)
		switch {
		case r != nil && !r.DeletingSince.IsZero():
			blocked = true
			name += " (deletion requested" + when("at", r.DeletingSince) + ")"
		case paused:
			name += " (paused)"
		}
		if r != nil {
			requests = append(requests, name)
		} else if marked {
			marks = append(marks, name)
		}
	}
	for i := range p.Situation.Targets {
		t := &p.Situation.Targets[i]
		add(t.Name, t.Request, t.OwnerRemediation.MarkedByThis, p.Assessment.Verdicts[i].Reason == health.Paused)
	}
	for i := range p.Situation.Orphans {
		s := &p.Situation.Orphans[i]
		add(s.Name, s.Request, s.Marked, s.Paused)
	}
	message := []string{"The check is being deleted; its finalizer stays until the cleanup is complete"}
	// What a person has to do comes first: the end of a long message is cut off.
	if why := sanitized(p.Context.UnlistableRequests); why != "" {
		message = append(message, "Requests may exist that cannot be listed: "+why,
			"Grant the permission or restore the API, or remove the finalizer "+remedyv1.CleanupFinalizer+" from the check if there are no requests")
	}
	if why := sanitized(p.Context.UnreleasedLease); why != "" {
		message = append(message, "A Lease could not be released and is left until it expires: "+why)
	}
	if len(requests) > 0 {
		slices.Sort(requests)
		message = append(message, "Requests exist for "+listed(requests, ", ", maxCauses))
	}
	if blocked {
		message = append(message, "Finalizers of the remediator block their deletion")
	}
	if len(marks) > 0 {
		slices.Sort(marks)
		message = append(message, "Conditions of the check remain on "+listed(marks, ", ", maxCauses))
	}
	return sentences(message...)
}

func pausedCondition(p *Evaluation) metav1.Condition {
	if p.Situation.Check.Paused {
		return condition(remedyv1.PausedCondition, metav1.ConditionTrue, remedyv1.PausedReason,
			paused(p)+". The targets and numbers in the status do not change during the pause")
	}
	return condition(remedyv1.PausedCondition, metav1.ConditionFalse, remedyv1.NotPausedReason, "")
}

func paused(p *Evaluation) string {
	const cluster = "The Cluster is paused by spec.paused or its annotation cluster.x-k8s.io/paused"
	const check = "the check has the annotation cluster.x-k8s.io/paused"
	switch {
	case p.Context.ClusterPaused && p.Context.CheckPaused:
		return cluster + ", and " + check
	case p.Context.ClusterPaused:
		return cluster
	case p.Context.CheckPaused:
		return capital(check)
	}
	return sentence(remediation.Paused, nil, Guard)
}

// reachableCondition reports whether the cluster of the Nodes can be read.
func reachableCondition(p *Evaluation) metav1.Condition {
	reachable := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(remedyv1.ClusterReachableCondition, status, reason, message)
	}
	cluster, r := &p.Snapshot.Cluster, &p.Context.Reading
	switch {
	case p.Situation.Check.Cluster == remediation.ClusterIsMissing:
		return reachable(metav1.ConditionFalse, remedyv1.ClusterNotFoundReason, clusterMissing(p))
	case p.Context.KubeconfigRejected != "":
		return reachable(metav1.ConditionFalse, remedyv1.KubeconfigRefusedReason,
			"The kubeconfig is rejected: "+sanitizedOr(p.Context.KubeconfigRejected, "it would run a program or read files"))
	case !cluster.ControlPlaneInitialized.Reached:
		return reachable(metav1.ConditionUnknown, remedyv1.ControlPlaneNotInitializedReason,
			sentence(health.ControlPlaneNotInitialized, nil, Gate))
	case p.Situation.Check.Unreachable && !r.NoneReadable():
		return reachable(metav1.ConditionFalse, remedyv1.ClusterUnreachableReason,
			withCause("Workload cluster is unreachable", r.ConnectionError))
	case p.Situation.Check.Reconnecting:
		return reachable(metav1.ConditionUnknown, remedyv1.ReconnectingReason, reconnecting(p))
	case r.WrongCluster:
		return reachable(metav1.ConditionFalse, remedyv1.WrongClusterReason,
			capital(sanitizedOr(r.Why, "none of the Nodes that Machines refer to exists"))+
				". No Machine is remediated for a missing Node until one of these Nodes exists")
	case r.none():
		return reachable(metav1.ConditionFalse, remedyv1.NodesUnreadableReason, sentences(unread(r), notOfMachine(r)))
	}
	return reachable(metav1.ConditionTrue, remedyv1.ClusterReachableReason, sentences(unread(r), notOfMachine(r), insecure(p)))
}

// unread reports Nodes that cannot be read; empty if there are none.
func unread(r *NodeReads) string {
	switch r.Failed {
	case 0:
		return ""
	case r.Nodes:
		return withCause("Nodes cannot be read", r.Why)
	}
	return withCause(fmt.Sprintf("%d of %d Nodes cannot be read", r.Failed, r.Nodes), r.Why)
}

// notOfMachine reports Nodes that are not evaluated because of their provider IDs; empty if there are none.
func notOfMachine(r *NodeReads) string {
	if len(r.NotOfMachine) == 0 {
		return ""
	}
	return "These Nodes have other provider IDs than their Machines, and are not evaluated; if they are other servers, delete the Machines: " +
		names(r.NotOfMachine, MaxMessage/2)
}

// insecure reports what is insecure in the kubeconfig of the cluster; empty if nothing is.
func insecure(p *Evaluation) string {
	if p.Context.Insecure == "" {
		return ""
	}
	return withCause("The kubeconfig is insecure", p.Context.Insecure)
}

// reconnecting is why no Node is evaluated yet after the connection was restored.
func reconnecting(p *Evaluation) string {
	return notEvaluated(&health.Verdict{Reason: health.ReconnectGracePeriod, Until: p.Snapshot.Cluster.ReconnectingUntil})
}

// withCause adds the cause to a message, if it is known.
func withCause(message, why string) string {
	if why = sanitized(why); why != "" {
		message += ": " + why
	}
	return message
}

// templatesCondition reports whether requests can be created from every template of the check.
func templatesCondition(p *Evaluation) metav1.Condition {
	troubles := slices.Clone(p.Context.Templates)
	if len(troubles) == 0 {
		reason := remedyv1.TemplatesResolvedReason
		if !p.Policy.CreatesRequests() {
			reason = remedyv1.NoTemplatesReason
		}
		return condition(remedyv1.TemplatesResolvedCondition, metav1.ConditionTrue, reason, "")
	}
	slices.SortFunc(troubles, func(a, b TemplateProblem) int {
		return slices.Compare([]string{a.Template, a.Reason, a.Detail, a.ClusterRole}, []string{b.Template, b.Reason, b.Detail, b.ClusterRole})
	})
	messages := make([]string, 0, len(troubles))
	for i := range troubles {
		t := &troubles[i]
		meaning := ""
		if w := find(t.Reason, Condition); w != nil {
			meaning = strings.TrimSuffix(strings.ReplaceAll(w.Means, "`", ""), ".")
		}
		message := withCause(sanitizedOr(t.Template, "A template"), sanitizedOr(t.Detail, meaning))
		if role := sanitized(t.ClusterRole); role != "" {
			message += fmt.Sprintf(". Apply the ClusterRole %s, with the label %s=true", role, remedyv1.AggregateToManagerLabel)
		}
		messages = append(messages, message)
	}
	return condition(remedyv1.TemplatesResolvedCondition, metav1.ConditionFalse, troubles[0].Reason, listed(messages, ". ", MaxMessage))
}

// MaxChecks is how many checks of one Cluster and kind are supported: each of them is compared with all others. Newer ones start no
// remediation.
const MaxChecks = 100

// selectorsCondition reports whether other checks are responsible for targets of the check.
func selectorsCondition(p *Evaluation) metav1.Condition {
	responsible := map[string][]string{}
	for i := range p.Situation.Targets {
		if t := &p.Situation.Targets[i]; t.CoveredBy != "" {
			check := sanitizedOr(t.CoveredBy, "Another check")
			responsible[check] = append(responsible[check], t.Name)
		}
	}
	if p.Context.OtherChecks >= MaxChecks {
		// Without their number: each new check would change the status of all others.
		return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionFalse, remedyv1.TooManyChecksReason,
			fmt.Sprintf("More than %[1]d checks are for this Cluster. A check that is newer than %[1]d others of its kind starts no remediation. "+
				"Delete those that are not needed", MaxChecks))
	}
	if why := sanitized(p.Context.ForbiddenChecks); why != "" {
		return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionUnknown, remedyv1.OtherChecksForbiddenReason,
			"Other checks may select the same targets, so no remediation starts: "+why)
	}
	if len(responsible)+len(p.Context.Overlaps) == 0 {
		return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionTrue, remedyv1.SelectorsDisjointReason, "")
	}
	const advice = ". Change the selectors so that no two checks select the same targets, or delete the checks that are not needed"
	messages := make([]string, 0, len(responsible))
	for _, check := range slices.Sorted(maps.Keys(responsible)) {
		targets := responsible[check]
		messages = append(messages,
			fmt.Sprintf("%s is responsible for %s: %s", check, counted(len(targets), "target", "targets"), names(targets, maxQuoted)))
	}
	for _, check := range slices.Sorted(maps.Keys(p.Context.Overlaps)) {
		targets := p.Context.Overlaps[check]
		messages = append(messages, fmt.Sprintf("This check is responsible for %s that %s selects, too: %s",
			counted(len(targets), "target", "targets"), check, names(targets, maxQuoted)))
	}
	return condition(remedyv1.SelectorsDisjointCondition, metav1.ConditionFalse, remedyv1.SelectorsOverlapReason,
		listed(messages, "; ", MaxMessage-len(advice))+advice)
}
