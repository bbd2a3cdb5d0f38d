// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Situation is what a plan is based on besides the verdicts: facts that were read at one moment.
type Situation struct {
	Check Check
	// Targets are in the order of the snapshot.
	Targets []Target
	Orphans []Orphan
	// ControlPlane is that of the workload cluster.
	ControlPlane ControlPlane
	// Owners are those of Replacing.
	Owners []Owner
	// Replacing are the Machines that their owners replace, as recorded on the check.
	Replacing []Replacement
}

// Check is the check and its Cluster.
type Check struct {
	// Paused: the check or its Cluster is paused. Nothing is written.
	Paused bool
	// UnpausedAt is when the last pause of the check or its Cluster ended; zero if there was none.
	UnpausedAt time.Time
	Deleting   bool
	Cluster    ClusterState
	// Unreachable: the control plane is initialized, but the cluster cannot be read.
	Unreachable bool
	// Renewing: it is unreachable for a few seconds only, as when a connection is renewed because a token has expired.
	Renewing bool
	// Uninitialized: the Cluster has no control plane yet, or its owner has not reported it since a move, so Nodes are not read.
	Uninitialized bool
	// Reconnecting: the connection was restored, and the reconnect grace period lasts until ReconnectingUntil.
	Reconnecting      bool
	ReconnectingUntil time.Time
	Observation
	Storm         Storm
	PauseRequests []string
}

// Observation is what the manager has observed of the API server since it started.
type Observation struct {
	// KubeletsUntil is until when kubelets get time to reach the API server, after that or the manager has started.
	KubeletsUntil time.Time
	// NodesReadSince is since when the manager watches the Nodes.
	NodesReadSince time.Time
	// ClockOffset is by how much the clock of the manager is ahead of that of the API server.
	ClockOffset time.Duration
}

// ClusterState is whether the Cluster exists.
type ClusterState uint8

const (
	// ClusterFound is a Cluster that is not being deleted, or the management cluster.
	ClusterFound ClusterState = iota
	// ClusterIsDeleting is a Cluster that is being deleted.
	ClusterIsDeleting
	// ClusterIsMissing is a Cluster that does not exist.
	ClusterIsMissing
)

// Target is what matters about a target besides its health.
type Target struct {
	Name         string
	ControlPlane bool
	// Node is the name of its Node, which identifies members of etcd.
	Node string
	// CoveredBy is another responsible check; empty if it is this one. CoveredUntil is when that ends without a write; zero if it does not.
	CoveredBy    string
	CoveredUntil time.Time
	// CoveredElsewhere: that check manages the Node instead of the Machine, or the other way round, so it does not read these annotations.
	CoveredElsewhere bool
	// Unread: the target is a Node that cannot be read now. Its facts are those of the last read.
	Unread bool
	// Excluded: the Node has a label that excludes it from remediation.
	Excluded bool
	// DeletingSince is the deletion timestamp of the Machine, NodeDeletingSince that of the Node.
	DeletingSince     time.Time
	NodeDeletingSince time.Time
	Terminating       Departure
	// MachineNamespace is the namespace of its Machine; empty for a Node without a Machine.
	MachineNamespace string
	// Owner is the owner that can remediate it, as kind/name; empty if there is none.
	Owner            string
	OwnerRemediation OwnerRemediation
	// Request is the request of this check for this target; nil if there is none.
	Request *Request
	// DeletedRequests are those that other clients have deleted.
	DeletedRequests DeletedRequests
	// RequestNameConflict is another object with the name of the request. For a Node, it may be a request of this check of any kind for an earlier Node
	// of that name, because both are the same server.
	RequestNameConflict string
	History             History
	// NodeGoneSince is recorded on the Machine; zero if it is not.
	NodeGoneSince time.Time
	// UnpausedAt is when the last pause of the target ended; zero if that is not known.
	UnpausedAt time.Time
	Lease      Lease
	// Blocked is why a preflight check has blocked it, or the API server has rejected its request, in this reconcile.
	Blocked Block
	// BlockedAt is when that last happened in an earlier reconcile; zero if it did not.
	BlockedAt time.Time
	// Confirmed: a person has confirmed that it is healthy.
	Confirmed bool
}

// Departure announces that the target will be deleted.
type Departure struct {
	// Sign is a taint or an annotation; empty if there is none.
	Sign string
	// Since is when it was set; zero if that is not recorded.
	Since time.Time
}

// OwnerRemediation is the condition OwnerRemediated of a Machine.
type OwnerRemediation struct {
	// Requested: owner remediation was requested, and is not finished.
	Requested bool
	// Unhealthy: the condition HealthCheckSucceeded is False.
	Unhealthy bool
	// MarkedByThis: this check has set HealthCheckSucceeded. RequestedByThis: it has also set OwnerRemediated=False, which is still there.
	MarkedByThis, RequestedByThis bool
	// Waiting: the owner has not begun. Refused: it reports that it cannot remediate.
	Waiting bool
	Refused bool
	// OwnerReason and OwnerMessage are what the owner reports.
	OwnerReason, OwnerMessage string
	Since                     time.Time
	// HandedOverAt is when a remediator has set OwnerRemediated=False in v1beta1 only, which owners do not read; zero if none has.
	HandedOverAt time.Time
}

