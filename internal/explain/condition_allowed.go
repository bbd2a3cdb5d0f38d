// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// allowedCondition reports whether a target that becomes unhealthy is remediated, and the numbers behind it.
func allowedCondition(p *Evaluation) metav1.Condition {
	reason, message := blocked(p)
	if reason == "" {
		return condition(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, remedyv1.RemediationAllowedReason,
			sentences("Remediation is allowed", numbers(p), advice(p, ""), unreadableOwners(p)))
	}
	status := metav1.ConditionFalse
	switch reason {
	case remedyv1.ReconnectingReason, remedyv1.ControlPlaneNotInitializedReason, remedyv1.HealthUnknownReason:
		status = metav1.ConditionUnknown
	}
	return condition(remedyv1.RemediationAllowedCondition, status, reason,
		sentences(blockedPrefix+message, numbers(p), advice(p, reason), unreadableOwners(p)))
}

// unreadableOwners is why Machines that no longer exist may count for maxInFlight.
func unreadableOwners(p *Evaluation) string {
	if len(p.Context.UnreadableOwners) == 0 {
		return ""
	}
	owners := make([]string, 0, len(p.Context.UnreadableOwners))
	for _, owner := range p.Context.UnreadableOwners {
		owners = append(owners, sanitizedOr(owner, "an owner"))
	}
	return "Deleted Machines count for maxInFlight until their owner can be read: " + listed(owners, ", ", maxQuoted)
}

// blocked is why no target is remediated, in the order of the guards; empty if targets can be remediated.
func blocked(p *Evaluation) (reason, message string) {
	check, gate := &p.Situation.Check, &p.Planned.LimitState
	byGuard := func(reason remediation.Reason) (string, string) {
		return string(reason), sentence(reason, &subject{}, Guard)
	}
	switch {
	case check.Paused:
		return remedyv1.PausedReason, paused(p)
	case check.Deleting:
		return byGuard(remediation.CheckDeleting)
	case p.Policy.Observe:
		return remedyv1.ObserveModeReason, "The check or the manager only observes"
	case check.Cluster == remediation.ClusterIsMissing:
		return remedyv1.ClusterNotFoundReason, clusterMissing(p)
	case check.Cluster == remediation.ClusterIsDeleting:
		return byGuard(remediation.ClusterDeleting)
	case len(check.PauseRequests) > 0:
		return remedyv1.PauseRequestedReason, "New remediations are paused by pauseRequests: " + quoted(check.PauseRequests)
	case check.Skewed():
		return remedyv1.ClockSkewReason, clockSkew(&subject{Answer: remediation.Answer{Details: remediation.Details{
			Cause: check.ClockOffset.Abs().Round(time.Second).String(),
		}}})
	case cutOff(p):
		return remedyv1.ClusterUnreachableReason, "Workload cluster is unreachable; only failures that can be verified without it are remediated"
	case p.Assessment.Counts.Expected > 0 && p.Policy.Limits.For(p.Assessment.Counts.Expected+p.Context.Missing).Max <= 0:
		if limitWithoutPauses(p) > 0 {
			return remedyv1.LimitIsZeroReason, "The limit is 0, so no target is remediated"
		}
		return remedyv1.LimitIsZeroReason, "The limit is 0, so no target is ever remediated"
	case check.Reconnecting && (!gate.Allowed || p.Planned.Storm.Since.IsZero()):
		return remedyv1.ReconnectingReason, reconnecting(p)
	case !gate.Allowed && gate.Unhealthy < gate.Limit.Min:
		return remedyv1.TooFewUnhealthyReason, "Too few targets are unhealthy"
	case !gate.Allowed && p.Assessment.Counts.Unhealthy == 0 && !p.Snapshot.Cluster.ControlPlaneInitialized.Reached:
		return remedyv1.ControlPlaneNotInitializedReason, sentence(health.ControlPlaneNotInitialized, nil, Gate)
	case !gate.Allowed && p.Assessment.Counts.Unhealthy == 0:
		return remedyv1.HealthUnknownReason, "No target is known to be unhealthy, but the health of too many is unknown"
	case !gate.Allowed:
		return remedyv1.TooManyUnhealthyReason, "Too many targets are unhealthy"
	case !p.Planned.Storm.Since.IsZero():
		s := &subject{Answer: remediation.Answer{Details: remediation.Details{Since: p.Planned.Storm.Since}}}
		if since := p.Planned.Storm.CooldownSince; !since.IsZero() {
			s.Until = since.Add(p.Policy.StormCooldown)
		}
		return remedyv1.StormReason, storm(s)
	}
	return "", ""
}

