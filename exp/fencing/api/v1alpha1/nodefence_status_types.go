// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is how far a step is.
type Phase string

// The phases of a NodeFence.
const (
	// PhaseNew: the step waits to begin.
	PhaseNew Phase = "New"
	// PhaseRunning: the step runs.
	PhaseRunning Phase = "Running"
	// PhaseDone: the step has ended.
	PhaseDone Phase = "Done"
	// PhaseFinal: everything has ended.
	PhaseFinal Phase = "Final"
	// PhaseError: the step has failed.
	PhaseError Phase = "Error"
)

// FenceStep is what a NodeFence does at present.
type FenceStep string

// The steps of a NodeFence, in their order.
const (
	// StepIsolation cuts the Node off.
	StepIsolation FenceStep = "Isolation"
	// StepPowerManagement switches it off, and proves it.
	StepPowerManagement FenceStep = "PowerManagement"
	// StepRecovery switches it on, waits until it has joined again, and undoes the isolation.
	StepRecovery FenceStep = "Recovery"
)

// Action is what a Job does to a device.
type Action string

// The actions of Jobs.
const (
	// ActionOn switches on.
	ActionOn Action = "on"
	// ActionOff switches off.
	ActionOff Action = "off"
	// ActionStatus asks for the power.
	ActionStatus Action = "status"
	// ActionRun runs a method whose success is all that matters.
	ActionRun Action = "run"
)

// Power is the answer of a device.
type Power string

// The answers of a device.
const (
	// PowerOn: the device answered that the Node has power.
	PowerOn Power = "On"
	// PowerOff: the device answered that the Node has no power.
	PowerOff Power = "Off"
	// PowerUnknown: the device did not answer.
	PowerUnknown Power = "Unknown"
)

