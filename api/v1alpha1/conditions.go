// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Conditions of a check.
const (
	// ReadyCondition summarizes the others: True if the check works.
	ReadyCondition = "Ready"
	// RemediationAllowedCondition is True if new remediations are allowed.
	RemediationAllowedCondition = "RemediationAllowed"
	// PausedCondition is True if the check, or its Cluster, is paused. Then nothing is done.
	PausedCondition = "Paused"
	// ClusterReachableCondition is True if the workload cluster can be read.
	ClusterReachableCondition = "ClusterReachable"
	// TemplatesResolvedCondition is True if requests can be created from every template of the check.
	TemplatesResolvedCondition = "TemplatesResolved"
	// SelectorsDisjointCondition is True if no other check selects the same targets.
	SelectorsDisjointCondition = "SelectorsDisjoint"
	// AdoptedCondition is on an in-tree MachineHealthCheck with AdoptAnnotation: True if the manager has adopted it. Until then, the
	// manager sets no other condition.
	AdoptedCondition = "Adopted"
)

// Conditions of a remediation request, which its remediator sets.
const (
	// ProcessingCondition is True while the remediator works.
	ProcessingCondition = "Processing"
	// SucceededCondition is True if the remediation has succeeded, and False if it has failed.
	SucceededCondition = "Succeeded"
	// PermanentNodeDeletionExpectedCondition is True if the remediator deletes the Node, and another one replaces it.
	PermanentNodeDeletionExpectedCondition = "PermanentNodeDeletionExpected"
)

// Reasons of Ready.
const (
	// ReadyReason: the check works.
	ReadyReason = "Ready"
	// EscalationExhaustedReason: every step has failed for a target.
	EscalationExhaustedReason = "EscalationExhausted"
	// RemediationFailedReason: the remediation of a target failed and is retried.
	RemediationFailedReason = "RemediationFailed"
	// OwnerNotActingReason: an owner has not remediated a Machine in time.
	OwnerNotActingReason = "OwnerNotActing"
	// RequestFailedReason: the request for a target could not be created.
	RequestFailedReason = "RequestFailed"
	// RemediatorNotActingReason: a remediator has written nothing to a request in time.
	RemediatorNotActingReason = "RemediatorNotActing"
	// PreviousStepNotReleasedReason: a finalizer blocks the deletion of a request.
	PreviousStepNotReleasedReason = "PreviousStepNotReleased"
	// RequestsDeletedReason: other clients delete the requests for a target before it is healthy.
	RequestsDeletedReason = "RequestsDeleted"
	// RecoveryNotConfirmedReason: a person has to confirm that a target is healthy again.
	RecoveryNotConfirmedReason = "RecoveryNotConfirmed"
	// CleaningUpReason: the check is being deleted, and waits for its cleanup. Ready is Unknown, or False if requests cannot be listed.
	CleaningUpReason = "CleaningUp"
	// NotReconciledReason: no controller of the manager reconciles the check.
	NotReconciledReason = "NotReconciled"
)

// Reasons of RemediationAllowed.
const (
	// RemediationAllowedReason: the limit is kept, and nothing blocks new remediations.
	RemediationAllowedReason = "RemediationAllowed"
	// TooFewUnhealthyReason: fewer targets are unhealthy than unhealthyRange requires.
	TooFewUnhealthyReason = "TooFewUnhealthy"
	// TooManyUnhealthyReason: more targets are unhealthy than the limit allows.
	TooManyUnhealthyReason = "TooManyUnhealthy"
	// HealthUnknownReason: the health of more targets is unknown than the limit allows, and no target is known to be unhealthy.
	HealthUnknownReason = "HealthUnknown"
	// LimitIsZeroReason: the limit is 0 targets, so that nothing is remediated.
	LimitIsZeroReason = "LimitIsZero"
	// StormReason: too many targets were unhealthy, and the cool-down is not over.
	StormReason = "Storm"
	// ClockSkewReason: the clocks of the manager and of the API server differ.
	ClockSkewReason = "ClockSkew"
	// PauseRequestedReason: pauseRequests block new remediations.
	PauseRequestedReason = "PauseRequested"
	// ObserveModeReason: the check, or the manager, only observes.
	ObserveModeReason = "ObserveMode"
	// PausedReason: the check, or its Cluster, is paused. Also a reason of Paused.
	PausedReason = "Paused"
	// ClusterUnreachableReason: the workload cluster cannot be read. Also a reason of ClusterReachable.
	ClusterUnreachableReason = "ClusterUnreachable"
	// ClusterNotFoundReason: the Cluster that the check names does not exist. Also a reason of ClusterReachable.
	ClusterNotFoundReason = "ClusterNotFound"
	// ClusterDeletingReason: the Cluster is being deleted, and its Machines with it.
	ClusterDeletingReason = "ClusterDeleting"
	// CheckDeletingReason: the check is being deleted.
	CheckDeletingReason = "CheckDeleting"
)

