// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// allowedCondition says whether something new may be remediated, should it become unhealthy, and by which numbers.
// What stops everything comes first, in the order of the guards.
func allowedCondition(p *Pass) metav1.Condition {
	reason, said := stopped(p)
	if reason == "" {
		return condition(remedyv1.RemediationAllowedCondition, metav1.ConditionTrue, remedyv1.RemediationAllowedReason,
			sentences("Remediation is allowed", numbers(p), mend(p, "")))
	}
	return condition(remedyv1.RemediationAllowedCondition, metav1.ConditionFalse, reason, sentences(notAllowed(said), numbers(p), mend(p, reason)))
}

func notAllowed(why string) string { return "Remediation is not allowed: " + why }

// stopped is what stops something new; empty if nothing does.
func stopped(p *Pass) (reason, said string) {
	check := &p.Situation.Check
	switch {
	case check.Frozen:
		return remedyv1.PausedReason, paused(p)
	case check.Deleting:
		return remedyv1.CheckDeletingReason, "the check is being deleted"
	case p.Policy.Observe:
		return remedyv1.ObservingReason, "the check, or the manager, only observes"
	case check.Cluster == remediation.ClusterIsMissing:
		return remedyv1.ClusterNotFoundReason, missing(p)
	case check.Cluster == remediation.ClusterIsDeleting:
		return remedyv1.ClusterDeletingReason, "the Cluster is being deleted"
	case len(check.PauseRequests) > 0:
		return remedyv1.PauseRequestedReason, "somebody asked to start nothing new, for " + quoted(check.PauseRequests)
	case check.Unreachable:
		return remedyv1.ClusterUnreachableReason, "the cluster cannot be read, and only what needs no Node is remediated"
	}
	return stoppedByNumbers(p)
}

func stoppedByNumbers(p *Pass) (reason, said string) {
	plan := p.Planned
	switch {
	case plan.Gate.Limit.Most <= 0 && p.Assessment.Counts.Expected > 0:
		return remedyv1.LimitIsZeroReason, "the limit comes to no target at all, so that nothing will ever be remediated"
	case !plan.Gate.Open && plan.Gate.Sick < plan.Gate.Limit.Least:
		return remedyv1.TooFewUnhealthyReason, "fewer targets are sick than the range asks for"
	case !plan.Gate.Open:
		return remedyv1.TooManyUnhealthyReason, "too many targets are sick"
	case !plan.Storm.Since.IsZero():
		said = "too many targets have been sick at once" + when("since", plan.Storm.Since)
		if !plan.Storm.CooldownSince.IsZero() {
			said += ", and the limit has to be kept" + when("until", plan.Storm.CooldownSince.Add(p.Policy.StormCooldown))
		}
		return remedyv1.StormReason, said
	}
	return "", ""
}

// numbers are the limit, where it follows from, and what it is compared with.
func numbers(p *Pass) string {
	limits, l := &p.Policy.Limits, &p.Planned.Gate.Limit
	what := "unhealthy"
	if p.Policy.Counting == remediation.CountNotHealthy || limits.MinHealthy != nil && limits.Range == nil {
		what = "not known to be healthy"
	}
	said := fmt.Sprintf("%d of %s %s %s, and %s", p.Planned.Gate.Sick, counted(p.Assessment.Counts.Expected, "target", "targets"),
		areOrIs(p.Planned.Gate.Sick), what, source(l))
	if limits.MaxUnhealthy == nil && limits.MinHealthy == nil && limits.Range == nil {
		said += ", the default,"
	}
	switch {
	case l.Most < 0:
		return said + " wants more healthy ones than there are targets"
	case l.Field == "unhealthyRange":
		return fmt.Sprintf("%s allows from %d to %d", said, l.Least, l.Most)
	default:
		return fmt.Sprintf("%s allows %d at the most", said, l.Most)
	}
}

