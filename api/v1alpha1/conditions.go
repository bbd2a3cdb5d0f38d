// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Conditions of a check.
const (
	// ReadyCondition sums up the others: True if the check does its work.
	ReadyCondition = "Ready"
	// RemediationAllowedCondition is True if something new may be remediated, should it become unhealthy.
	RemediationAllowedCondition = "RemediationAllowed"
	// PausedCondition is True if the check, or its Cluster, is paused: then nothing at all is done.
	PausedCondition = "Paused"
	// ClusterReachableCondition is True if the cluster of the Nodes can be read.
	ClusterReachableCondition = "ClusterReachable"
	// TemplatesResolvedCondition is True if requests can be made from every template that the check names.
	TemplatesResolvedCondition = "TemplatesResolved"
	// SelectorsDisjointCondition is True if no other check looks after the same targets.
	SelectorsDisjointCondition = "SelectorsDisjoint"
	// TakenOverCondition is on a MachineHealthCheck of Cluster API that we are asked to take care of: True if we do. It is the only one that we
	// write there as long as Cluster API's own controller takes care of it.
	TakenOverCondition = "TakenOver"
)

// Reasons of Ready.
const (
	// ReadyReason: the check does its work.
	ReadyReason = "Ready"
	// NotReadyReason: another condition says what is in the way.
	NotReadyReason = "NotReady"
	// EscalationExhaustedReason: every step has been tried for a target, and it is still not healthy.
	EscalationExhaustedReason = "EscalationExhausted"
	// OwnerNotActingReason: an owner has been asked to remediate a Machine, and has not for long.
	OwnerNotActingReason = "OwnerNotActing"
	// CleaningUpReason: the check is being deleted, and stays until nothing of it is left anywhere.
	CleaningUpReason = "CleaningUp"
)

// Reasons of RemediationAllowed.
const (
	// RemediationAllowedReason: the limit is kept, and nobody said stop.
	RemediationAllowedReason = "RemediationAllowed"
	// TooFewUnhealthyReason: fewer targets are sick than the range asks for.
	TooFewUnhealthyReason = "TooFewUnhealthy"
	// TooManyUnhealthyReason: more targets are sick than the limit allows.
	TooManyUnhealthyReason = "TooManyUnhealthy"
	// LimitIsZeroReason: the limit rounds down to no target at all, so that nothing will ever be remediated.
	LimitIsZeroReason = "LimitIsZero"
	// StormReason: too many targets were sick a short while ago, and the cool-down is not over.
	StormReason = "Storm"
	// PauseRequestedReason: pauseRequests holds up new remediations.
	PauseRequestedReason = "PauseRequested"
	// ObservingReason: the check, or the manager, only observes.
	ObservingReason = "Observing"
	// PausedReason: the check, or its Cluster, is paused. Also a reason of Paused.
	PausedReason = "Paused"
	// ClusterUnreachableReason: the cluster of the Nodes cannot be read. Also a reason of ClusterReachable.
	ClusterUnreachableReason = "ClusterUnreachable"
	// ClusterNotFoundReason: the Cluster that the check names does not exist. Also a reason of ClusterReachable.
	ClusterNotFoundReason = "ClusterNotFound"
	// ClusterDeletingReason: the Cluster is being taken down, and its Machines with it.
	ClusterDeletingReason = "ClusterDeleting"
	// CheckDeletingReason: the check is about to go, and cleans up before.
	CheckDeletingReason = "CheckDeleting"
)

// NotPausedReason is the reason of Paused when neither the check nor its Cluster is paused.
const NotPausedReason = "NotPaused"

// Reasons of ClusterReachable.
const (
	// ClusterReachableReason: the cluster of the Nodes can be read.
	ClusterReachableReason = "ClusterReachable"
	// ControlPlaneNotInitializedReason: the cluster of the Nodes has no API server yet.
	ControlPlaneNotInitializedReason = "ControlPlaneNotInitialized"
	// ReconnectingReason: the connection was lost and is back; Nodes and their controller speak first.
	ReconnectingReason = "Reconnecting"
	// KubeconfigRefusedReason: the kubeconfig would run a program or read files, which is not allowed.
	KubeconfigRefusedReason = "KubeconfigRefused"
	// NoKnownNodeReason: none of the Nodes that Machines refer to exists, so the kubeconfig may lead to another cluster.
	NoKnownNodeReason = "NoKnownNode"
	// NodesUnreadableReason: the API server answers, and no Node can be read.
	NodesUnreadableReason = "NodesUnreadable"
)

// Reasons of TemplatesResolved.
const (
	// TemplatesResolvedReason: requests can be made from every template.
	TemplatesResolvedReason = "TemplatesResolved"
	// NoTemplatesReason: the check names none; owners remediate.
	NoTemplatesReason = "NoTemplates"
	// TemplateNotFoundReason: a template does not exist.
	TemplateNotFoundReason = "TemplateNotFound"
	// TemplateInvalidReason: a template has no spec.template, or its kind is not namespaced.
	TemplateInvalidReason = "TemplateInvalid"
	// KindNotServedReason: the kind of a template, or of its request, is not installed.
	KindNotServedReason = "KindNotServed"
	// ForbiddenReason: the manager may not read a template, or not create requests; the message names the ClusterRole to apply.
	ForbiddenReason = "Forbidden"
	// WrongPluralReason: the annotation that names plurals does not name the one that is served.
	WrongPluralReason = "WrongPlural"
	// WrongLocationReason: the remediator looks for its Node in its own cluster, so that templates have to be there.
	WrongLocationReason = "WrongLocation"
)

// Reasons of SelectorsDisjoint.
const (
	// SelectorsDisjointReason: no other check looks after the same targets.
	SelectorsDisjointReason = "SelectorsDisjoint"
	// SelectorsOverlapReason: another check looks after some of the same targets; the message says which one takes care of them.
	SelectorsOverlapReason = "SelectorsOverlap"
)

// Reasons of TakenOver.
const (
	// TakenOverReason: Cluster API's own controller has confirmed that it leaves this check to us.
	TakenOverReason = "TakenOver"
	// WaitingForHandoverReason: Cluster API's own controller has not confirmed yet that it leaves this check to us.
	WaitingForHandoverReason = "WaitingForHandover"
	// ContestedReason: somebody keeps taking the pause away by which Cluster API's own controller leaves this check to us.
	ContestedReason = "Contested"
	// OnlyObservedReason: Cluster API's own controller leaves this check to us, and the manager only observes, so that nobody takes care of it.
	OnlyObservedReason = "OnlyObserved"
	// NotCleanedUpReason: the check was given back, and not everything of ours could be taken away yet.
	NotCleanedUpReason = "NotCleanedUp"
	// PausedByOthersReason: somebody else has paused the check or its Cluster, and nobody is handed anything meanwhile.
	PausedByOthersReason = "PausedByOthers"
)