// NotPausedReason is the reason of Paused when neither the check nor its Cluster is paused.
const NotPausedReason = "NotPaused"

// Reasons of ClusterReachable.
const (
	// ClusterReachableReason: the workload cluster can be read.
	ClusterReachableReason = "ClusterReachable"
	// ControlPlaneNotInitializedReason: the workload cluster has no API server yet. Also a reason of RemediationAllowed.
	ControlPlaneNotInitializedReason = "ControlPlaneNotInitialized"
	// ReconnectingReason: the connection was restored, and the manager waits for fresh Node status. Also a reason of RemediationAllowed.
	ReconnectingReason = "Reconnecting"
	// KubeconfigRefusedReason: the kubeconfig runs a program, reads files or is insecure, which is not allowed.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// WrongClusterReason: none of the Nodes that Machines refer to exists, so the kubeconfig may lead to another cluster.
	WrongClusterReason = "WrongCluster"
	// NodesUnreadableReason: the API server answers, but Nodes cannot be read.
	NodesUnreadableReason = "NodesUnreadable"
)

// Reasons of TemplatesResolved.
const (
	// TemplatesResolvedReason: requests can be created from every template.
	TemplatesResolvedReason = "TemplatesResolved"
	// NoTemplatesReason: the check has no template; owners remediate.
	NoTemplatesReason = "NoTemplates"
	// TemplateNotFoundReason: a template does not exist.
	TemplateNotFoundReason = "TemplateNotFound"
	// TemplateInvalidReason: a template has no spec.template.spec, or its kind is not namespaced.
	TemplateInvalidReason = "TemplateInvalid"
	// KindNotServedReason: the kind of a template, or of its request, is not installed.
	KindNotServedReason = "KindNotServed"
	// ForbiddenReason: the manager is not allowed to read a template or to create requests; the message contains the ClusterRole to apply.
	ForbiddenReason = "Forbidden"
	// WrongPluralReason: the annotation with plurals does not contain the plural that is served.
	WrongPluralReason = "WrongPlural"
	// WrongLocationReason: the remediator does not find the Node or its Machine from where the template is.
	WrongLocationReason = "WrongLocation"
)

// Reasons of SelectorsDisjoint.
const (
	// SelectorsDisjointReason: no other check selects the same targets.
	SelectorsDisjointReason = "SelectorsDisjoint"
	// SelectorsOverlapReason: another check selects some of the same targets; the message contains the responsible check.
	SelectorsOverlapReason = "SelectorsOverlap"
	// TooManyChecksReason: so many checks are for the same Cluster that the newest of them start no remediation.
	TooManyChecksReason = "TooManyChecks"
	// OtherChecksForbiddenReason: the manager is not allowed to read checks that may select the same targets.
	OtherChecksForbiddenReason = "OtherChecksForbidden"
)

// Reasons of Adopted.
const (
	// AdoptedReason: the in-tree controller has confirmed the pause of this check.
	AdoptedReason = "Adopted"
	// WaitingForHandoverReason: the in-tree controller has not confirmed the pause of this check yet.
	WaitingForHandoverReason = "WaitingForHandover"
	// PauseConflictReason: another client has repeatedly removed the pause of this check.
	PauseConflictReason = "PauseConflict"
	// OnlyObservedReason: the manager has adopted this check and only observes, so that nothing is remediated.
	OnlyObservedReason = "OnlyObserved"
	// NotCleanedUpReason: the check was released, and not everything could be removed yet.
	NotCleanedUpReason = "NotCleanedUp"
	// PausedByOthersReason: another client has paused the check or its Cluster, so its adoption or release waits.
	PausedByOthersReason = "PausedByOthers"
)
