// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

// Reasons: what a fence waits for, and how it ended. They are reasons of the conditions Admitted and Succeeded.
const (
	// Before it is admitted.
	ReasonPaused             = "Paused"
	ReasonObserveMode        = "ObserveMode"
	ReasonTargetUnreadable   = "TargetUnreadable"
	ReasonNodeNotFound       = "NodeNotFound"
	ReasonNodeReady          = "NodeReady"
	ReasonQueued             = "Queued"
	ReasonNodeDisrupted      = "NodeDisrupted"
	ReasonTooManyFences      = "TooManyFences"
	ReasonTooManyNotReady    = "TooManyNotReady"
	ReasonBlockingCondition  = "BlockingCondition"
	ReasonControlPlane       = "ControlPlaneNotHealthy"
	ReasonProfileNotResolved = "ProfileNotResolved"

	// Something was not written. It is tried again.
	ReasonEffectFailed = "EffectFailed"

	// While it runs.
	ReasonAdmitted       = "Admitted"
	ReasonWaitingForJob  = "WaitingForJob"
	ReasonDeviceBusy     = "DeviceBusy"
	ReasonPowerDelay     = "PowerDelay"
	ReasonWaitingForNode = "WaitingForNode"
	// A Node that is Ready is drained.
	ReasonDraining = "Draining"
	// Its workload is released: the Node still reports, its Pods do not terminate yet, or are not removed yet.
	ReasonNodeStillReports  = "NodeStillReports"
	ReasonWaitingForPods    = "WaitingForPods"
	ReasonReleasing         = "Releasing"
	ReasonWaitingForNewBoot = "WaitingForNewBoot"

	// How it ended.
	ReasonRejoined         = "Rejoined"
	ReasonPoweredOffBefore = "PoweredOffBefore"
	ReasonNotSwitchedOff   = "NotSwitchedOff"
	ReasonDevicesAnswered  = "DevicesAnswered"
	ReasonCanceled         = "Canceled"
	ReasonMoved            = "Moved"
	ReasonTargetDeleted    = "TargetDeleted"
	ReasonNodeReplaced     = "NodeReplaced"
	ReasonNotIsolated      = "NotIsolated"
	ReasonNotProvenOff     = "NotProvenOff"
	ReasonNotPoweredOn     = "NotPoweredOn"
	ReasonNotRejoined      = "NotRejoined"
	ReasonNotUnisolated    = "NotUnisolated"
	ReasonWrongMachine     = "WrongMachine"
	ReasonDeviceFailed     = "DeviceFailed"
	ReasonDrainTimedOut    = "DrainTimedOut"
	ReasonNotReleased      = "NotReleased"
	ReasonNotRecovered     = "NotRecovered"
	ReasonKeptOff          = "KeptOff"
	ReasonJobNotEnding     = "JobNotEnding"
	ReasonDeviceChanged    = "DeviceChanged"
)
