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
	// HasRemediateAnnotation is a Machine with the annotation that requests remediation.
	HasRemediateAnnotation TargetReason = "HasRemediateAnnotation"
	// MachineFailed is a Machine with failureReason or failureMessage.
	MachineFailed TargetReason = "MachineFailed"
	// UnhealthyMachine is a Machine with a condition that has had an unhealthy status for its timeout.
	UnhealthyMachine TargetReason = "UnhealthyMachine"
	// NodeDeleted is a Machine whose Node existed and no longer exists.
	NodeDeleted TargetReason = "NodeDeleted"
	// NodeStartupTimeout is a Machine whose Node has not joined in time.
	NodeStartupTimeout TargetReason = "NodeStartupTimeout"
	// UnhealthyNode is a Node with a condition that has had an unhealthy status for its timeout.
	UnhealthyNode TargetReason = "UnhealthyNode"
)

// BlockedReason is why an unhealthy target is not remediated for now, in one word. Further ones may be added in later versions.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
type BlockedReason string

// Reasons to block a remediation.
const (
	// BlockedPaused is a pause of the check, its Cluster or the target: nothing is done.
	BlockedPaused BlockedReason = "Paused"
	// BlockedObserveMode is a check, or a manager, that only observes.
	BlockedObserveMode BlockedReason = "ObserveMode"
	// BlockedPauseRequested is a check with pauseRequests.
	BlockedPauseRequested BlockedReason = "PauseRequested"
	// BlockedTooFewUnhealthy means that fewer targets are unhealthy than unhealthyRange requires.
	BlockedTooFewUnhealthy BlockedReason = "TooFewUnhealthy"
	// BlockedTooManyUnhealthy means that more targets are unhealthy than the limit allows.
	BlockedTooManyUnhealthy BlockedReason = "TooManyUnhealthy"
	// BlockedStorm is a cool-down after too many targets were unhealthy.
	BlockedStorm BlockedReason = "Storm"
	// BlockedClusterUnreachable is a cluster that cannot be read.
	BlockedClusterUnreachable BlockedReason = "ClusterUnreachable"
	// BlockedClockSkew is a manager whose clock differs from that of the API server.
	BlockedClockSkew BlockedReason = "ClockSkew"
	// BlockedReconnectGracePeriod is a cluster that can be read again, or a manager that has started, so Nodes get time to report their status.
	BlockedReconnectGracePeriod BlockedReason = "ReconnectGracePeriod"
	// BlockedClusterNotFound is a Cluster that does not exist.
	BlockedClusterNotFound BlockedReason = "ClusterNotFound"
	// BlockedClusterDeleting is a Cluster that is being deleted, and its Machines with it.
	BlockedClusterDeleting BlockedReason = "ClusterDeleting"
	// BlockedCheckDeleting is a check that is being deleted.
	BlockedCheckDeleting BlockedReason = "CheckDeleting"
	// BlockedManagedByOtherCheck is a target with another responsible check.
	BlockedManagedByOtherCheck BlockedReason = "ManagedByOtherCheck"
	// BlockedExcluded is a Node with the label that excludes it from remediation.
	BlockedExcluded BlockedReason = "Excluded"
	// BlockedNoStepForCondition is a target for whose cause there is no step in escalatingRemediations: it is only reported.
	BlockedNoStepForCondition BlockedReason = "NoStepForCondition"
	// BlockedMaxInFlight is a target that is queued because maxInFlight is reached.
	BlockedMaxInFlight BlockedReason = "MaxInFlight"
	// BlockedBackoff is a target whose last remediation has failed, and whose backoff is not over.
	BlockedBackoff BlockedReason = "Backoff"
	// BlockedEscalationExhausted is a target for which every step has failed.
	BlockedEscalationExhausted BlockedReason = "EscalationExhausted"
	// BlockedControlPlaneBusy is a Node of a control plane another Node of which is being remediated.
	BlockedControlPlaneBusy BlockedReason = "ControlPlaneBusy"
	// BlockedQuorumAtRisk is a Node of a control plane that would lose its quorum.
	BlockedQuorumAtRisk BlockedReason = "QuorumAtRisk"
	// BlockedQuorumUnknown is a Node of a control plane whose quorum is unknown.
	BlockedQuorumUnknown BlockedReason = "QuorumUnknown"
	// BlockedSingleControlPlane is the only Node of a control plane.
	BlockedSingleControlPlane BlockedReason = "SingleControlPlane"
	// BlockedTerminating is a target that will be deleted, by the autoscaler, a spot termination or a user.
	BlockedTerminating BlockedReason = "Terminating"
	// BlockedStuckDeleting is a target whose deletion has not finished in time.
	BlockedStuckDeleting BlockedReason = "StuckDeleting"
	// BlockedOwnerRefuses is a Machine whose owner reports that it cannot remediate it.
	BlockedOwnerRefuses BlockedReason = "OwnerRefuses"
	// BlockedOwnerNotActing is a Machine that its owner has not remediated in time.
	BlockedOwnerNotActing BlockedReason = "OwnerNotActing"
	// BlockedNoMachine is a Node without the Machine that the remediator needs.
	BlockedNoMachine BlockedReason = "NoMachine"
	// BlockedNoRemediatingOwner is a Machine without an owner that could remediate it.
	BlockedNoRemediatingOwner BlockedReason = "NoRemediatingOwner"
	// BlockedTemplateNotResolved is a template from which no request can be created; the condition TemplatesResolved has the cause.
	BlockedTemplateNotResolved BlockedReason = "TemplateNotResolved"
	// BlockedRequestFailed is a request that the API server has rejected.
	BlockedRequestFailed BlockedReason = "RequestFailed"
	// BlockedAnnotationNotRemoved is a target that was remediated on request, and still has the annotation that requests it.
	BlockedAnnotationNotRemoved BlockedReason = "AnnotationNotRemoved"
	// BlockedRequestNameConflict is another request of the same name.
	BlockedRequestNameConflict BlockedReason = "RequestNameConflict"
	// BlockedPreviousStepNotReleased is the request of the previous step, which a finalizer of its remediator keeps.
	BlockedPreviousStepNotReleased BlockedReason = "PreviousStepNotReleased"
	// BlockedNodeLeaseHeld is a Node whose Lease another component holds.
	BlockedNodeLeaseHeld BlockedReason = "NodeLeaseHeld"
	// BlockedLeaseRenewed is a Node with Ready=Unknown whose kubelet still renews its Lease.
	BlockedLeaseRenewed BlockedReason = "LeaseRenewed"
	// BlockedPreflightPending is a target whose preflight check is queued and runs within seconds.
	BlockedPreflightPending BlockedReason = "PreflightPending"
	// BlockedPreflightFailed is a verdict that a preflight check did not confirm.
	BlockedPreflightFailed BlockedReason = "PreflightFailed"
	// BlockedRecoveryNotConfirmed is a target that is healthy again, which a person has to confirm.
	BlockedRecoveryNotConfirmed BlockedReason = "RecoveryNotConfirmed"
)
