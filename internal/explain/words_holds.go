// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// guardsOfTheControlPlane are the last guards, in their order: the control plane, and then its turn.
var guardsOfTheControlPlane = [...]holdWord{
	{remediation.ControlPlaneBusy, meaning{
		"Another Node of its control plane is being remediated, by this check or any other.",
		"What is under way for the control plane, across all checks. Asked only about steps that need a request.",
		"Nothing: it has its turn when the other one is done.",
	}, false, func(s *saw) string {
		return or(s.Seen.Who, "Another Node") + " of the same control plane is being remediated"
	}, nil},
	{remediation.QuorumUnknown, meaning{
		"Nobody can tell whether its control plane would keep its quorum.",
		"The members of etcd: conditions of Machines, mirror pods, or Nodes of the control plane. Asked only about steps that need a request.",
		"Make the members readable: as a rule the connection to the cluster is missing, or the right to read its pods.",
	}, true, say("The etcd members of its control plane could not be found out"), nil},
	{remediation.SingleControlPlane, meaning{
		"It is the only member of its control plane: there is nothing that could take over.",
		"The members of etcd. Asked only about steps that need a request.",
		"Repair it by hand, or run a control plane of three.",
	}, true, say("It is the only member of its control plane"), nil},
	{remediation.QuorumAtRisk, meaning{
		"Its control plane would lose its quorum: without it, too few of etcd's members would be known to be healthy.",
		"The members of etcd, of which more than half must be healthy without it. Asked only about steps that need a request.",
		"Repair another member first.",
	}, true, quorum, func(s *saw) string {
		switch {
		case s.Seen.Who != "":
			return "Nothing can be lost: " + foreign(s.Seen.Who)
		case s.Seen.Most == 0:
			return ""
		}
		return quorum(s)
	}},
	{remediation.MaxInFlight, meaning{
		"As many targets are under remediation as may be at the same time, and others come first.",
		"`maxInFlight` of the check, and what is under way.",
		"Nothing: it has its turn. Raise `maxInFlight` if that takes too long.",
	}, false, slots, func(s *saw) string {
		if s.Seen.Most == 0 {
			return ""
		}
		return slots(s)
	}},
	{remediation.Observing, meaning{
		"The check, or the manager, only observes: nothing but this holds the target.",
		"`mode` of the check, and the flag `--mode` of the manager. It comes last, so that whoever observes sees what would be done, and what would hold it.",
		"Set `mode: Enforce` when you trust what you see.",
	}, false, would, nil},
}

// would is what would be done.
func would(s *saw) string {
	if s.step.Template == "" {
		return "It is only observed; otherwise its owner would be asked to remediate it"
	}
	return "It is only observed; otherwise " + request(s.step) + " would be made"
}

func quorum(s *saw) string {
	return fmt.Sprintf("Without it, %d of %d etcd members would be known to be healthy, and %d have to be", s.Seen.Have, s.Seen.Most, s.Seen.Least)
}

func slots(s *saw) string {
	said := fmt.Sprintf("%d of %d places for remediations are taken", s.Seen.Have, s.Seen.Most)
	if s.Seen.Have == 0 || s.Seen.Who == "" {
		return said
	}
	if s.Seen.Have > 1 {
		return said + ", one of them by " + foreign(s.Seen.Who)
	}
	return said + ", by " + foreign(s.Seen.Who)
}

// lastLooks are in the order in which they are asked.
var lastLooks = [...]holdWord{
	{remediation.Paused, meaning{
		"The check, its Cluster or the target was paused after the decision was made.",
		"All three, read again past all caches.",
		"Unpause it when the work on it is done.",
	}, false, say("The check, its Cluster or the target is paused now"), nil},
	{remediation.NotConfirmed, meaning{
		"A last look, past all caches, did not show what the decision rests on.",
		"Exactly the facts that the decision rests on, read again.",
		"Nothing: the facts are looked at anew. If it stays, something cannot be read: the message says why, and how to mend it.",
	}, false, notConfirmed, nil},
	{remediation.LeaseRenewed, meaning{
		"Its Node is said to be unknown, and its kubelet has renewed its Lease since. It is held for one further timeout at most.",
		"The Lease of the Node, where its condition Ready is Unknown; both times by the clock of its cluster.",
		"Find out why the kubelet reaches its Lease and does not report the status of its Node.",
	}, false, func(s *saw) string {
		return "Its kubelet still renews the Lease of its Node; it is held" + when("until", s.Until)
	}, nil},
}

func notConfirmed(s *saw) string {
	said := "A last look did not confirm it: " + or(s.Seen.Who, "the facts have changed")
	if s.Seen.Most > 0 {
		said += fmt.Sprintf(" (%d of %d)", s.Seen.Have, s.Seen.Most)
	}
	return said
}

