// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// onlyRequests and onlyOwners end the documentation of guards that do not apply to each step.
const (
	onlyRequests = " Evaluated only for steps with a template."
	onlyOwners   = " Evaluated only for owner remediation."
)

// guards are in the order of evaluation.
var guards = []Reason{
	// The check and its Cluster.
	newReason(Guard, remediation.Paused, fixed("The check or its Cluster is paused"),
		"The check or its Cluster is paused. Remedy changes nothing; requests that exist stay.",
		"`spec.paused` of the Cluster, and the annotation `cluster.x-k8s.io/paused` on the check.",
		"Unpause the check or the Cluster when the work on it is done. The condition Paused names which one is paused.").
		whenPassed(fixed("Neither the check nor its Cluster is paused")),
	newReason(Guard, remediation.CheckDeleting, fixed("The check is being deleted"),
		"The check is being deleted, and Remedy cleans up.",
		"The deletion timestamp of the check.",
		"Nothing: its finalizer is removed when the cleanup is complete.").whenPassed(fixed("The check is not being deleted")),
	newReason(Guard, remediation.ClusterNotFound, fixed("The Cluster does not exist"),
		"The Cluster that the check names does not exist.",
		"`clusterName` or `clusterRef` of the check.",
		"Create the Cluster, or replace the check by one that names another Cluster.").needsAction().
		whenPassed(fixed("No Cluster is missing")),
	newReason(Guard, remediation.ClusterDeleting, fixed("The Cluster is being deleted"),
		"The Cluster is being deleted with its Machines.",
		"The deletion timestamp of the Cluster.",
		"Nothing.").whenPassed(fixed("No Cluster is being deleted")),
	newReason(Guard, remediation.ManagedByOtherCheck, named("Another check", " is responsible for the target"),
		"Another check is responsible for the target.",
		"The selectors of all checks, and which of them has started a remediation of the target.",
		"Make the selectors disjoint. The condition SelectorsDisjoint names the other check.").
		whenPassed(fixed("No other check is responsible for the target")),

	// The target and its owner.
	newReason(Guard, remediation.StuckDeleting, deletionStuck,
		"The deletion of the target does not finish. Another remediation would not help.",
		fmt.Sprintf("The deletion timestamp of the Machine; with a template, also of the Node: more than %s ago.",
			short(remediation.DeletionTimeout)),
		"Find the cause: a finalizer, a drain that cannot finish, or a provider that cannot delete the server.").needsAction().
		whenPassed(notStuck),
	newReason(Guard, remediation.Terminating, terminating,
		"The target is being deleted, or another component announces its termination.",
		fmt.Sprintf("The deletion timestamp of the Machine; with a template, also of the Node, "+
			"and signs such as a taint of an autoscaler or of a spot termination: for %s.", short(remediation.DeletionTimeout)),
		"Nothing: the target is deleted, or is remediated when the time is over. Remove the sign if it is wrong.").
		whenPassed(terminatingTimedOut),
	newReason(Guard, remediation.NoStepForCondition, noStep,
		"The check has no step for the cause: each step is limited to other conditions. The target is only reported.",
		"`conditions` of the steps in `escalatingRemediations`, and the causes of the target: type, status and reason of its conditions.",
		"Nothing, if the condition is only to be reported. Otherwise add a step for it, or one without `conditions`, which is for every cause.").
		whenPassed(fixed("The check has a step for the cause")),
	newReason(Guard, remediation.Excluded, fixed("The Node has the label "+remedyv1.ExcludeLabel+"; remove it to allow remediation"),
		"A label on the Node excludes it from remediation.",
		"The label `"+remedyv1.ExcludeLabel+"` on the Node.",
		"Remove the label when the Node may be remediated again.").whenPassed(fixed("The label " + remedyv1.ExcludeLabel + " is not set")),
	newReason(Guard, remediation.NoRemediatingOwner,
		fixed("The Machine has no owner that can remediate it. Set remediationTemplate or replace the Machine"),
		"The Machine has no owner that can remediate it: no owner at all, or one that never replaces single Machines.",
		"The owner references of the Machine."+onlyOwners,
		"Name a remediation template in the check, or replace the Machine manually.").needsAction().whenPassed(owner),
	newReason(Guard, remediation.OwnerRefuses, ownerRefuses,
		"The owner of the Machine reports that it cannot remediate it.",
		"The condition `OwnerRemediated` of the Machine."+onlyOwners,
		"Read that condition for the cause. Usually the control plane would lose its quorum.").needsAction().
		whenPassed(named("The owner", " does not refuse remediation")),

	// What the check allows now.
	newReason(Guard, remediation.PauseRequested, pauseRequested,
		"New remediations are paused. Remediations in progress continue, but owner remediation that no owner has begun is canceled.",
		"`pauseRequests` of the check.",
		"Remove the entry from `pauseRequests` when its cause no longer exists.").whenPassed(fixed("pauseRequests is empty")),
	newReason(Guard, remediation.ClockSkew, clockSkew,
		"The clock of the manager differs from that of the API server by more than 30 seconds. No remediation starts, and no step times out.",
		"The `Date` of the last answer of the API server of the management cluster.",
		"Synchronize the clocks of the machines that run the manager and the API server.").needsAction().
		whenPassed(fixed("The clocks of the manager and of the API server agree")),
	newReason(Guard, remediation.ReconnectGracePeriod,
		fixed("Kubelets get 50 seconds to report after the API server or the manager has started, or the first connection"),
		"The manager has started or connected the cluster for the first time, or the API server of the management cluster can be reached "+
			"again. A Node whose Ready is Unknown gets time.",
		"When the first answer of an API server followed a start or an outage, and whether Ready=Unknown, or a Node that has not "+
			"joined, is the only cause. Where kube-controller-manager has held its Lease for 50 seconds, the first connection gives no time.",
		"Nothing.").whenPassed(fixed("The kubelet has reported, or has had 50 seconds to report")),
	newReason(Guard, remediation.ClusterUnreachable,
		fixed("Workload cluster is unreachable; this failure cannot be verified without it; see ClusterReachable"),
		"The workload cluster is unreachable. Only failures that can be verified without it are remediated.",
		"The connection to the cluster, and whether a cause concerns the Machine alone.",
		"Restore the connection. The condition ClusterReachable has the cause.").needsAction().whenPassed(verifiedWithoutCluster),
	newReason(Guard, remediation.TooManyUnhealthy, tooMany,
		"More targets are unhealthy than the limit allows.",
		"`maxUnhealthy`, `minHealthy` or `unhealthyRange`, and the number of unhealthy targets.",
		"Check for a common cause, such as a network or a cloud outage. Remediation starts when enough targets are healthy again, or when you "+
			"raise the limit: without `maxInFlight`, then of all of them at once.").needsAction().whenPassed(withinLimit),
	newReason(Guard, remediation.TooFewUnhealthy, tooFew,
		"Fewer targets are unhealthy than `unhealthyRange` requires.",
		"`unhealthyRange`, and the number of unhealthy targets.",
		"Nothing. Lower the first number of the range if fewer targets are to be remediated, too.").needsAction().whenPassed(enough),
	newReason(Guard, remediation.InStorm, storm,
		"Too many targets were unhealthy at once, and the cool-down is not over.",
		"`stormCooldownDuration` of the check, and the time since which the limit is met again.",
		"Nothing: it ends when the limit has been met for that long. Check for a common cause.").needsAction().
		whenPassed(fixed("No cool-down is in progress")),
	newReason(Guard, remediation.AnnotationNotRemoved, annotationNotRemoved,
		"The remediation that an annotation requests was done, and the annotation still exists.",
		"The annotation `cluster.x-k8s.io/remediate-machine` or `remedy.cluster.x-k8s.io/remediate-node`, "+
			"where it is the only cause, and the result of its request."+onlyRequests,
		"Remove the annotation. Set it again to request another remediation.").
		whenPassed(fixed("No remediation that an annotation requests was done")),
	newReason(Guard, remediation.EscalationExhausted, exhausted,
		"Every step was tried, and the target is still unhealthy. The first step starts again after a delay.",
		"The remediation history of the target, with more than one step.",
		"Check the target: no remediator has fixed it. A step with owner remediation would replace it.").needsAction().whenPassed(failures),
	newReason(Guard, remediation.InBackoff, backoff,
		"The last remediation of the target failed a short time ago.",
		"The remediation history of the target, and `backoff` of the check. A request that another client deletes before the target is healthy "+
			"has failed.",
		"Nothing: Remedy retries after the delay. Check the remediator if the next remediation fails, too.").whenPassed(failures),
	newReason(Guard, remediation.TemplateNotResolved, templateNotResolved,
		"Remedy cannot create a request from the template of the step.",
		"The template, its kind and the permissions of the manager."+onlyRequests,
		"See the condition TemplatesResolved of the check.").needsAction().whenPassed(template),
	newReason(Guard, remediation.NoMachine, noMachine,
		"The remediator of an infrastructure provider needs the Machine of the Node as the owner of the request, and there is none.",
		"The Machines of the Cluster, their `status.nodeRef`, and the namespace of the template."+onlyRequests,
		"Use a template of a remediator that finds Nodes. If the Node has a Machine, create the template in the namespace of the Machine.").
		needsAction().whenPassed(machineFound),
	newReason(Guard, remediation.RequestNameConflict, named("Another object", " has the name of the request"),
		"Another object has the name of the request.",
		"The request of that name and its owner; for a Node also what the check has to finish on an earlier Node of that name."+onlyRequests,
		"Nothing if the object is being deleted. Otherwise find out what created it, and delete it.").needsAction().
		whenPassed(fixed("No other object has the name of the request")),
	newReason(Guard, remediation.NodeLeaseHeld, leaseHeld,
		"Another component holds the Lease of the Node.",
		"The Lease of the Node, which serializes remediators."+onlyRequests,
		"Nothing: the Lease is released, or expires.").whenPassed(leaseExpired),

	// The control plane of the target, and the number of remediations.
	newReason(Guard, remediation.ControlPlaneBusy, named("Another Node", " of the same control plane is being remediated"),
		"Another Node of the same control plane is being remediated, by this check or another one.",
		"The remediations of the control plane, across all checks."+onlyRequests,
		"Nothing: the target is remediated when the other one is done.").
		whenPassed(ofControlPlane("No other Node of the control plane is being remediated")),
	newReason(Guard, remediation.QuorumUnknown,
		fixed("The etcd members of the control plane could not be read. Check the permission to list Pods in kube-system"),
		"Remedy cannot determine whether the control plane would keep its quorum.",
		"The members of etcd: conditions of Machines, mirror pods, or Nodes of the control plane."+onlyRequests,
		"Make the members readable: usually the connection to the cluster or the permission to read its pods is missing.").needsAction().
		whenPassed(ofControlPlane("The etcd members could be read")),
	newReason(Guard, remediation.SingleControlPlane, fixed("The target is the only member of its control plane"),
		"The target is the only member of its control plane.",
		"The members of etcd."+onlyRequests,
		"Repair it manually, or run a control plane with three members.").needsAction().
		whenPassed(ofControlPlane("The control plane has other members")),
	newReason(Guard, remediation.QuorumAtRisk, quorum,
		"The control plane would lose its quorum: without the target, too few etcd members are known to be healthy.",
		"The members of etcd, of which more than half have to be healthy without the target."+onlyRequests,
		"Repair another member first.").needsAction().whenPassed(quorumKept),
	newReason(Guard, remediation.MaxInFlight, maxInFlight,
		"`maxInFlight` is reached, and the target is queued.",
		"`maxInFlight` of the check, and its remediations in progress.",
		"Nothing: the target is queued. Raise `maxInFlight` if that takes too long.").whenPassed(inFlight),
	newReason(Guard, remediation.ObserveMode, observing,
		"The check or the manager only observes. No other guard blocks the remediation.",
		"`mode` of the check, and the flag `--mode` of the manager. It is evaluated last, to show what Remedy would do, or what would block it.",
		"Set `mode: Enforce` to remediate.").whenPassed(fixed("mode is Enforce")),
}

