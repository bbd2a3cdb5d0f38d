// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// say makes a sentence that is always the same.
func say(sentence string) func(s *saw) string { return func(*saw) string { return sentence } }

// guardsOfTheCheck are the first guards, in their order: nothing at all, or nothing here.
var guardsOfTheCheck = [...]holdWord{
	{remediation.Paused, meaning{
		"The check or its Cluster is paused: nothing at all is done, and what is under way is left as it is.",
		"`spec.paused` of the Cluster, and the annotation `cluster.x-k8s.io/paused` on the check.",
		"Unpause the check or the Cluster when the work on it is done. The condition Paused says which it is.",
	}, false, say("The check or its Cluster is paused"), nil},
	{remediation.CheckDeleting, meaning{
		"The check is about to go, and cleans up before.",
		"The deletion timestamp of the check.",
		"Nothing: it goes when everything it left behind is cleaned up.",
	}, false, say("The check is being deleted"), nil},
	{remediation.ClusterNotFound, meaning{
		"The Cluster that the check names does not exist.",
		"`clusterName` or `clusterRef` of the check.",
		"Correct the name with a new check, or delete this one.",
	}, true, say("The Cluster does not exist"), nil},
	{remediation.ClusterDeleting, meaning{
		"The Cluster is being taken down, and its Machines with it.",
		"The deletion timestamp of the Cluster.",
		"Nothing: there is nothing left to repair.",
	}, false, say("The Cluster is being deleted"), nil},
	{remediation.CoveredByOther, meaning{
		"Another check takes care of the target.",
		"The selectors of all checks, and which of them has something under way for it.",
		"Make the selectors disjoint. The condition SelectorsDisjoint names the other check.",
	}, false, func(s *saw) string { return or(s.Seen.Who, "Another check") + " takes care of it" }, nil},
}

// guardsOfTheTarget are the next ones: what the target and its owner say.
var guardsOfTheTarget = [...]holdWord{
	{remediation.StuckDeleting, meaning{
		"The deletion of the target hangs. A second cure on top of it would not help.",
		fmt.Sprintf("The deletion timestamp of the Machine or the Node: more than %s ago.", remediation.LeavingTime),
		"Find out what keeps it: a finalizer, a drain that cannot finish, or a provider that cannot delete the server.",
	}, true, func(s *saw) string { return "Its deletion hangs; it was asked for" + when("at", s.Seen.Since) }, nil},
	{remediation.Leaving, meaning{
		"The target is about to go by itself: its deletion was asked for, or something announces it.",
		fmt.Sprintf("The deletion timestamp, and signs such as a taint of an autoscaler or of a spot termination, for %s.", remediation.LeavingTime),
		"Nothing: it goes, or it is remediated when the time is over. Remove the sign if it is not true.",
	}, false, leaving, func(s *saw) string {
		if s.Seen.Who == "" {
			return ""
		}
		return leaving(s) + ", and that took too long"
	}},
	{remediation.Excluded, meaning{
		"A label on the Node keeps it from being remediated.",
		"The label `" + remedyv1.ExcludeLabel + "` on the Node.",
		"Remove the label when it may be remediated again.",
	}, false, say("Its Node has the label " + remedyv1.ExcludeLabel), nil},
	{remediation.NoRemediatingOwner, meaning{
		"The Machine has no owner that could remediate it: none at all, or one that never replaces single Machines.",
		"The owner references of the Machine. Asked only about steps that hand it to its owner.",
		"Name a remediation template in the check, or replace the Machine by hand.",
	}, true, say("It has no owner that could remediate it"), func(s *saw) string { return "Its owner is " + or(s.Seen.Who, "known") }},
	{remediation.OwnerRefuses, meaning{
		"The owner of the Machine says that it cannot remediate it.",
		"The condition `OwnerRemediated` of the Machine. Asked only about steps that hand it to its owner.",
		"Read that condition: the owner says why it cannot. As a rule its control plane would lose its quorum.",
	}, true, func(s *saw) string { return or(s.Seen.Who, "Its owner") + " says that it cannot remediate it" }, nil},
}

func leaving(s *saw) string {
	if s.Seen.Who == "deletion" {
		return "Its deletion was asked for" + when("at", s.Seen.Since)
	}
	return "It is said to be leaving by " + or(s.Seen.Who, "a sign") + when("since", s.Seen.Since)
}