// cutOff reports whether the cluster is unreachable. In the grace period it can be reached again, also if its Nodes are not read yet.
func cutOff(p *Evaluation) bool {
	check := &p.Situation.Check
	return check.Unreachable && (!check.Reconnecting || !p.Context.Reading.NoneReadable())
}

// limitWithoutPauses is the limit that follows from all targets, also from those that annotations pause or skip. These do not count: with
// 40% of three Machines, one can be unhealthy, and none while another one is paused.
func limitWithoutPauses(p *Evaluation) int {
	counts := &p.Assessment.Counts
	return p.Policy.Limits.For(counts.Expected + counts.Skipped + p.Context.Missing).Max
}

// numbers are the number of unhealthy targets and the limit.
func numbers(p *Evaluation) string {
	limits, l := &p.Policy.Limits, &p.Planned.LimitState.Limit
	verb, from := "are", source(l)
	if p.Planned.LimitState.Unhealthy == 1 {
		verb = "is"
	}
	if limits.MaxUnhealthy == nil && limits.MinHealthy == nil && limits.Range == nil {
		from += " (default)"
	}
	return fmt.Sprintf("%d of %d targets %s %s, and %s", p.Planned.LimitState.Unhealthy, p.Assessment.Counts.Expected,
		verb, countedAs(p.Policy), allows(from, l.Min, l.Max))
}

// countedAs is what the limit counts.
func countedAs(p *remediation.Policy) string {
	if p.Counting == remediation.CountNotHealthy || p.Limits.MinHealthy != nil && p.Limits.Range == nil {
		return "not known to be healthy"
	}
	return "unhealthy"
}

// advice is what a person can do about a common cause or a configuration that never remediates.
func advice(p *Evaluation, reason string) string {
	n := p.Assessment.Counts.Expected
	switch {
	case reason == remedyv1.ClusterNotFoundReason:
		return "Create the Cluster, or replace the check by one that names another Cluster"
	case len(p.Snapshot.Targets) == 0 && !p.Policy.ReportsHealth:
		return "The check selects no Node: compare its selector with the labels of the Nodes"
	case len(p.Snapshot.Targets) == 0:
		return "The check selects no Machine of the Cluster: compare its selector with the labels of the Machines"
	case reason == remedyv1.TooManyUnhealthyReason:
		return commonCause
	case reason != remedyv1.LimitIsZeroReason:
		return ""
	case limitWithoutPauses(p) > 0:
		return fmt.Sprintf("%s paused or skipped by an annotation, and not counted: with all targets, the limit is %d",
			counted(p.Assessment.Counts.Skipped, "target is", "targets are"), limitWithoutPauses(p))
	case p.Planned.LimitState.Limit.Field == "unhealthyRange":
		return "Raise the upper end of unhealthyRange to 1 or more, or set mode: Observe if no remediation is intended"
	case p.Planned.LimitState.Limit.Field == "minHealthy":
		return fmt.Sprintf("Set minHealthy to at most %d or %d%%, or set mode: Observe if no remediation is intended", n-1, 100*(n-1)/n)
	}
	return fmt.Sprintf("Set maxUnhealthy to at least 1 or %d%%, or set mode: Observe if no remediation is intended", (100+n-1)/n)
}

func clusterMissing(p *Evaluation) string {
	if p.Context.Cluster == "" {
		return sentence(remediation.ClusterNotFound, nil, Guard)
	}
	return "The Cluster " + sanitized(p.Context.Cluster) + " does not exist"
}

func quoted(all []string) string {
	quotes := make([]string, 0, len(all))
	for _, text := range all {
		quotes = append(quotes, fmt.Sprintf("%q", sanitized(text)))
	}
	return names(quotes, maxCauses)
}