// named is a sentence about the object that a guard has seen, or about another one if its name is not known.
func named(otherwise, predicate string) func(*subject) string {
	return func(s *subject) string { return sanitizedOr(s.Details.Cause, otherwise) + predicate }
}

func noMachine(s *subject) string {
	return "No Machine in namespace " + sanitizedOr(s.Details.Cause, "of the template") +
		" has this Node, and the remediator needs the Machine. Use a template of a remediator that finds Nodes"
}

func machineFound(s *subject) string {
	if s.Details.Cause == "" {
		return "The remediator needs no Machine"
	}
	return "The Machine is in namespace " + sanitized(s.Details.Cause)
}

func ownerRefuses(s *subject) string {
	message := sanitizedOr(s.Details.Cause, "The owner") + " reports that it cannot remediate the Machine"
	if why := sanitized(s.Details.Message); why != "" {
		message += ": " + why
	}
	return message
}

func deletionStuck(s *subject) string {
	return "Deletion was requested" + when("at", s.Details.Since) + " and is not complete. Check its finalizers and drain"
}

func terminating(s *subject) string {
	return announced(s) + "; remediation is blocked" + untilTimeout(s)
}

// untilTimeout is when a deletion that was announced no longer blocks; empty if that is not known.
func untilTimeout(s *subject) string {
	if s.Details.Since.IsZero() {
		return ""
	}
	return when("until", s.Details.Since.Add(remediation.DeletionTimeout))
}

