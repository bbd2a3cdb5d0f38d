// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"time"

	"github.com/cluster-api-remedy/cluster-api-provider-remedy/internal/health"
)

// Reason is why something is blocked, given up or canceled, in one word.
type Reason string

// Action is what is done about a target. The set is closed.
type Action uint8

const (
	// None does nothing.
	None Action = iota
	// Wait waits for a remediation.
	Wait
	// StartRequest creates a remediation request.
	StartRequest
	// RequestOwnerRemediation requests owner remediation.
	RequestOwnerRemediation
	// GiveUp ends a step that has failed or timed out: it is recorded, the remediator is stopped, the request is deleted.
	GiveUp
	// Withdraw deletes a request that is no longer wanted.
	Withdraw
	// CancelOwnerRemediation cancels owner remediation that the owner has not begun.
	CancelOwnerRemediation
	// RemoveConditions removes the conditions of this check from a Machine for which it is no longer responsible.
	RemoveConditions
)

// Reasons to end a remediation. The reasons of guards are reasons, too.
const (
	// StepTimedOut means: the step has timed out.
	StepTimedOut Reason = "StepTimedOut"
	// StepFailed means: the remediator reports that it has failed.
	StepFailed Reason = "StepFailed"
	// StepChanged means: the check no longer has this step.
	StepChanged Reason = "StepChanged"
	// Recovered means: the target is healthy again.
	Recovered Reason = "Recovered"
	// NodeNotFound means: the Node no longer exists.
	NodeNotFound Reason = "NodeNotFound"
	// NotSelected means: the check no longer selects the target.
	NotSelected Reason = "NotSelected"
)

// Decision is what is done about one target, and why. An unhealthy target has either an action or a block; only one that no owner can
// remediate may have both, and is not in flight.
type Decision struct {
	Action Action
	// Why is the reason of an action that ends something.
	Why   Reason
	Block Block
	// Step is the step of the action or of the block.
	Step StepID
	// For are the causes that a step which starts is for; none are all causes.
	For []Cause
	// Until is when the decision changes without a watch event; zero if it does not.
	Until time.Time
	// InFlight: the target is under remediation. Budgeted: it counts for maxInFlight.
	InFlight, Budgeted bool
	// Attempt is the number of the attempt that a request belongs to.
	Attempt int
	// The remediation history, NodeGoneSince and HealthySince are to be recorded.
	History       History
	NodeGoneSince time.Time
	HealthySince  time.Time
	// LeaseUntil and ControlPlaneLeaseUntil are until when the Leases of the Node and of the control plane are to be held; zero for not at all.
	LeaseUntil             time.Time
	ControlPlaneLeaseUntil time.Time
	// RenewsControlPlaneLease: the Lease of the control plane has to be renewed now.
	RenewsControlPlaneLease bool
	// RenewAt is when the Lease of the Node has to be renewed, or released.
	RenewAt time.Time
	// LeaseEnd is when the Lease of the Node ended although there is a request; zero if it has not.
	LeaseEnd time.Time
	// DropConfirmation: a confirmation of the recovery was used and has to be removed.
	DropConfirmation bool
	// Unconfirmed: a preflight check did not confirm the verdict, so it is not reported.
	Unconfirmed bool
	// MarkedBy: the conditions of the target are, or will be, those of this check.
	MarkedBy bool
	// HandsOver: owner remediation is requested because a remediator requests it in v1beta1 only, which owners do not read.
	HandsOver bool
	// OwnerRequestAt is when owner remediation will be requested for a suspect, to be recorded before; zero for all others.
	OwnerRequestAt time.Time
	// Answers are the answers of the guards, in order, up to the one that blocks.
	Answers []Answer
}

// ByOwner reports whether the owner remediates the target. It may have a request of an earlier step.
func (d *Decision) ByOwner(t *Target) bool {
	return d.InFlight && (t.Request == nil || d.Step != t.Request.Step)
}

// Block is why no action is taken. The zero value blocks nothing.
type Block struct {
	Reason Reason
	// Until is when it ends without a watch event; zero if it does not.
	Until   time.Time
	Details Details
}

// BlockedReason is why an unhealthy target is not remediated; empty if it is. While its conditions are removed, it is why they are.
func (d *Decision) BlockedReason() Reason {
	switch {
	case d.Block.Reason != "" || d.InFlight:
		return d.Block.Reason
	case d.Why == StepChanged:
		// Only the conditions of a Machine without an owner are canceled without a remediation in flight.
		return NoRemediatingOwner
	}
	return d.Why
}

// blockedWith reports whether the status reports a target with this verdict as blocked.
func (d *Decision) blockedWith(v *health.Verdict) bool {
	return v.Kind == health.Unhealthy && d.BlockedReason() != "" || v.Kind != health.Skipped && d.Block.Reason != ""
}

// Answer is the answer of one guard.
type Answer struct {
	Guard  Reason
	Blocks bool
	// Preflight: it is from a preflight check.
	Preflight bool
	Until     time.Time
	Details   Details
}

// Details are the details of a guard.
type Details struct {
	// Cause is the object or the reason that blocks, and Message is what it reports.
	Cause, Message string
	// Owner has not replaced the object yet.
	Owner string
	// Count has to be at least Min and at most Max.
	Count, Min, Max int
	Since           time.Time
}

// Planned is the result of Plan.
type Planned struct {
	// Decisions are in the order of the targets. The decisions about orphaned targets follow, in their order.
	Decisions  []Decision
	Orphans    []Decision
	LimitState LimitState
	// Storm, Replacing and Finalizer are to be recorded on the check.
	Storm     Storm
	Replacing []Replacement
	Finalizer bool
	// Kept are the names of the targets whose requests finalizers keep for longer than ReleaseTimeout, and NotActing of those whose
	// remediators have written nothing to their requests for ActingTimeout.
	Kept, NotActing []string
	Counts          Counts
	// Slots is the number of places of maxInFlight, if they are Limited.
	Slots   int
	Limited bool
	// ReleaseControlPlaneLease: this check has the Lease of the control plane and no longer needs it.
	ReleaseControlPlaneLease bool
	// leased: this check has that Lease, and no orphaned target needs it. otherWakeUp is when anything but a decision changes. inFlightElsewhere is what is in
	// flight besides the targets.
	leased            bool
	otherWakeUp       time.Time
	inFlightElsewhere int
	// WakeUp is when anything changes without a watch event; zero if nothing does.
	WakeUp time.Time
}

// Counts are the numbers of targets by state.
type Counts struct {
	// Healthy targets have no request. Blocked targets are those that the status reports as blocked. Remediating ones are in flight and not
	// blocked.
	Healthy, Remediating, Blocked int
	// InFlight is what maxInFlight limits.
	InFlight int
}