func areOrIs(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// mend says what somebody may have overlooked: a selector that selects nothing, a Cluster that does not exist, or a limit of nothing. The limit
// becomes one of at least one target, for as many targets as there are.
func mend(p *Pass, reason string) string {
	switch {
	case reason == remedyv1.ClusterNotFoundReason:
		return "Create the Cluster; or delete this check, and make one that names another Cluster, as that cannot be changed"
	case len(p.Snapshot.Targets) == 0 && strings.HasPrefix(p.Check, "NodeHealthCheck "):
		return "The check selects no Node: compare its selector with the labels of the Nodes"
	case len(p.Snapshot.Targets) == 0:
		return "The check selects no Machine of the Cluster: compare its selector with the labels of the Machines"
	case reason != remedyv1.LimitIsZeroReason:
		return ""
	}
	n := p.Assessment.Counts.Expected
	switch p.Planned.Gate.Limit.Field {
	case "unhealthyRange":
		return "Raise the upper end of unhealthyRange to 1 or more; to change nothing on purpose, set mode: Observe"
	case "minHealthy":
		return fmt.Sprintf("Set minHealthy to at most %d, or to at most %d%%; to change nothing on purpose, set mode: Observe", n-1, 100*(n-1)/n)
	default:
		return fmt.Sprintf("Set maxUnhealthy to at least 1, or to at least %d%%; to change nothing on purpose, set mode: Observe", (100+n-1)/n)
	}
}

func missing(p *Pass) string {
	if p.Around.Cluster == "" {
		return "the Cluster does not exist"
	}
	return "the Cluster " + foreign(p.Around.Cluster) + " does not exist"
}

func paused(p *Pass) string {
	var all []string
	if p.Around.ClusterPaused {
		all = append(all, "the Cluster is paused by spec.paused")
	}
	if p.Around.CheckPaused {
		all = append(all, "the check has the annotation cluster.x-k8s.io/paused")
	}
	if len(all) == 0 {
		return "the check or its Cluster is paused"
	}
	return strings.Join(all, ", and ")
}

func quoted(all []string) string {
	quotes := make([]string, 0, len(all))
	for _, words := range all {
		quotes = append(quotes, fmt.Sprintf("%q", foreign(words)))
	}
	return names(quotes, maxCauses)
}

// reachableCondition says whether the cluster of the Nodes can be read.
func reachableCondition(p *Pass) metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(remedyv1.ClusterReachableCondition, status, reason, message)
	}
	cluster := &p.Snapshot.Cluster
	switch {
	case p.Situation.Check.Cluster == remediation.ClusterIsMissing:
		return say(metav1.ConditionFalse, remedyv1.ClusterNotFoundReason, "The Cluster does not exist")
	case p.Around.KubeconfigRefused != "":
		return say(metav1.ConditionFalse, remedyv1.KubeconfigRefusedReason, "The kubeconfig is refused: "+or(p.Around.KubeconfigRefused, "it would run a program or read files"))
	case !cluster.ControlPlaneInitialized.Reached:
		return say(metav1.ConditionFalse, remedyv1.ControlPlaneNotInitializedReason, "The control plane of the cluster is not initialized")
	case p.Situation.Check.Unreachable && !p.Around.Reading.Blind():
		return say(metav1.ConditionFalse, remedyv1.ClusterUnreachableReason, withCause("The cluster cannot be read", p.Around.Reading.Unconnected))
	case p.Situation.Check.FirstLook:
		return say(metav1.ConditionUnknown, remedyv1.ReconnectingReason, notJudged(&health.Verdict{Reason: health.FirstLook, Until: cluster.FirstLookUntil}))
	default:
		status, reason, message := p.Around.Reading.said()
		return say(status, reason, message)
	}
}

// Blind says whether the cluster answers, and not one of its Nodes can be read.
func (r *Reading) Blind() bool { return r.Unconnected == "" && r.Nodes > 0 && r.Unread == r.Nodes }

// said is what becomes of it where the cluster answers.
func (r *Reading) said() (status metav1.ConditionStatus, reason, message string) {
	switch {
	case r.NoKnownNode:
		return metav1.ConditionFalse, remedyv1.NoKnownNodeReason, capital(or(r.Why, "none of the Nodes that Machines refer to exists")) +
			". No Machine is remediated for a missing Node until one of these Nodes exists"
	case r.Unread == 0:
		return metav1.ConditionTrue, remedyv1.ClusterReachableReason, ""
	case r.Unread == r.Nodes:
		return metav1.ConditionFalse, remedyv1.NodesUnreadableReason, withCause("No Node can be read", r.Why)
	default:
		return metav1.ConditionTrue, remedyv1.ClusterReachableReason, withCause(fmt.Sprintf("%d of %d Nodes cannot be read", r.Unread, r.Nodes), r.Why)
	}
}

// withCause adds why something is so, as far as that is known.
func withCause(said, why string) string {
	if why = foreign(why); why != "" {
		said += ": " + why
	}
	return said
}