// guardsOfTheMoment are those after them: nothing new for now.
var guardsOfTheMoment = [...]holdWord{
	{remediation.PauseRequested, meaning{
		"Somebody asked not to start anything new. What is under way goes on to its end.",
		"`pauseRequests` of the check.",
		"Remove the request from `pauseRequests` when its reason is gone.",
	}, false, pauseRequested, nil},
	{remediation.ClusterUnreachable, meaning{
		"The cluster cannot be read, and its trouble is one that only the cluster could confirm.",
		"The connection to the cluster, and whether any cause is about the Machine alone.",
		"Restore the connection. The condition ClusterReachable says more.",
	}, true, say("The cluster cannot be read, and only the cluster could confirm its trouble"), func(s *saw) string {
		if s.Seen.Who == "" {
			return ""
		}
		return "The cluster cannot be read, and " + foreign(s.Seen.Who) + " needs no Node"
	}},
	{remediation.TooManyUnhealthy, meaning{
		"More targets are sick than the limit allows: that is for a person to look at.",
		"`maxUnhealthy`, `minHealthy` or `unhealthyRange`, and how many targets are sick.",
		"Look for a common cause, such as a network or a cloud that is down. Raise the limit only if there is none.",
	}, true, gate, gate},
	{remediation.TooFewUnhealthy, meaning{
		"Fewer targets are sick than the range asks for.",
		"`unhealthyRange`, and how many targets are sick.",
		"Nothing: the range says so. Lower its first number if even a few are to be remediated.",
	}, true, tooFew, nil},
	{remediation.InStorm, meaning{
		"Too many targets were sick a short while ago, and the cool-down is not over.",
		"`stormCooldownDuration` of the check, and since when the limit has been kept again.",
		"Nothing: it ends by itself when the limit has been kept for that long.",
	}, true, storm, nil},
	{remediation.AnnotationNotRemoved, meaning{
		"A person asked for a remediation, it was done, and the annotation that asks for it is still there.",
		"The annotation `cluster.x-k8s.io/remediate-machine`, where it is the only cause, and what has become of its request. Asked only about steps that need a request.",
		"Remove the annotation. Put it there again if it is to be remediated once more.",
	}, false, notRemoved, nil},
	{remediation.EscalationExhausted, meaning{
		"Every step has been tried, and the target is still not healthy. They begin anew after a wait.",
		"What is remembered of its attempts, with more than one step.",
		"Look at the target: no remediator can help it. A step that hands it to its owner would replace it.",
	}, true, func(s *saw) string {
		return fmt.Sprintf("Every step has been tried, and that has failed %s; they begin anew%s", times(s.Seen.Have), when("at", s.Until))
	}, failures},
	{remediation.InBackoff, meaning{
		"Its last remediation has failed a short while ago.",
		"What is remembered of its attempts, and `backoff` of the check.",
		"Nothing: it is tried again when the wait is over. Look at the remediator if that fails, too.",
	}, false, func(s *saw) string {
		return fmt.Sprintf("Its remediation has failed %s; the next one may begin%s", times(s.Seen.Have), when("at", s.Until))
	}, failures},
	{remediation.TemplateNotResolved, meaning{
		"No request can be made from the template of its step, or the check names no step that it could take.",
		"The template, its kind and our rights. Asked only about steps that need a request.",
		"See the condition TemplatesResolved of the check.",
	}, true, func(s *saw) string {
		if s.Seen.Who == "" {
			return "The check names no step that it could take"
		}
		return "No request can be made from the template " + or(s.Seen.Who, "of its step")
	}, func(s *saw) string { return "The template is " + or(s.Seen.Who, "known") }},
	{remediation.NameTaken, meaning{
		"Something else bears the name that its request would have.",
		"The request of that name, and whom it belongs to; for a Node also what the check itself has left to do on an earlier Node of that name. Asked only about steps that need a request.",
		"Nothing if it goes by itself. Otherwise find out who made it, and delete it.",
	}, true, func(s *saw) string { return or(s.Seen.Who, "Something else") + " bears the name of its request" }, nil},
	{remediation.LeaseTaken, meaning{
		"Somebody else is working on its Node.",
		"The Lease of the Node by which those who work on it take turns. Asked only about steps that need a request.",
		"Nothing: the Lease is given back, or runs out.",
	}, false, func(s *saw) string {
		return or(s.Seen.Who, "Somebody else") + " is working on its Node" + when("until", s.Until)
	}, func(s *saw) string {
		if s.Seen.Who == "" {
			return ""
		}
		return "The Lease of " + or(s.Seen.Who, "somebody else") + " has run out"
	}},
}

func pauseRequested(s *saw) string {
	said := fmt.Sprintf("Somebody asked to start nothing new: %q", foreign(s.Seen.Who))
	if s.Seen.Have > 1 {
		said += fmt.Sprintf(" … and %d more", s.Seen.Have-1)
	}
	return said
}

// gate says the same whether it is open or closed: the numbers tell.
func gate(s *saw) string {
	seen := &s.Seen
	said := counted(seen.Have, "target counts as sick", "targets count as sick") + ", and " + or(seen.Who, "the limit")
	switch {
	case seen.Most < 0:
		return said + " wants more healthy ones than there are targets"
	case seen.Least > 0:
		return fmt.Sprintf("%s allows from %d to %d", said, seen.Least, seen.Most)
	default:
		return fmt.Sprintf("%s allows %d at the most", said, seen.Most)
	}
}

func tooFew(s *saw) string {
	return fmt.Sprintf("%s, and %s asks for %d at the least", counted(s.Seen.Have, "target counts as sick", "targets count as sick"), or(s.Seen.Who, "the range"), s.Seen.Least)
}

func storm(s *saw) string {
	said := "Too many targets have been sick at once" + when("since", s.Seen.Since)
	if s.Until.IsZero() {
		return said + ", and the limit is not kept yet"
	}
	return said + "; the limit is kept again, and the cool-down ends" + when("at", s.Until)
}

func failures(s *saw) string {
	if s.Seen.Have == 0 {
		return ""
	}
	return "Its remediation has failed " + times(s.Seen.Have)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func notRemoved(s *saw) string {
	said := "It was remediated as the annotation cluster.x-k8s.io/remediate-machine asks"
	if s.Seen.Have > 0 {
		said = "What the annotation cluster.x-k8s.io/remediate-machine asks for has failed " + times(s.Seen.Have)
	}
	return said + "; remove the annotation"
}
