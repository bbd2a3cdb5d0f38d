// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import "time"

// Situation is what a plan rests on, beside the verdicts: plain facts, read at one moment.
type Situation struct {
	Check Check
	// Targets are those of the snapshot that was judged, in the same order.
	Targets []Target
	// Strays are requests and marks of this check whose target it does not look after any more.
	Strays []Stray
	// ControlPlane is that of the cluster of the Nodes.
	ControlPlane ControlPlane
	// Owners are the owners of those Machines that are being replaced.
	Owners []Owner
	// Replacing is the memory of Machines that were handed to their owner, as the check carries it.
	Replacing []Replacement
}

// Check is what is known of the check and of the Cluster that it names.
type Check struct {
	// Frozen: the check or its Cluster is paused. Nothing is written at all.
	Frozen bool
	// ThawedAt is when the last pause of the check or its Cluster was over; zero if there was none.
	ThawedAt time.Time
	// Deleting: the check is about to go, and cleans up before.
	Deleting bool
	Cluster  ClusterState
	// Unreachable: there is a control plane, and it cannot be read.
	Unreachable bool
	// FirstLook: the connection has just come back. FirstLookUntil is how long that lasts.
	FirstLook      bool
	FirstLookUntil time.Time
	Storm          Storm
	// PauseRequests are the reasons that people gave for starting nothing new.
	PauseRequests []string
}

// ClusterState is what is known about the existence of the Cluster.
type ClusterState uint8

const (
	// ClusterFound is a Cluster that is there to stay, or the one we run in.
	ClusterFound ClusterState = iota
	// ClusterIsDeleting is a Cluster that is being taken down.
	ClusterIsDeleting
	// ClusterIsMissing is a Cluster that does not exist.
	ClusterIsMissing
)

// Target is what matters about a target beyond its health.
type Target struct {
	Name         string
	ControlPlane bool
	// Node is the name of its Node, by which control planes know their members.
	Node string
	// CoveredBy names the other check that takes care of it; empty if this one does.
	CoveredBy string
	// CoveredUntil is when that ends by itself; zero if it does not.
	CoveredUntil time.Time
	// CoveredElsewhere: that check looks after another object, the Node instead of the Machine or the other way round, and goes on from nothing that stands here.
	CoveredElsewhere bool
	// Excluded: a label on the Node keeps it from being remediated.
	Excluded bool
	// DeletingSince is when the deletion of the Machine or Node was asked for.
	DeletingSince time.Time
	Leaving       Departure
	// Owner is the owner that can remediate it, as kind/name; empty if there is none.
	Owner string
	Mark  Mark
	// Request is the request of this check for this target, if there is one.
	Request *Request
	// NameTaken names what bears the name that the request would have, and is none of ours for this target. For a Node it is also a request of
	// this very check for an earlier Node of that name, of whatever kind: whoever works on that one works on the same server.
	NameTaken string
	Ledger    Ledger
	// NodeGoneSince is what is noted down on the Machine of its Node's disappearance; zero if nothing is.
	NodeGoneSince time.Time
	// ThawedAt is when the last pause of the target itself was over; zero if none is known of.
	ThawedAt time.Time
	Lease    Lease
	// HeldBack is why it was held at the last look just now, or why its request was refused; none if it was not. Others may take its place.
	HeldBack Hold
	// Confirmed: a person has confirmed that it is healthy.
	Confirmed bool
}

// Departure is a sign that the target is about to go by itself.
type Departure struct {
	// Sign is what says so, such as a taint; empty if nothing does.
	Sign string
	// Since is when it was put there; zero where nobody wrote that down.
	Since time.Time
}

// Mark is what a Machine's conditions say about its remediation by its owner.
type Mark struct {
	// Given: the owner has been asked, and has not finished.
	Given bool
	// Unhealthy: they say that the Machine is not healthy.
	Unhealthy bool
	// Ours: this check is the author of these marks.
	Ours bool
	// Waiting: the owner has not said anything yet.
	Waiting bool
	// Refused: the owner says that it cannot.
	Refused bool
	// OwnerReason is what the owner says.
	OwnerReason string
	Since       time.Time
}

// Request is a remediation request of this check for one target.
type Request struct {
	Step    StepID
	Attempt int
	Started time.Time
	// DeletingSince is when its deletion was asked for; zero if it was not.
	DeletingSince time.Time
	// TimedOut: its remediator has been told to stop.
	TimedOut bool
	// Succeeded and Failed are what its remediator says.
	Succeeded, Failed bool
	// NodeDeletionExpected: its remediator deletes the Node on its way.
	NodeDeletionExpected bool
	// HealthySince is when the target was first seen healthy again; zero if it was not.
	HealthySince time.Time
}

// Ledger is what is remembered about a target's remediations in a row. It stands in annotations on the target.
type Ledger struct {
	// Failures is how many attempts have failed since it was healthy.
	Failures int
	// NotBefore is when the next attempt may begin.
	NotBefore time.Time
	// Tried is the last step that was given up in the present attempt; zero if none was.
	Tried StepID
}

// Lease is the Lease by which those who work on a Node take turns.
type Lease struct {
	// Used: this check takes part.
	Used bool
	// Holder has it until Until; empty if nobody has. Ours: the holder is this check.
	Holder string
	Ours   bool
	Until  time.Time
}

// Stray is what is left of this check at a target that it does not look after any more: the target is gone, or is not selected.
type Stray struct {
	Name         string
	ControlPlane bool
	// Frozen: the target is paused.
	Frozen bool
	// Gone: the Node that the request is for does not exist any more.
	Gone    bool
	Request *Request
	// Marked: this check is the author of the Machine's marks.
	Marked bool
	// Ledger and NodeGoneSince are what is noted down there; nothing if another check takes care of it, which goes on from there.
	Ledger        Ledger
	NodeGoneSince time.Time
	Lease         Lease
}

// ControlPlane is what is known of the control plane that Nodes of it must not be taken away from carelessly.
type ControlPlane struct {
	// Busy are names of its Nodes, or of their Machines, that are being remediated by any other check.
	Busy []string
	Etcd Etcd
	// Turn is the Lease by which checks take turns at the control plane: what they see of each other could be as old as their looks.
	Turn Lease
}

// Etcd is where the control plane keeps its state.
type Etcd struct {
	State   EtcdState
	Members []Member
}

// EtcdState is what is known about the members.
type EtcdState uint8

const (
	// EtcdUnreadable is the zero value, as it is the safe one: its members could not be found out.
	EtcdUnreadable EtcdState = iota
	// EtcdExternal has its members elsewhere.
	EtcdExternal
	// EtcdStacked has its members on the Nodes of the control plane.
	EtcdStacked
)

// Member is one of etcd's members.
type Member struct {
	Node string
	// Healthy: it is known to work. Unhealthy: it is known not to. Where nobody knows, neither is set.
	Healthy, Unhealthy bool
}

// Owner is what is known of an owner whose Machines are replaced.
type Owner struct {
	Name string
	// Desired is how many Machines it wants, and WithNode how many it has whose Node has joined.
	Desired, WithNode int
}

// Replacement is a Machine that was handed to its owner.
type Replacement struct {
	Target, Owner string
	// GoneSince is when it was first seen to be gone; zero while it is there.
	GoneSince time.Time
}

// Storm is a time of too many sick targets at once. It stands in annotations on the check.
type Storm struct {
	// Since is when it began; zero if there is none. CooldownSince is since when the limit has been kept again.
	Since, CooldownSince time.Time
}
