// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	remedyv1 "github.com/cluster-api-remedy/cluster-api-provider-remedy/api/v1alpha1"
	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/remediation"
)

// conditionReasons are the reasons of all conditions of a check.
var conditionReasons = slices.Concat(
	of(remedyv1.ReadyCondition,
		reason(remedyv1.ReadyReason, "No administrator action is required.", "Nothing."),
		reason(remedyv1.EscalationExhaustedReason, "Every step was tried for a target, and it is still unhealthy.",
			"Check the targets that the message names: no remediator has fixed them."),
		reason(remedyv1.RemediationFailedReason, "The remediation of a target failed and is retried.",
			"Check the targets that the message names: the remediator has not fixed them."),
		reason(remedyv1.RequestsDeletedReason, "Other clients delete the requests for a target before it is healthy.",
			"Find out which client deletes requests: the remediator, a webhook or a GitOps tool. The audit log of the API server names it."),
		reason(remedyv1.OwnerNotActingReason, "Owner remediation was requested, and the owner has not acted.",
			"Check the owners of the Machines that the message names."),
		reason(remedyv1.RequestFailedReason, "A request could not be created, usually because the API server rejected it.",
			"See `status.unhealthyTargets` for the response about each target that the message names."),
		reason(remedyv1.RemediatorNotActingReason,
			fmt.Sprintf("A remediator has written no status and no finalizer to a request within %s.", short(remediation.ActingTimeout)),
			"Check that the remediator is installed in the cluster of the request and runs. Its log has errors about the request."),
		reason(remedyv1.PreviousStepNotReleasedReason, "A finalizer blocks the deletion of a request.",
			"Check the remediator, which has to remove its finalizer."),
		reason(remedyv1.RecoveryNotConfirmedReason, "A target is healthy again, and a person has to confirm it.",
			"Check the targets that the message names, and set the annotation `"+remedyv1.ConfirmedHealthyAnnotation+"` on their Nodes."),
		reason(remedyv1.ForbiddenReason, "The manager lacks a permission for a remediation.", "Grant the permission that the message names."),
		reason(remedyv1.CleaningUpReason, "The check is being deleted, and its finalizer stays until the cleanup is complete.",
			"Nothing. If it lasts, the message names what remains and what blocks its deletion."),
		reason(remedyv1.NotReconciledReason, "No controller of the manager reconciles the check, so it has no effect.",
			"See the message: install Cluster API, or use a release of Remedy that reconciles this kind."),
	),
	of(remedyv1.RemediationAllowedCondition,
		ofGuard(remedyv1.PausedReason), ofGuard(remedyv1.CheckDeletingReason), ofGuard(remedyv1.ClusterNotFoundReason),
		ofGuard(remedyv1.ClusterDeletingReason), ofGuard(remedyv1.PauseRequestedReason), ofGuard(remedyv1.ClockSkewReason),
		ofGuard(remedyv1.ClusterUnreachableReason), ofGuard(remedyv1.TooManyUnhealthyReason), ofGuard(remedyv1.TooFewUnhealthyReason),
		ofGuard(remedyv1.StormReason),
		reason(remedyv1.RemediationAllowedReason, "The limit is met, and new remediations are not paused.", "Nothing."),
		reason(remedyv1.HealthUnknownReason,
			"The health of more targets is unknown than the limit allows, and no target is known to be unhealthy.",
			"Nothing while Machines are created or replaced. If it lasts, see why the targets are not healthy."),
		controlPlaneNotInitialized, connectionRestored,
		reason(remedyv1.LimitIsZeroReason, "The limit is 0, so no target is ever remediated.",
			"The message has the smallest limit that allows a remediation."),
		reason(remedyv1.ObserveModeReason, "The check or the manager only observes.", "Set `mode: Enforce` to remediate."),
	),
	of(remedyv1.PausedCondition,
		ofGuard(remedyv1.PausedReason),
		reason(remedyv1.NotPausedReason, "Neither the check nor its Cluster is paused.", "Nothing."),
	),
	of(remedyv1.ClusterReachableCondition,
		reason(remedyv1.ClusterReachableReason, "The cluster of the Nodes can be read.", "Nothing."),
		ofGuard(remedyv1.ClusterNotFoundReason),
		reason(remedyv1.ClusterUnreachableReason, "The cluster of the Nodes is unreachable.",
			"Restore the connection; see also the condition `RemoteConnectionProbe` of the Cluster."),
		controlPlaneNotInitialized, connectionRestored,
		reason(remedyv1.KubeconfigRefusedReason, "The kubeconfig cannot be used: its Secret is missing or cannot be read, it is incomplete, "+
			"it would run a program or read files, or it is insecure, which is not allowed.",
			"Read the message. Create the Secret, give the manager permission to get it, or give the Cluster a kubeconfig with embedded "+
				"certificates or a token."),
		reason(remedyv1.WrongClusterReason,
			"None of the Nodes that Machines refer to exists, so the kubeconfig may lead to another cluster, or to an empty one. "+
				"No Machine is remediated for a missing Node until one of these Nodes exists.",
			"If the kubeconfig leads to another cluster, correct the Secret `<cluster>-kubeconfig` and restart the manager: "+
				"it reads the Secret only when it connects. Without a restart it does so when the connection breaks. "+
				"If the Nodes were deleted, delete their Machines, or annotate them with `cluster.x-k8s.io/remediate-machine`."),
		reason(remedyv1.NodesUnreadableReason, "The API server answers, and no Node can be read.",
			"The message has the cause: usually the user of the kubeconfig lacks a permission. Grant it; that needs no restart. "+
				"Or correct the Secret `<cluster>-kubeconfig` and restart the manager."),
	),
	of(remedyv1.TemplatesResolvedCondition,
		reason(remedyv1.TemplatesResolvedReason, "Requests can be created from every template.", "Nothing."),
		reason(remedyv1.NoTemplatesReason, "The check names no template; owners remediate.", "Nothing."),
		reason(remedyv1.TemplateNotFoundReason, "A template does not exist.", "Create it, or correct the reference."),
		reason(remedyv1.TemplateInvalidReason, "A template has no `spec.template.spec`, or its kind is not namespaced.",
			"Correct the template, or use another one. Remedy copies its `spec.template.spec` to `spec` of the request; `{}` is valid."),
		reason(remedyv1.KindNotServedReason, "The kind of a template, or of its request, is not installed.",
			"Install the remediator, or correct the reference."),
		reason(remedyv1.ForbiddenReason, "The manager lacks the permission to read a template or to create requests.",
			"Apply the ClusterRole that the message names, with the label `"+remedyv1.AggregateToManagerLabel+": \"true\"`."),
		reason(remedyv1.WrongPluralReason, "The annotation `request-plurals` does not contain the served plural.",
			"Correct the annotation `"+remedyv1.RequestPluralsAnnotation+"`."),
		reason(remedyv1.WrongLocationReason,
			"The remediator does not find the Node, or its Machine, from the cluster or the namespace of the template.",
			"Create the template in the place that the message names. As `templateLocation` cannot be changed, that may need another check."),
	),
	of(remedyv1.SelectorsDisjointCondition,
		reason(remedyv1.SelectorsDisjointReason, "No other check selects the same targets.", "Nothing."),
		reason(remedyv1.SelectorsOverlapReason, "Another check selects some of the same targets.",
			"Change one of the selectors. The message names the check that is responsible for the targets."),
		reason(remedyv1.TooManyChecksReason,
			fmt.Sprintf("More than %[1]d checks are for the same Cluster. A check of Remedy that is newer than %[1]d others of its kind starts "+
				"no remediation, and changes of Nodes and Machines do not update its status.", MaxChecks),
			"Delete checks that are not needed. A ResourceQuota limits their number."),
		reason(remedyv1.OtherChecksForbiddenReason,
			"The manager is not allowed to read NodeHealthChecks of medik8s, which may select the same targets. No remediation starts.",
			"Grant the permission that the message names."),
	),
	of(remedyv1.AdoptedCondition,
		reason(remedyv1.AdoptedReason, "Remedy has adopted the check and reconciles it.", "Nothing."),
		reason(remedyv1.WaitingForHandoverReason, "The in-tree controller has not acknowledged yet that the check is paused for it.",
			"Check that the in-tree controller runs."),
		reason(remedyv1.PauseConflictReason, "The annotation that pauses the check for the in-tree controller was removed repeatedly.",
			"Find out what writes the annotations of the check, usually a GitOps tool, and configure it to ignore `cluster.x-k8s.io/paused`."),
		reason(remedyv1.OnlyObservedReason, "The check is adopted and the manager only observes: no controller remediates its Machines.",
			"Start the manager without `--mode=Observe`, or release the check with `kubectl remedy release`."),
		reason(remedyv1.NotCleanedUpReason, "The check was released, and some annotations could not be removed. The removal is retried.",
			"See the message for the cause."),
		reason(remedyv1.PausedByOthersReason, "A user or another tool has paused the check or its Cluster. It is neither adopted nor released.",
			"Unpause it when the work on it is done."),
	),
)

// Reasons of several conditions that are no guards.
var (
	controlPlaneNotInitialized = reason(remedyv1.ControlPlaneNotInitializedReason, "The cluster of the Nodes has no API server yet.",
		"Nothing while the cluster is being created. If it lasts, check the Machines of the control plane.")
	connectionRestored = reason(remedyv1.ReconnectingReason, "The connection was restored, and Nodes get time to report their status.",
		"Nothing: it ends within a minute.")
)

func of(condition string, reasons ...Reason) []Reason {
	for i := range reasons {
		reasons[i].Conditions = []string{condition}
	}
	return reasons
}

func reason(name, means, remedy string) Reason {
	return Reason{Kind: Condition, Name: name, Means: means, Remedy: remedy}
}

// ofGuard is a reason that a guard has, too.
func ofGuard(name string) Reason {
	guard := guards[slices.IndexFunc(guards, func(w Reason) bool { return w.Name == name })]
	return reason(name, guard.Means, guard.Remedy)
}