func announced(s *subject) string {
	if s.Details.Cause == "deletion" {
		return "Deletion was requested" + when("at", s.Details.Since)
	}
	return "Deletion was announced by " + sanitizedOr(s.Details.Cause, "a sign") + when("at", s.Details.Since)
}

func terminatingTimedOut(s *subject) string {
	if s.Details.Cause == "" {
		return "No deletion is announced"
	}
	return announced(s) + "; remediation was blocked" + untilTimeout(s)
}

func notStuck(s *subject) string {
	if s.Details.Since.IsZero() {
		return "The target is not being deleted"
	}
	return "Deletion was requested" + when("at", s.Details.Since)
}

func owner(s *subject) string { return "The owner is " + sanitizedOr(s.Details.Cause, "unknown") }

func verifiedWithoutCluster(s *subject) string {
	if s.Details.Cause == "" {
		return "The workload cluster is reachable"
	}
	return "Workload cluster is unreachable; " + sanitized(s.Details.Cause) + " is verified without it"
}

// commonCause is the advice for too many unhealthy targets.
const commonCause = "Check for a common cause before raising the limit"

func tooMany(s *subject) string { return withinLimit(s) + ". " + commonCause }

func withinLimit(s *subject) string {
	return countedUnhealthy(s) + ", and " + allows(sanitizedOr(s.Details.Cause, "the limit"), s.Details.Min, s.Details.Max)
}