// NodeFenceStatus is the record of a fence. Everything that is done follows from it, and is written to it before it is done.
type NodeFenceStatus struct {
	// phase is how far the step is: New, Running, Done, Final or Error.
	// +optional
	// +kubebuilder:validation:Enum=New;Running;Done;Final;Error
	Phase Phase `json:"phase,omitempty"`

	// step is what is done at present: Isolation, PowerManagement or Recovery.
	// +optional
	// +kubebuilder:validation:Enum=Isolation;PowerManagement;Recovery
	Step FenceStep `json:"step,omitempty"`

	// since is when this phase of this step began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// deadline is when this phase ends at the latest.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// node is the Node that is fenced. It is empty until the fence is admitted.
	// +optional
	Node *FencedNode `json:"node,omitempty"`

	// action is the last action, and the Job that performs it.
	// +optional
	Action *FenceAction `json:"action,omitempty"`

	// methods are what is known of each method that was used.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Methods []MethodRecord `json:"methods,omitempty"`

	// level is the position of the present level of power management.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Level int32 `json:"level,omitempty"`

	// retries is how often actions of the present method were repeated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Retries int32 `json:"retries,omitempty"`

	// restarts is how often everything was repeated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Restarts int32 `json:"restarts,omitempty"`

	// evidence is the proof that the Node was off.
	// +optional
	Evidence *Evidence `json:"evidence,omitempty"`

	// drained is when the Pods of a Node that was Ready had ended, or when their time was over.
	// +optional
	Drained *metav1.Time `json:"drained,omitempty"`

	// podsLeft are Pods that were left when the time of a drain was over, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	PodsLeft []string `json:"podsLeft,omitempty"`

	// release is what is known of the release of the workload.
	// +optional
	Release *ReleaseRecord `json:"release,omitempty"`

	// poweredOn is when every method that had switched the Node off had switched it on again.
	// +optional
	PoweredOn *metav1.Time `json:"poweredOn,omitempty"`

	// rejoined is when the Node was Ready again.
	// +optional
	Rejoined *metav1.Time `json:"rejoined,omitempty"`

	// result is how the fence ended, or will end after it is undone. It is empty while that is open.
	// +optional
	Result Result `json:"result,omitempty"`

	// reason is why.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`

	// jobs are the last ten Jobs, the oldest first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Jobs []JobRecord `json:"jobs,omitempty"`

	// conditions are Admitted, Isolated, Fenced, Released, Recovered, Processing and Succeeded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Result is how a fence ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Canceled
type Result string

// The results of a fence.
const (
	// ResultSucceeded: what was asked for was done.
	ResultSucceeded Result = "Succeeded"
	// ResultFailed: it was not.
	ResultFailed Result = "Failed"
	// ResultCanceled: the request was withdrawn before the Node was switched off.
	ResultCanceled Result = "Canceled"
)

// FencedNode is the Node of a fence, as it was when the fence was admitted.
type FencedNode struct {
	// name is the name of the Node.
	// +required
	Name string `json:"name"`

	// uid is its UID. A Node with another one is another Node.
	// +required
	UID types.UID `json:"uid"`

	// providerID is its provider ID, or that of its Machine.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// bootID identifies its last boot. With another one it has booted again.
	// +optional
	BootID string `json:"bootID,omitempty"`

	// machineName is its Machine, in this namespace. It is empty for a Node without one.
	// +optional
	MachineName string `json:"machineName,omitempty"`

	// clusterName is the Cluster that it belongs to, in this namespace. It is empty for the cluster of the manager.
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// profileName is the FenceProfile that it is fenced with.
	// +optional
	ProfileName string `json:"profileName,omitempty"`

	// row is whether that FenceProfile had a row for it. Without this row, the fence does not go on.
	// +optional
	Row bool `json:"row,omitempty"`
}

// FenceAction is an action of a device.
type FenceAction struct {
	// sequence numbers the actions of a fence. The name of the Job has it.
	// +required
	// +kubebuilder:validation:Minimum=1
	Sequence int32 `json:"sequence"`

	// method is the method of the profile.
	// +required
	Method MethodName `json:"method"`

	// action is what is done.
	// +required
	// +kubebuilder:validation:Enum=on;off;status;run
	Action Action `json:"action"`

	// startedAt is when it was recorded, before its Job was created.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// ended is whether its result is in methods.
	// +optional
	Ended bool `json:"ended,omitempty"`

	// deleted is whether its Job is deleted because it has not ended in time.
	// +optional
	Deleted bool `json:"deleted,omitempty"`
}

// MethodRecord is what is known of a method. It only grows, but for power and failures.
type MethodRecord struct {
	// name is the method of the profile.
	// +required
	Name MethodName `json:"name"`

	// step is the step that uses it: Isolation, PowerManagement or Recovery.
	// +required
	// +kubebuilder:validation:Enum=Isolation;PowerManagement;Recovery
	Step FenceStep `json:"step"`

	// powerBefore is the first answer of its device.
	// +optional
	// +kubebuilder:validation:Enum=On;Off;Unknown
	PowerBefore Power `json:"powerBefore,omitempty"`

	// power is the last answer of its device. It is empty from when an action that changes it begins until the device is asked again.
	// +optional
	// +kubebuilder:validation:Enum=On;Off;Unknown
	Power Power `json:"power,omitempty"`

	// offRequested is when this fence first switched it off. It is recorded before the Job is created.
	// +optional
	OffRequested *metav1.Time `json:"offRequested,omitempty"`

	// onSucceeded is when it was switched on again.
	// +optional
	OnSucceeded *metav1.Time `json:"onSucceeded,omitempty"`

	// ran is when a method to run has succeeded.
	// +optional
	Ran *metav1.Time `json:"ran,omitempty"`

	// confirmed is whether its device answered OFF again after the evidence was recorded, and after all Pods were terminating if they are
	// removed.
	// +optional
	Confirmed bool `json:"confirmed,omitempty"`

	// device identifies what the method switches: a hash of the agent and its parameters, or of the podTemplate. If it changes, the device
	// is asked again. If that happens after it was switched off, the fence does not use the method any more, because an answer of another
	// device proves nothing.
	// +optional
	Device string `json:"device,omitempty"`

	// failures is how often its actions have failed in this step.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// givenUp is whether it is not switched on again, because that has failed, or because nothing is known of its device any more.
	// +optional
	GivenUp bool `json:"givenUp,omitempty"`
}

// EvidenceClass is what proves that a Node is off.
type EvidenceClass string

// The classes of evidence.
const (
	// EvidencePowerOff is that every method of one level answered OFF, asked after it was switched off.
	EvidencePowerOff EvidenceClass = "PowerOff"
	// EvidenceKernelDump is that the kernel of the Node has crashed, and writes a dump.
	EvidenceKernelDump EvidenceClass = "KernelDump"
	// EvidenceStorageIsolation is that every method of isolation with storage classes answered OFF.
	EvidenceStorageIsolation EvidenceClass = "StorageIsolation"
	// EvidenceAcknowledged is that a person has confirmed that the Node is off.
	EvidenceAcknowledged EvidenceClass = "Acknowledged"
)

// Evidence is the proof that the Node, or its storage, is off.
type Evidence struct {
	// class is what proves it: PowerOff, KernelDump, StorageIsolation or Acknowledged.
	// +required
	Class EvidenceClass `json:"class"`

	// level is the position of the level of power management that answered.
	// +required
	// +kubebuilder:validation:Minimum=0
	Level int32 `json:"level"`

	// recordedAt is when the last answer was recorded.
	// +required
	RecordedAt metav1.Time `json:"recordedAt"`
}

// JobRecord is a Job of a fence.
type JobRecord struct {
	// name is the name of the Job.
	// +required
	Name string `json:"name"`

	// method is the method of the profile.
	// +required
	Method MethodName `json:"method"`

	// action is what the Job does.
	// +required
	// +kubebuilder:validation:Enum=on;off;status;run
	Action Action `json:"action"`

	// result is how it ended: Succeeded, Off, Failed or Unknown. It is empty until then.
	// +optional
	// +kubebuilder:validation:Enum=Succeeded;Off;Failed;Unknown
	Result JobResult `json:"result,omitempty"`

	// exitCode is the exit code of its container.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// endedAt is when its result was recorded.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
}

// JobResult is how a Job ended.
type JobResult string

// The results of Jobs.
const (
	// JobSucceeded: the exit code was 0.
	JobSucceeded JobResult = "Succeeded"
	// JobOff: the exit code was 2, and the output had a line "Status: OFF".
	JobOff JobResult = "Off"
	// JobFailed: the exit code was 1.
	JobFailed JobResult = "Failed"
	// JobUnknown: anything else.
	JobUnknown JobResult = "Unknown"
)
