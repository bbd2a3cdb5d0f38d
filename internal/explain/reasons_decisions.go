// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// preflightReasons are the reasons of preflight checks, in the order of evaluation.
var preflightReasons = []Reason{
	newReason(Preflight, remediation.Paused, fixed("The check, its Cluster or the target was paused after the decision"),
		"The check, its Cluster or the target was paused after the decision.",
		"All three, in a live read.",
		"Unpause it when the work on it is done."),
	newReason(Preflight, remediation.PreflightPending, fixed("Preflight check is queued and runs within seconds"),
		"The preflight check of the target is queued and runs within seconds.",
		"Nothing: the reconcile reports before it remediates, and leaves to the next one what it cannot begin within 5 s.",
		"Nothing."),
	newReason(Preflight, remediation.PreflightFailed, preflightFailed,
		"A preflight check did not find the facts that the decision is based on.",
		"Exactly these facts, in a live read.",
		"Nothing: the target is evaluated again. If it lasts, a read or a write fails: the message has the cause."),
	newReason(Preflight, remediation.LeaseRenewed, leaseRenewed,
		"The Node is not Ready by a report that is not its kubelet's, and the kubelet has renewed its Lease since. The remediation is "+
			"blocked for one more timeout at most.",
		"The Lease of the Node, where its condition Ready is Unknown, or False without the reason KubeletNotReady; both times by the clock "+
			"of its cluster, unless another status was read later.",
		"Find out why the kubelet reaches its Lease and does not report the status of its Node."),
}

// unfinished are about remediations that exist, and about failures.
var unfinished = []Reason{
	newReason(Unfinished, remediation.OwnerNotActing, ownerNotActing,
		"Owner remediation was requested, and the owner has not acted.",
		fmt.Sprintf("The condition `OwnerRemediated` of the Machine, after %s.", remediation.OwnerTimeout),
		"Check the owner and its controller. The message quotes what the owner reports.").needsAction(),
	newReason(Unfinished, remediation.PreviousStepNotReleased, previousStepNotReleased,
		"A finalizer blocks the deletion of the request of the previous step.",
		fmt.Sprintf("The deletion timestamp of the request, after %s.", remediation.ReleaseTimeout),
		"Check the remediator, which has to remove its finalizer. Remedy never removes the finalizer of another component.").needsAction(),
	newReason(Unfinished, remediation.RequestFailed, requestRejected,
		"The request could not be created, usually because the API server rejected it.",
		"The response of the API server.",
		"Read the message: usually the template does not fit its kind, or a policy forbids the request. The message has no values, which may be "+
			"secrets: create such a request with `kubectl create --dry-run=server` to see them.").needsAction(),
	newReason(Unfinished, remediation.RecoveryNotConfirmed, recoveryNotConfirmed,
		"The target is healthy again, and a person has to confirm it.",
		"`recovery: Confirmed` of the check.",
		"Check the target, and set the annotation `"+remedyv1.ConfirmedHealthyAnnotation+"` on its Node.").needsAction(),
}

// endings are the reasons for which a remediation ends.
var endings = []Reason{
	newReason(Ending, remediation.StepTimedOut, fixed("the step timed out"), "The step timed out.",
		"The `timeout` of the step, or of the remediation.", "Check the remediator. Raise the timeout if the remediator only needs more time.").
		needsAction(),
	newReason(Ending, remediation.StepFailed, fixed("the remediator reported a failure"), "The remediator reported a failure.",
		"The condition `Succeeded` of the request.", "Check what the remediator reports.").needsAction(),
	newReason(Ending, remediation.StepChanged, fixed("the check no longer has this step"), "The check no longer has this step.",
		"The steps of the check.", "Nothing: the current steps apply."),
	newReason(Ending, remediation.Recovered, fixed("the target is healthy again"), "The target is healthy again.",
		"Its health, `healthyDelay` and `recovery` of the check.", "Nothing."),
	newReason(Ending, remediation.NodeNotFound, fixed("the Node no longer exists"), "The Node no longer exists.",
		"The Node that the request is for.", "Nothing."),
	newReason(Ending, remediation.NotSelected, fixed("the check no longer selects the target"), "The check no longer selects the target.",
		"The selector of the check, and the annotations of the target.", "Nothing, if that is intended."),
	newReason(Ending, remediation.CheckDeleting, fixed("the check is being deleted"), "The check is being deleted, and Remedy cleans up.",
		"The deletion timestamp of the check.", "Nothing."),
	newReason(Ending, remediation.ObserveMode, fixed("the check or the manager only observes"),
		"The check or the manager only observes: remediations in progress are canceled.",
		"`mode` of the check, and the flag `--mode` of the manager.", "Nothing, if that is intended."),
	newReason(Ending, remediation.ClusterNotFound, fixed("the Cluster does not exist"), "The Cluster that the check names no longer exists.",
		"The Cluster.", "Delete the check."),
	newReason(Ending, remediation.ManagedByOtherCheck, fixed("another check is responsible for the target"),
		"Another check became responsible for the target.", "The selectors of all checks.", "Make the selectors disjoint."),
	newReason(Ending, remediation.PauseRequested, fixed("new remediations are paused by pauseRequests"),
		"New remediations are paused: owner remediation that no owner has begun is canceled.", "`pauseRequests` of the check.",
		"Remove the entry from `pauseRequests` when its cause no longer exists."),
	newReason(Ending, remediation.InStorm, fixed("too many targets were unhealthy at once"),
		"Too many targets are unhealthy at once: owner remediation that no owner has begun is canceled.", "The limit of the check.",
		"Check for a common cause."),
}

