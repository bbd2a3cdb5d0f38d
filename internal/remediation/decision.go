// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Reason is why something is held, given up or taken back, in one word.
type Reason string

// Action is what is done about a target. The set is closed.
type Action uint8

const (
	// None is nothing to do.
	None Action = iota
	// Wait is a remediation under way.
	Wait
	// MakeRequest asks a remediator for help.
	MakeRequest
	// GiveMark hands it to its owner.
	GiveMark
	// GiveUp ends a step that has failed or taken too long: it is noted down, its remediator is told to stop, the request is deleted.
	GiveUp
	// Withdraw deletes a request that is not wanted any more.
	Withdraw
	// TakeBack takes back a mark that its owner has not acted on.
	TakeBack
	// Unmark clears everything this check wrote on a Machine that it does not look after any more.
	Unmark
)

// Why a request or a mark goes, where no hold is the cause.
const (
	// StepTimedOut means: the step has taken too long.
	StepTimedOut Reason = "StepTimedOut"
	// StepFailed means: the remediator says that it has failed.
	StepFailed Reason = "StepFailed"
	// StepChanged means: the check does not name this step any more.
	StepChanged Reason = "StepChanged"
	// Recovered means: the target is healthy again.
	Recovered Reason = "Recovered"
	// NodeVanished means: the Node does not exist any more.
	NodeVanished Reason = "NodeVanished"
	// NotLookedAfter means: the check does not look after the target any more.
	NotLookedAfter Reason = "NotLookedAfter"
)

// Decision is what is done about one target, and why. An unhealthy target has an action or a hold, and never both.
type Decision struct {
	Action Action
	// Why is the cause of an action that ends something.
	Why  Reason
	Hold Hold
	// Step is the step that is made, waited for or given up, or that is held.
	Step StepID
	// Until is when the decision is looked at anew, if nothing changes before; zero if nothing but a change matters.
	Until time.Time
	// InFlight: the target is under remediation. Budgeted: that takes up one of the places that maxInFlight gives.
	InFlight, Budgeted bool
	// Attempt is the number of the attempt that a request belongs to.
	Attempt int
	// Ledger and HealthySince are what shall be remembered; LeaseUntil is how long the Lease shall be held, zero for not at all.
	Ledger        Ledger
	NodeGoneSince time.Time
	HealthySince  time.Time
	LeaseUntil    time.Time
	// TurnUntil is how long its turn at the control plane shall be taken; zero if it needs none.
	TurnUntil time.Time
	// RenewAt is when the Lease has to be renewed, if it is held then.
	RenewAt time.Time
	// DropConfirmation: what a person has confirmed is used up, and shall not count for the next time.
	DropConfirmation bool
	// Unconfirmed: a last look did not bear out the verdict. Nothing is said of the target's health then.
	Unconfirmed bool
	// Author: this check shall stand on the target as the author of its marks.
	Author bool
	// Asked is what each guard saw, in their order, up to the one that held.
	Asked []Answer
}

// Hold is an action that is not taken. The zero value is none.
type Hold struct {
	Reason Reason
	// Until is when it ends by itself; zero if it does not.
	Until time.Time
	Seen  Seen
}

// Answer is what one guard had to say.
type Answer struct {
	Guard Reason
	Held  bool
	// Again: it was asked in the last look, about what had been read anew.
	Again bool
	Until time.Time
	Seen  Seen
}

// Seen is what a guard looked at, as far as there is anything to tell.
type Seen struct {
	// Who or what is in the way.
	Who string
	// Have is to be at least Least and at most Most.
	Have, Least, Most int
	Since             time.Time
}

// Planned is what is to be done, for all targets.
type Planned struct {
	// Decisions are in the order of the targets, Strays in the order of the strays.
	Decisions []Decision
	Strays    []Decision
	Gate      Gate
	// Storm, Replacing and Finalizer are what the check shall carry.
	Storm     Storm
	Replacing []Replacement
	Finalizer bool
	Counts    Counts
	// Slots is how many targets may be in flight, if that is Limited.
	Slots   int
	Limited bool

	// ReleaseTurn: this check has its turn at the control plane, and needs it no more.
	ReleaseTurn bool
	// turn: this check has it. rest is when anything but a decision changes by itself. elsewhere is what is in flight beside the targets.
	turn      bool
	rest      time.Time
	elsewhere int
	// WakeUp is the earliest time at which anything changes by itself; zero if nothing does.
	WakeUp time.Time
}

// Counts say how many targets are in which state.
type Counts struct {
	// Healthy targets have no request left. Remediating are under remediation and nothing holds them, Held are unhealthy and held.
	Healthy, Remediating, Held int
	// InFlight is what maxInFlight counts.
	InFlight int
}