// otherHolds are for what is under way already, and for what has failed.
var otherHolds = [...]holdWord{
	{remediation.OwnerNotActing, meaning{
		"Its owner was asked to remediate it, and has not done anything for long.",
		fmt.Sprintf("The condition `OwnerRemediated` of the Machine, after %s.", remediation.OwnerTime),
		"Look at the owner and its controller. The message repeats what the owner says, if it says anything.",
	}, true, func(s *saw) string {
		return fmt.Sprintf("Its owner was asked%s and has not acted: %s", when("at", s.Seen.Since), or(s.Seen.Who, "it does not say why"))
	}, nil},
	{remediation.PreviousStepNotReleased, meaning{
		"The request of the step before is still there, as a finalizer keeps it.",
		fmt.Sprintf("The deletion timestamp of the request, after %s.", remediation.ReleaseTime),
		"Look at the remediator, which has to let its request go. We never remove the finalizer of somebody else.",
	}, true, func(s *saw) string {
		return "A finalizer keeps " + request(s.step) + ", which was deleted" + when("at", s.Seen.Since)
	}, nil},
	{remediation.RequestFailed, meaning{
		"The API server refused to create its request.",
		"The answer of the API server.",
		"Read the message: as a rule the template does not fit its kind, or a policy forbids it.",
	}, true, func(s *saw) string {
		return "The API server refused the request: " + or(s.Seen.Who, "it does not say why")
	}, nil},
	{remediation.RecoveryNotConfirmed, meaning{
		"The target is healthy again, and waits for a person to say so.",
		"`recovery: Confirmed` of the check.",
		"Look at the target, and put the annotation `" + remedyv1.ConfirmedHealthyAnnotation + "` on its Node.",
	}, true, func(s *saw) string {
		return "It is healthy again" + when("since", s.Seen.Since) + " and waits for a person to confirm it"
	}, nil},
}

// endingWords are why something ends that was started.
var endingWords = [...]endingWord{
	{remediation.StepTimedOut, meaning{
		"The step has taken too long.", "The `timeout` of the step, or of the remediation.", "Look at the remediator; raise the timeout if it only needs more time.",
	}, "it has taken too long"},
	{remediation.StepFailed, meaning{
		"The remediator says that it has failed.", "The condition `Succeeded` of the request.", "Look at what the remediator says about it.",
	}, "its remediator says that it has failed"},
	{remediation.StepChanged, meaning{
		"The check does not name this step any more.", "The steps of the check.", "Nothing: the steps that are named now take over.",
	}, "the check does not name this step any more"},
	{remediation.Recovered, meaning{
		"The target is healthy again.", "Its health, `healthyDelay` and `recovery` of the check.", "Nothing.",
	}, "it is healthy again"},
	{remediation.NodeVanished, meaning{
		"The Node does not exist any more.", "The Node that the request is for.", "Nothing.",
	}, "its Node does not exist any more"},
	{remediation.NotLookedAfter, meaning{
		"The check does not look after the target any more.", "The selector of the check, and the annotations of the target.", "Nothing, if that is what was meant.",
	}, "the check does not look after it any more"},
	{remediation.CheckDeleting, meaning{
		"The check is about to go, and cleans up before.", "The deletion timestamp of the check.", "Nothing.",
	}, "the check is being deleted"},
	{remediation.Observing, meaning{
		"The check, or the manager, only observes now: what was under way is taken back.", "`mode` of the check, and the flag `--mode` of the manager.", "Nothing, if that is what was meant.",
	}, "the check, or the manager, only observes"},
	{remediation.ClusterNotFound, meaning{
		"The Cluster that the check names does not exist any more.", "The Cluster.", "Delete the check.",
	}, "the Cluster does not exist"},
	{remediation.CoveredByOther, meaning{
		"Another check takes care of the target now.", "The selectors of all checks.", "Make the selectors disjoint.",
	}, "another check takes care of it"},
	{remediation.PauseRequested, meaning{
		"Somebody asked not to start anything new: marks on which no owner has acted are taken back.", "`pauseRequests` of the check.", "Remove the request when its reason is gone.",
	}, "somebody asked to start nothing new"},
	{remediation.InStorm, meaning{
		"Too many targets are sick at once: marks on which no owner has acted are taken back.", "The limit of the check.", "Look for a common cause.",
	}, "too many targets were sick at once"},
	{remediation.NoRemediatingOwner, meaning{
		"The Machine has no owner any more that could remediate it.", "The owner references of the Machine.", "Name a remediation template in the check.",
	}, "it has no owner that could remediate it"},
}

// Reasons that only events have.
const (
	// BecameHealthy means: a target that was unhealthy is healthy again.
	BecameHealthy = "BecameHealthy"
	// RemediationStarted means: something new was started for a target.
	RemediationStarted = "RemediationStarted"
)

// happeningWords are for what happened and is no state.
var happeningWords = [...]conditionWord{
	{BecameHealthy, nil, meaning{means: "A target that was unhealthy is healthy again.", remedy: "Nothing."}},
	{RemediationStarted, nil, meaning{means: "A request was made for an unhealthy target, or its owner was asked to remediate it.", remedy: "Nothing."}},
}

// request names the request of a step. A check with a single template has no steps worth a number.
func request(step remediation.StepID) string {
	said := "the request"
	if step.Order > 0 {
		said += fmt.Sprintf(" of step %d", step.Order)
	}
	if template := foreign(step.Template); template != "" {
		said += " (" + template + ")"
	}
	return said
}