// allows is what a limit allows.
func allows(limit string, least, most int) string {
	switch {
	case most < 0:
		return limit + " requires more healthy targets than exist: lower it"
	case least > 0:
		return fmt.Sprintf("%s allows %d to %d", limit, least, most)
	}
	return fmt.Sprintf("%s allows %d", limit, most)
}

func tooFew(s *subject) string {
	return fmt.Sprintf("%s, and %s requires at least %d", countedUnhealthy(s), sanitizedOr(s.Details.Cause, "the range"), s.Details.Min)
}

func countedUnhealthy(s *subject) string {
	what := "unhealthy"
	if s.policy != nil {
		what = countedAs(s.policy)
	}
	return counted(s.Details.Count, "target is ", "targets are ") + what
}

func storm(s *subject) string {
	message := "Too many targets have been unhealthy at once" + when("since", s.Details.Since)
	if s.Until.IsZero() {
		return message + "; the cool-down starts when the limit is met"
	}
	return message + "; the limit is met again, and the cool-down ends" + when("at", s.Until)
}

func annotationNotRemoved(s *subject) string {
	message := "The remediation that the annotation " + remediateAnnotation(s.verdict) + " requests was done"
	if s.Details.Count > 0 {
		message = "The remediation that the annotation " + remediateAnnotation(s.verdict) + " requests has failed " + times(s.Details.Count)
	}
	return message + "; remove the annotation"
}

