// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"

var (
	allowedAndPaused    = []string{remedyv1.RemediationAllowedCondition, remedyv1.PausedCondition}
	allowedAndReachable = []string{remedyv1.RemediationAllowedCondition, remedyv1.ClusterReachableCondition}
	onlyReady           = []string{remedyv1.ReadyCondition}
	onlyAllowed         = []string{remedyv1.RemediationAllowedCondition}
	onlyPaused          = []string{remedyv1.PausedCondition}
	onlyReachable       = []string{remedyv1.ClusterReachableCondition}
	onlyTemplates       = []string{remedyv1.TemplatesResolvedCondition}
	onlySelectors       = []string{remedyv1.SelectorsDisjointCondition}
	onlyTakenOver       = []string{remedyv1.TakenOverCondition}
)

// conditionWords are the reasons of the conditions of a check.
var conditionWords = [...]conditionWord{
	{remedyv1.ReadyReason, onlyReady, meaning{means: "The check does its work.", remedy: "Nothing."}},
	{remedyv1.NotReadyReason, onlyReady, meaning{means: "Another condition says what is in the way.", remedy: "See the conditions that the message names."}},
	{remedyv1.EscalationExhaustedReason, onlyReady, meaning{
		means: "Every step has been tried for a target, and it is still not healthy.", remedy: "Look at the targets that the message names: no remediator can help them.",
	}},
	{remedyv1.OwnerNotActingReason, onlyReady, meaning{
		means: "An owner has been asked to remediate a Machine, and has not for long.", remedy: "Look at the owners of the Machines that the message names.",
	}},
	{remedyv1.CleaningUpReason, onlyReady, meaning{
		means:  "The check is being deleted, and stays until nothing of it is left anywhere.",
		remedy: "Nothing for a while. If it lasts, the message says what is left, and what keeps it.",
	}},

	{remedyv1.RemediationAllowedReason, onlyAllowed, meaning{means: "The limit is kept, and nobody said stop.", remedy: "Nothing."}},
	{remedyv1.TooManyUnhealthyReason, onlyAllowed, meaning{
		means: "More targets are sick than the limit allows.", remedy: "Look for a common cause. Raise the limit only if there is none.",
	}},
	{remedyv1.TooFewUnhealthyReason, onlyAllowed, meaning{
		means: "Fewer targets are sick than the range asks for.", remedy: "Nothing: `unhealthyRange` says so. Lower its first number if even a few are to be remediated.",
	}},
	{remedyv1.LimitIsZeroReason, onlyAllowed, meaning{
		means: "The limit comes to no target at all, so that nothing will ever be remediated.", remedy: "The message says how to mend it for as many targets as there are.",
	}},
	{remedyv1.StormReason, onlyAllowed, meaning{
		means: "Too many targets were sick a short while ago, and the cool-down is not over.", remedy: "Nothing: it ends by itself when the limit has been kept for long enough.",
	}},
	{remedyv1.PauseRequestedReason, onlyAllowed, meaning{
		means: "`pauseRequests` holds up new remediations.", remedy: "Remove the request from `pauseRequests` when its reason is gone.",
	}},
	{remedyv1.ObservingReason, onlyAllowed, meaning{
		means: "The check, or the manager, only observes.", remedy: "Set `mode: Enforce` when you trust what you see.",
	}},
	{remedyv1.PausedReason, allowedAndPaused, meaning{
		means: "The check, or its Cluster, is paused: nothing at all is done.", remedy: "Unpause it when the work on it is done.",
	}},
	{remedyv1.ClusterUnreachableReason, allowedAndReachable, meaning{
		means: "The cluster of the Nodes cannot be read.", remedy: "Restore the connection; see also the condition `RemoteConnectionProbe` of the Cluster.",
	}},
	{remedyv1.ClusterNotFoundReason, allowedAndReachable, meaning{
		means: "The Cluster that the check names does not exist.", remedy: "Correct the name with a new check, or delete this one.",
	}},
	{remedyv1.ClusterDeletingReason, onlyAllowed, meaning{
		means: "The Cluster is being taken down, and its Machines with it.", remedy: "Nothing: there is nothing left to repair.",
	}},
	{remedyv1.CheckDeletingReason, onlyAllowed, meaning{
		means: "The check is about to go, and cleans up before.", remedy: "Nothing: it goes when everything it left behind is cleaned up.",
	}},

	{remedyv1.NotPausedReason, onlyPaused, meaning{means: "Neither the check nor its Cluster is paused.", remedy: "Nothing."}},

	{remedyv1.ClusterReachableReason, onlyReachable, meaning{means: "The cluster of the Nodes can be read.", remedy: "Nothing."}},
	{remedyv1.ControlPlaneNotInitializedReason, onlyReachable, meaning{
		means: "The cluster of the Nodes has no API server yet.", remedy: "Nothing while it is being made. If it takes long, look at the Machines of its control plane.",
	}},
	{remedyv1.ReconnectingReason, onlyReachable, meaning{
		means: "The connection was lost and is back; Nodes and their controller speak first.", remedy: "Nothing: it ends by itself within a minute.",
	}},
	{remedyv1.KubeconfigRefusedReason, onlyReachable, meaning{
		means: "The kubeconfig would run a program or read files, which is not allowed.", remedy: "Give the Cluster a kubeconfig with embedded certificates or a token.",
	}},
	{remedyv1.NoKnownNodeReason, onlyReachable, meaning{
		means: "None of the Nodes that Machines refer to exists, so the kubeconfig may lead to another cluster, or to an empty one. " +
			"No Machine is remediated for a missing Node until one of these Nodes exists.",
		remedy: "If the kubeconfig leads to another cluster, correct the Secret `<cluster>-kubeconfig` and restart the manager: " +
			"it reads the Secret only when it connects. Without a restart it does so when the connection breaks. " +
			"If the Nodes were deleted, delete their Machines, or annotate them with `cluster.x-k8s.io/remediate-machine`.",
	}},
	{remedyv1.NodesUnreadableReason, onlyReachable, meaning{
		means: "The API server answers, and no Node can be read.",
		remedy: "The message says why: usually the user of the kubeconfig lacks a permission. Grant it; that needs no restart. " +
			"Or correct the Secret `<cluster>-kubeconfig` and restart the manager.",
	}},

	{remedyv1.TemplatesResolvedReason, onlyTemplates, meaning{means: "Requests can be made from every template.", remedy: "Nothing."}},
	{remedyv1.NoTemplatesReason, onlyTemplates, meaning{means: "The check names no template; owners remediate.", remedy: "Nothing."}},
	{remedyv1.TemplateNotFoundReason, onlyTemplates, meaning{
		means: "A template does not exist.", remedy: "Create it, or correct the reference.",
	}},
	{remedyv1.TemplateInvalidReason, onlyTemplates, meaning{
		means: "A template has no `spec.template`, or its kind is not namespaced.", remedy: "Correct the template, or use another one.",
	}},
	{remedyv1.KindNotServedReason, onlyTemplates, meaning{
		means: "The kind of a template, or of its request, is not installed.", remedy: "Install the remediator, or correct the reference.",
	}},
	{remedyv1.ForbiddenReason, onlyTemplates, meaning{
		means:  "The manager may not read a template, or not create requests.",
		remedy: "Apply the ClusterRole that the message names, with the label `" + remedyv1.AggregateToManagerLabel + ": \"true\"`.",
	}},
	{remedyv1.WrongPluralReason, onlyTemplates, meaning{
		means: "The annotation that names plurals does not name the one that is served.", remedy: "Correct the annotation `" + remedyv1.RequestPluralsAnnotation + "`.",
	}},
	{remedyv1.WrongLocationReason, onlyTemplates, meaning{
		means: "The remediator looks for its Node in its own cluster, so that templates have to be there.", remedy: "Set `templateLocation: Workload`, and put the template into the cluster of the Nodes.",
	}},

	{remedyv1.SelectorsDisjointReason, onlySelectors, meaning{means: "No other check looks after the same targets.", remedy: "Nothing."}},
	{remedyv1.SelectorsOverlapReason, onlySelectors, meaning{
		means: "Another check looks after some of the same targets.", remedy: "Change one of the selectors. The message says which check takes care of the targets now.",
	}},

	{remedyv1.TakenOverReason, onlyTakenOver, meaning{means: "Cluster API's own controller leaves this check to us, and we take care of it.", remedy: "Nothing."}},
	{remedyv1.WaitingForHandoverReason, onlyTakenOver, meaning{
		means: "Cluster API's own controller has not confirmed yet that it leaves this check to us.", remedy: "See that Cluster API's controller runs: it has to acknowledge the pause.",
	}},
	{remedyv1.ContestedReason, onlyTakenOver, meaning{
		means:  "Somebody keeps taking the pause away by which Cluster API's own controller leaves this check to us.",
		remedy: "Find out who writes the annotations of the check, as a rule a GitOps tool, and let it ignore `cluster.x-k8s.io/paused`.",
	}},
	{remedyv1.OnlyObservedReason, onlyTakenOver, meaning{
		means:  "Cluster API's own controller leaves this check to us, and the manager only observes: nobody remediates its Machines.",
		remedy: "Start the manager without `--mode=Observe`, or give the check back with `kubectl remedy release`.",
	}},
	{remedyv1.NotCleanedUpReason, onlyTakenOver, meaning{
		means: "The check was given back, and not all of our notes could be taken away. That is tried again.", remedy: "See the message for why.",
	}},
	{remedyv1.PausedByOthersReason, onlyTakenOver, meaning{
		means: "Somebody else has paused the check or its Cluster, and nobody is handed anything meanwhile.", remedy: "Unpause it when the work on it is done.",
	}},
}
