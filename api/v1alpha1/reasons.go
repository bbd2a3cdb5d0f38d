// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// TargetReason is why a target is unhealthy, or about to be, in one word. Further ones may be added in later versions.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
type TargetReason string

// Reasons of an unhealthy target, or of one that is about to be.
const (
	// HasRemediateAnnotation is a Machine whose remediation a person asked for.
	HasRemediateAnnotation TargetReason = "HasRemediateAnnotation"
	// MachineFailed is a Machine that has given up: its failureReason or failureMessage is set.
	MachineFailed TargetReason = "MachineFailed"
	// UnhealthyMachine is a Machine one of whose conditions has had a bad status for too long.
	UnhealthyMachine TargetReason = "UnhealthyMachine"
	// NodeDeleted is a Machine whose Node was there and is gone.
	NodeDeleted TargetReason = "NodeDeleted"
	// NodeStartupTimeout is a Machine whose Node has not joined in time.
	NodeStartupTimeout TargetReason = "NodeStartupTimeout"
	// UnhealthyNode is a Node one of whose conditions has had a bad status for too long.
	UnhealthyNode TargetReason = "UnhealthyNode"
)

// HoldReason is why an unhealthy target is not remediated for now, in one word. Further ones may be added in later versions.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
type HoldReason string

// Reasons to hold a target.
const (
	// HeldFrozen is a pause of the check, its Cluster or the target: nothing at all is done.
	HeldFrozen HoldReason = "Paused"
	// HeldObserving is a check, or a manager, that only observes.
	HeldObserving HoldReason = "Observing"
	// HeldPauseRequested is a check whose pauseRequests say stop.
	HeldPauseRequested HoldReason = "PauseRequested"
	// HeldTooFewUnhealthy is a closed gate: fewer targets are sick than the range asks for.
	HeldTooFewUnhealthy HoldReason = "TooFewUnhealthy"
	// HeldTooManyUnhealthy is a closed gate: more targets are sick than the limit allows.
	HeldTooManyUnhealthy HoldReason = "TooManyUnhealthy"
	// HeldStorm is a cool-down after too many targets were sick.
	HeldStorm HoldReason = "Storm"
	// HeldClusterUnreachable is a cluster that cannot be read.
	HeldClusterUnreachable HoldReason = "ClusterUnreachable"
	// HeldClusterNotFound is a Cluster that does not exist.
	HeldClusterNotFound HoldReason = "ClusterNotFound"
	// HeldClusterDeleting is a Cluster that is being taken down, and its Machines with it.
	HeldClusterDeleting HoldReason = "ClusterDeleting"
	// HeldCheckDeleting is a check that is about to go.
	HeldCheckDeleting HoldReason = "CheckDeleting"
	// HeldCoveredByOther is a target that another check takes care of.
	HeldCoveredByOther HoldReason = "CoveredByOther"
	// HeldExcluded is a Node with the label that excludes it from remediation.
	HeldExcluded HoldReason = "Excluded"
	// HeldMaxInFlight is a target that waits for its turn.
	HeldMaxInFlight HoldReason = "MaxInFlight"
	// HeldBackoff is a target whose last remediation has failed a short while ago.
	HeldBackoff HoldReason = "Backoff"
	// HeldEscalationExhausted is a target for which every step has been tried.
	HeldEscalationExhausted HoldReason = "EscalationExhausted"
	// HeldControlPlaneBusy is a Node of a control plane another Node of which is being remediated.
	HeldControlPlaneBusy HoldReason = "ControlPlaneBusy"
	// HeldQuorumAtRisk is a Node of a control plane that would lose its quorum.
	HeldQuorumAtRisk HoldReason = "QuorumAtRisk"
	// HeldQuorumUnknown is a Node of a control plane whose quorum cannot be told.
	HeldQuorumUnknown HoldReason = "QuorumUnknown"
	// HeldSingleControlPlane is the only Node of a control plane.
	HeldSingleControlPlane HoldReason = "SingleControlPlane"
	// HeldLeaving is a target that is about to go, by the autoscaler, a spot termination or a deletion.
	HeldLeaving HoldReason = "Leaving"
	// HeldStuckDeleting is a target whose deletion hangs.
	HeldStuckDeleting HoldReason = "StuckDeleting"
	// HeldOwnerRefuses is a Machine that its owner says it cannot remediate.
	HeldOwnerRefuses HoldReason = "OwnerRefuses"
	// HeldOwnerNotActing is a Machine that its owner has been asked to remediate, and has not for long.
	HeldOwnerNotActing HoldReason = "OwnerNotActing"
	// HeldNoRemediatingOwner is a Machine without an owner that could remediate it.
	HeldNoRemediatingOwner HoldReason = "NoRemediatingOwner"
	// HeldTemplateNotResolved is a template from which no request can be made; the condition TemplatesResolved says why.
	HeldTemplateNotResolved HoldReason = "TemplateNotResolved"
	// HeldRequestFailed is a request that the API server refused to create.
	HeldRequestFailed HoldReason = "RequestFailed"
	// HeldAnnotationNotRemoved is a target that was remediated as a person asked for, by an annotation that is still there.
	HeldAnnotationNotRemoved HoldReason = "AnnotationNotRemoved"
	// HeldNameTaken is a request of the same name that belongs to somebody else.
	HeldNameTaken HoldReason = "NameTaken"
	// HeldPreviousStepNotReleased is the request of the step before, which its remediator does not let go.
	HeldPreviousStepNotReleased HoldReason = "PreviousStepNotReleased"
	// HeldLeaseTaken is a Node that somebody else is working on.
	HeldLeaseTaken HoldReason = "LeaseTaken"
	// HeldLeaseRenewed is a Node that is said to be unknown while its kubelet still renews its Lease.
	HeldLeaseRenewed HoldReason = "LeaseRenewed"
	// HeldNotConfirmed is a verdict that a live look did not confirm.
	HeldNotConfirmed HoldReason = "NotConfirmed"
	// HeldRecoveryNotConfirmed is a target that is healthy again, and waits for a person to confirm it.
	HeldRecoveryNotConfirmed HoldReason = "RecoveryNotConfirmed"
)