// Request is a remediation request of this check for one target.
type Request struct {
	// UID is only for messages.
	UID     string
	Step    StepID
	Attempt int
	Started time.Time
	// DeletingSince is its deletion timestamp; zero if there is none.
	DeletingSince time.Time
	// TimedOut: its remediator has to stop.
	TimedOut bool
	// Succeeded and Failed are reported by its remediator.
	Succeeded, Failed bool
	// NodeDeletionExpected: its remediator deletes the Node.
	NodeDeletionExpected bool
	// Acted: its remediator has written a status or a finalizer. Problem is the error that it reports, only for messages.
	Acted   bool
	Problem string
	// HealthySince is when the target was first read as healthy again; zero if it was not.
	HealthySince time.Time
}

// History is the remediation history of a target. It is recorded in annotations on the target.
type History struct {
	// Failures is how many attempts have failed since the target was healthy.
	Failures int
	// NotBefore is when the next attempt can begin.
	NotBefore time.Time
	// Tried is the last step that was given up in the present attempt; zero if none was.
	Tried StepID
}

// Lease is a Lease of a Node or of a control plane.
type Lease struct {
	// Used: this check uses it.
	Used bool
	// Holder is empty if there is none. The next field reports whether it is this check.
	Holder     string
	HeldByThis bool
	Until      time.Time
}

// Orphan is an orphaned target: this check has something on it, but it no longer exists or is no longer selected.
type Orphan struct {
	Name         string
	ControlPlane bool
	// Paused: the target is paused.
	Paused bool
	// Gone: the Node of the request no longer exists.
	Gone    bool
	Request *Request
	// Marked: the conditions of the Machine are those of this check.
	Marked bool
	// The remediation history and NodeGoneSince are recorded on the target; zero if another responsible check continues with them.
	History       History
	NodeGoneSince time.Time
	Lease         Lease
}

// Recorded reports whether something is annotated on the target.
func (o *Orphan) Recorded() bool {
	return o.Marked || o.History != (History{}) || !o.NodeGoneSince.IsZero()
}

// ControlPlane is the state of a control plane.
type ControlPlane struct {
	// Busy are names of its Nodes, or of their Machines, that another check remediates.
	Busy []string
	Etcd Etcd
	// Unread is why its Lease or its etcd members could not be read.
	Unread string
	// Lease is the Lease of the control plane, which prevents two checks from starting at the same time.
	Lease Lease
}

// Etcd is the etcd of a control plane.
type Etcd struct {
	State   EtcdState
	Members []Member
}

// EtcdState is where the members of etcd are.
type EtcdState uint8

const (
	// EtcdUnreadable means that the members could not be read. It is the zero value because it blocks.
	EtcdUnreadable EtcdState = iota
	// EtcdExternal has its members outside the cluster.
	EtcdExternal
	// EtcdStacked has its members on the Nodes of the control plane.
	EtcdStacked
)

// Member is a member of etcd.
type Member struct {
	Node string
	// Healthy and Unhealthy are both false if the state is unknown.
	Healthy, Unhealthy bool
}

// Owner is an owner that replaces Machines.
type Owner struct {
	Name string
	// Desired is how many Machines it wants, and WithNode is how many it has whose Node has joined.
	Desired, WithNode int
}

// Replacement is a Machine that its owner replaces.
type Replacement struct {
	Target, Owner string
	// GoneSince is when it was first read as deleted; zero while it exists.
	GoneSince time.Time
}

// Storm is a time of too many unhealthy targets. It is recorded in annotations on the check.
type Storm struct {
	// Since is when it began; zero if there is none. CooldownSince is since when the limit has been kept.
	Since, CooldownSince time.Time
}

// Policy is the remediation part of the spec of a check of any kind.
type Policy struct {
	Limits   Limits
	Counting Counting
	// MaxInFlight is nil for no limit.
	MaxInFlight   *intstr.IntOrString
	Backoff       Backoff
	StormCooldown time.Duration
	HealthyDelay  time.Duration
	// RecoveryConfirmed: a person has to confirm each recovery.
	RecoveryConfirmed bool
	// ReportsHealth: targets get conditions, as Machines do.
	ReportsHealth bool
	Observe       bool
	// Steps are tried by their order.
	Steps []Step
	// ReplacementTimeout is how long a deleted Machine that its owner has not replaced counts for maxInFlight.
	ReplacementTimeout time.Duration
}

// CreatesRequests reports whether a step has a template. The others are left to the owners of the targets.
func (p *Policy) CreatesRequests() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return !s.Owner })
}

// Counting is which targets are compared with the limit.
type Counting uint8

const (
	// CountNotHealthy counts every target that is not known to be healthy.
	CountNotHealthy Counting = iota
	// CountUnhealthy counts unhealthy targets and those with a request.
	CountUnhealthy
)

// Step is one way to remediate a target.
type Step struct {
	ID StepID
	// Owner: the owner of the target remediates it. Otherwise a request is created from the template.
	Owner bool
	// Timeout is 0 for no limit.
	Timeout time.Duration
	// Unresolved: no request can be created from the template.
	Unresolved bool
	// Conditions are the causes that the step is for; none are all causes.
	Conditions []Cause
	// NeedsMachineIn is the namespace in which the remediator looks for the Machine of a target; empty if it does not need one.
	NeedsMachineIn string
}

// Cause is a condition of a Node or a Machine that is unhealthy. Status is empty for each, and Reasons are empty for all.
type Cause struct {
	Type, Status string
	Reasons      []string
}

// StepID identifies a step. With another template it is another step.
type StepID struct {
	Order    int32
	Template string
}
