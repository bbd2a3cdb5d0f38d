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

// HoldReason is why an unhealthy target is not remediated for now, in one word. Further ones may be added in later versions.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
type HoldReason string

// Reasons to block a remediation.
const (
	// HeldPaused is a pause of the check, its Cluster or the target: nothing is done.
	HeldPaused HoldReason = "Paused"
	// HeldObserveMode is a check, or a manager, that only observes.
	HeldObserveMode HoldReason = "ObserveMode"
	// HeldPauseRequested is a check with pauseRequests.
	HeldPauseRequested HoldReason = "PauseRequested"
	// HeldTooFewUnhealthy means that fewer targets are unhealthy than unhealthyRange requires.
	HeldTooFewUnhealthy HoldReason = "TooFewUnhealthy"
	// HeldTooManyUnhealthy means that more targets are unhealthy than the limit allows.
	HeldTooManyUnhealthy HoldReason = "TooManyUnhealthy"
	// HeldStorm is a cool-down after too many targets were unhealthy.
	HeldStorm HoldReason = "Storm"
	// HeldClusterUnreachable is a cluster that cannot be read.
	HeldClusterUnreachable HoldReason = "ClusterUnreachable"
	// HeldClusterNotFound is a Cluster that does not exist.
	HeldClusterNotFound HoldReason = "ClusterNotFound"
	// HeldClusterDeleting is a Cluster that is being deleted, and its Machines with it.
	HeldClusterDeleting HoldReason = "ClusterDeleting"
	// HeldCheckDeleting is a check that is being deleted.
	HeldCheckDeleting HoldReason = "CheckDeleting"
	// HeldManagedByOtherCheck is a target with another responsible check.
	HeldManagedByOtherCheck HoldReason = "ManagedByOtherCheck"
	// HeldExcluded is a Node with the label that excludes it from remediation.
	HeldExcluded HoldReason = "Excluded"
	// HeldMaxInFlight is a target that is queued because maxInFlight is reached.
	HeldMaxInFlight HoldReason = "MaxInFlight"
	// HeldBackoff is a target whose last remediation has failed, and whose backoff is not over.
	HeldBackoff HoldReason = "Backoff"
	// HeldEscalationExhausted is a target for which every step has failed.
	HeldEscalationExhausted HoldReason = "EscalationExhausted"
	// HeldControlPlaneBusy is a Node of a control plane another Node of which is being remediated.
	HeldControlPlaneBusy HoldReason = "ControlPlaneBusy"
	// HeldQuorumAtRisk is a Node of a control plane that would lose its quorum.
	HeldQuorumAtRisk HoldReason = "QuorumAtRisk"
	// HeldQuorumUnknown is a Node of a control plane whose quorum is unknown.
	HeldQuorumUnknown HoldReason = "QuorumUnknown"
	// HeldSingleControlPlane is the only Node of a control plane.
	HeldSingleControlPlane HoldReason = "SingleControlPlane"
	// HeldTerminating is a target that will be deleted, by the autoscaler, a spot termination or a user.
	HeldTerminating HoldReason = "Terminating"
	// HeldStuckDeleting is a target whose deletion has not finished in time.
	HeldStuckDeleting HoldReason = "StuckDeleting"
	// HeldOwnerRefuses is a Machine whose owner reports that it cannot remediate it.
	HeldOwnerRefuses HoldReason = "OwnerRefuses"
	// HeldOwnerNotActing is a Machine that its owner has not remediated in time.
	HeldOwnerNotActing HoldReason = "OwnerNotActing"
	// HeldNoRemediatingOwner is a Machine without an owner that could remediate it.
	HeldNoRemediatingOwner HoldReason = "NoRemediatingOwner"
	// HeldTemplateNotResolved is a template from which no request can be created; the condition TemplatesResolved has the cause.
	HeldTemplateNotResolved HoldReason = "TemplateNotResolved"
	// HeldRequestFailed is a request that the API server has rejected.
	HeldRequestFailed HoldReason = "RequestFailed"
	// HeldAnnotationNotRemoved is a target that was remediated on request, and still has the annotation that requests it.
	HeldAnnotationNotRemoved HoldReason = "AnnotationNotRemoved"
	// HeldRequestNameConflict is another request of the same name.
	HeldRequestNameConflict HoldReason = "RequestNameConflict"
	// HeldPreviousStepNotReleased is the request of the previous step, which a finalizer of its remediator keeps.
	HeldPreviousStepNotReleased HoldReason = "PreviousStepNotReleased"
	// HeldNodeLeaseHeld is a Node whose Lease another component holds.
	HeldNodeLeaseHeld HoldReason = "NodeLeaseHeld"
	// HeldLeaseRenewed is a Node with Ready=Unknown whose kubelet still renews its Lease.
	HeldLeaseRenewed HoldReason = "LeaseRenewed"
	// HeldPreflightPending is a target whose preflight check runs within seconds.
	HeldPreflightPending HoldReason = "PreflightPending"
	// HeldPreflightFailed is a verdict that a preflight check did not confirm.
	HeldPreflightFailed HoldReason = "PreflightFailed"
	// HeldRecoveryNotConfirmed is a target that is healthy again, which a person has to confirm.
	HeldRecoveryNotConfirmed HoldReason = "RecoveryNotConfirmed"
)