// Reasons for which a remediation ends without an action of the manager.
const (
	// Replaced: a target was deleted while it was being remediated.
	Replaced remediation.Reason = "Replaced"
	// Withdrawn: another client deleted the request, or canceled owner remediation.
	Withdrawn remediation.Reason = "Withdrawn"
)

// Reasons that only events have.
const (
	// BecameHealthy: an unhealthy target became healthy.
	BecameHealthy = "BecameHealthy"
	// RemediationStarted: a remediation of a target was started.
	RemediationStarted = "RemediationStarted"
	// EventsOmitted: a check has more events than are recorded.
	EventsOmitted = "EventsOmitted"
)

var eventReasons = []Reason{
	{Kind: EventOnly, Name: BecameHealthy, Means: "An unhealthy target became healthy.", Remedy: "Nothing."},
	{
		Kind: EventOnly, Name: RemediationStarted, Means: "A request was created for an unhealthy target, or owner remediation was requested.",
		Remedy: "Nothing.",
	},
	newReason(EventOnly, Replaced, fixed("the target was deleted"),
		"A target was deleted while it was being remediated, usually because its owner replaced it.", "",
		"Nothing. The event is on the check only, because the target no longer exists."),
	newReason(EventOnly, Withdrawn, fixed("another client canceled it"),
		"Another client than the manager deleted the request, or canceled owner remediation.", "",
		"Nothing, if that is intended. A target that is still unhealthy gets the next step at once, or the next attempt after its backoff."),
	newReason(EventOnly, remediation.OwnerRefuses, fixed("the owner cannot remediate the target"),
		"Owner remediation has ended because the owner reports that it cannot remediate the target.", "", "Check what the owner reports.").
		needsAction(),
	{
		Kind: EventOnly, Name: EventsOmitted, Means: "A check had more events than are recorded, because its targets change too often.",
		Remedy: "Find out why the Nodes flap. The status of the check is up to date, and the log of the manager has the omitted events.",
	},
}

func preflightFailed(s *subject) string {
	message := "Preflight check failed: " + sanitizedOr(s.Details.Cause, "facts changed")
	if s.Details.Max > 0 {
		message += fmt.Sprintf(" (%d of %d)", s.Details.Count, s.Details.Max)
	}
	return message + ". Remedy evaluates the target again"
}

// leaseRenewed leaves out when the Lease was renewed: that changes every ten seconds.
func leaseRenewed(s *subject) string {
	return "Kubelet renews the Node's Lease although Ready is not True; remediation is blocked" + when("until", s.Until)
}

func ownerNotActing(s *subject) string {
	return fmt.Sprintf("Owner remediation was requested%s, and the owner has not acted: %s", when("at", s.Details.Since),
		sanitizedOr(s.Details.Cause, "it reports no cause"))
}

func previousStepNotReleased(s *subject) string {
	return "Deletion of " + request(s.step) + ", requested" + when("at", s.Details.Since) + ", is blocked by a finalizer of the remediator"
}

func requestRejected(s *subject) string {
	return "Failed to create the request: " + sanitizedOr(s.Details.Cause, "the API server returned no cause")
}

func recoveryNotConfirmed(s *subject) string {
	return "The target is healthy" + when("since", s.Details.Since) + "; waiting for the annotation " + remedyv1.ConfirmedHealthyAnnotation +
		" on its Node"
}

// request names the request of a step. The step of a check with a single template has no number.
func request(step remediation.StepID) string {
	name := "the request"
	if step.Order > 0 {
		name += fmt.Sprintf(" of step %d", step.Order)
	}
	if template := sanitized(step.Template); template != "" {
		name += " (" + template + ")"
	}
	return name
}