func exhausted(s *subject) string {
	steps, first := "All steps", int32(1)
	if s.policy != nil && len(s.policy.Steps) > 0 {
		steps, first = fmt.Sprintf("All %d steps", len(s.policy.Steps)), s.policy.Steps[0].ID.Order
	}
	return fmt.Sprintf("%s failed. Step %d starts again%s. Check the remediator", steps, first, when("at", s.Until))
}

func backoff(s *subject) string {
	message := fmt.Sprintf("Remediation has failed %s; the next one starts%s", times(s.Details.Count), when("at", s.Until))
	return withCause(message, s.Details.Cause)
}

func failures(s *subject) string {
	if s.Details.Count == 0 {
		return "No remediation has failed"
	}
	return "Remediation has failed " + times(s.Details.Count)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func template(s *subject) string { return "The template is " + sanitizedOr(s.Details.Cause, "unknown") }

const notInControlPlane = "The target is not in a control plane"

// ofControlPlane is what a guard of the control plane has seen that did not block.
func ofControlPlane(seen string) func(*subject) string {
	return func(s *subject) string {
		if !s.controlPlane {
			return notInControlPlane
		}
		return seen
	}
}

func enough(s *subject) string {
	if s.Details.Min == 0 {
		return "No minimum is set"
	}
	return tooFew(s)
}

func leaseHeld(s *subject) string {
	return "Lease of the Node is held by " + sanitizedOr(s.Details.Cause, "another component") + when("until", s.Until)
}

func leaseExpired(s *subject) string {
	if s.Details.Cause == "" {
		return "No other component holds the Lease of the Node"
	}
	return "The Lease of " + sanitized(s.Details.Cause) + " has expired"
}

func quorum(s *subject) string {
	return fmt.Sprintf("Without the target, %d of %d etcd members are known to be healthy, and %d are required",
		s.Details.Count, s.Details.Max, s.Details.Min)
}

func quorumKept(s *subject) string {
	if !s.controlPlane {
		return notInControlPlane
	}
	if s.Details.Cause != "" {
		return "The quorum cannot be lost: " + sanitized(s.Details.Cause)
	}
	return quorum(s)
}

func maxInFlight(s *subject) string {
	including := ""
	if s.Details.Count > 0 && s.Details.Cause != "" {
		including = ", including " + sanitized(s.Details.Cause)
		if s.Details.Owner != "" {
			including += ", which " + sanitized(s.Details.Owner) + " has not replaced yet"
		}
	}
	return fmt.Sprintf("maxInFlight is reached (%d of %d%s); this target is queued", s.Details.Count, s.Details.Max, including)
}

func inFlight(s *subject) string {
	if s.Details.Max == 0 {
		return "maxInFlight is not set"
	}
	return fmt.Sprintf("%d of %d remediations allowed by maxInFlight are in progress", s.Details.Count, s.Details.Max)
}

func observing(s *subject) string {
	if s.step.Template == "" {
		return "mode is Observe; with Enforce, Remedy would request owner remediation"
	}
	return "mode is Observe; with Enforce, Remedy would create " + request(s.step)
}
